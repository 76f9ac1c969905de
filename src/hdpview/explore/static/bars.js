// The picture of a histogram. A few paths hold all its bars, so a redraw changes a handful of attributes,
// however many values there are.

import { element, set, ticks } from "./parts.js";

export const WIDTH = 300;
export const HEIGHT = 120;
const BASE = HEIGHT - 2;
const ROOM = HEIGHT - 6;
const DENSE_FROM = 25; // from so many values on, intervals are bands as wide as the bars
const LAYERS = [
  "rule",
  "bar",
  "bar faint",
  "bar off",
  "bar off faint",
  "whisker",
  "whisker off",
  "level",
  "line",
  "beyond",
  "other",
  "differs",
];

const tidy = (x) => Math.round(x * 100) / 100;
const box = (x, width, high, low) => `M${tidy(x)} ${tidy(high)}h${tidy(width)}V${tidy(low)}h${tidy(-width)}z`;

/** Where the scale of some counts ends: a long interval may go on beyond it. */
export function topOf({ estimate, upper }, other) {
  const most = Math.max(...estimate, ...(other ?? []));
  const highest = Math.max(...upper, 1e-9);
  // Of less than half a record, its interval is all there is.
  return most < 0.5 ? highest : Math.max(Math.min(highest, 1.6 * most), most);
}

/** Round values of a scale that ends at `top`, of which `unit` counts as one. */
export function scaleTicks(top, unit, log) {
  if (!log) return ticks(top / unit).map((value) => value * unit);
  const powers = Array.from(
    { length: Math.max(0, Math.floor(Math.log10(top / unit)) + 1) },
    (_, i) => 10 ** i * unit,
  );
  return powers.filter((_, i) => (powers.length - 1 - i) % Math.ceil(powers.length / 4) === 0);
}

export class Bars {
  /**
   * n values side by side, of a line where `isLine`; `nodes` belong into an SVG element of WIDTH × HEIGHT.
   */
  constructor(n, isLine = false) {
    Object.assign(this, { n, isLine, dense: n >= DENSE_FROM, log: false });
    const path = (layer) =>
      element("path", {
        class: this.dense ? `${layer} dense` : layer,
        "vector-effect": "non-scaling-stroke",
      });
    this.paths = new Map(LAYERS.map((layer) => [layer, path(layer)]));
    this.brush = element("rect", {
      class: "brush",
      y: 0,
      height: BASE,
      "pointer-events": "none",
      visibility: "hidden",
    });
    const axis = element("line", { class: "axis", x1: 0, x2: WIDTH, y1: BASE, y2: BASE });
    this.nodes = [...this.paths.values(), axis, this.brush];
  }

  get step() {
    return WIDTH / this.n;
  }

  /** Where a value lies, from the top. */
  y(value, top) {
    const height = this.log ? Math.log1p(Math.max(0, value)) / Math.log1p(top) : value / top;
    return BASE - ROOM * Math.max(0, Math.min(height, 1));
  }

  /**
   * Show counts with their intervals. isOff(code) says which are filtered out, range (first and last code)
   * what is brushed; other: counts to compare with; unit: what the scale counts; differs(code): whether to
   * mark a value; least: how far the scale reaches at least. Returns the scale's end and its ticks as [value,
   * place from the top as a share]; the end is 0 where nothing is to be seen.
   */
  show(data, isOff, range, other, unit = 1, differs = () => false, least = 0) {
    const top = Math.max(topOf(data, other), least);
    const marks = scaleTicks(top, unit, this.log);
    const drawn = this.#outlines(data, top, isOff);
    drawn.rule.push(...marks.map((value) => `M0 ${tidy(this.y(value, top))}h${WIDTH}`));
    if (other) drawn.other.push(this.#outline(other, top));
    for (let i = 0; i < this.n; i++)
      if (differs(i)) drawn.differs.push(`M${tidy(i * this.step)} ${BASE + 1}h${tidy(this.step)}`);
    for (const [layer, path] of this.paths) set(path, "d", drawn[layer].join(""));
    set(this.brush, "visibility", range ? "visible" : "hidden");
    if (range) {
      set(this.brush, "x", String(range[0] * this.step));
      set(this.brush, "width", String((range[1] - range[0] + 1) * this.step));
    }
    const isEmpty = Math.max(...data.upper) <= 0;
    return {
      top: isEmpty ? 0 : top,
      marks: isEmpty ? [] : marks.map((value) => [value, this.y(value, top) / HEIGHT]),
    };
  }

  /** The outline of other counts, as steps. */
  #outline(counts, top) {
    const steps = counts.map(
      (value, i) => `${i ? "V" : `M0 `}${tidy(this.y(value, top))}H${tidy((i + 1) * this.step)}`,
    );
    return steps.join("");
  }

  /** The outlines of each layer, value by value. */
  #outlines({ estimate, lower, upper }, top, isOff) {
    const drawn = Object.fromEntries(LAYERS.map((layer) => [layer, []]));
    const y = (value) => this.y(value, top);
    const width = Math.max(this.step * 0.86, 0.6);
    const arrow = Math.min(5, this.step / 2);
    const whisker = this.dense ? width : Math.min(this.step * 0.1, 3.5);
    for (let i = 0; i < this.n; i++) {
      const x = i * this.step + (this.step - width) / 2;
      const middle = x + width / 2;
      const off = isOff(i) ? " off" : "";
      const high = y(upper[i]);
      const low = y(lower[i]);
      const at = y(estimate[i]);
      if (this.isLine) drawn.line.push(`${i ? "L" : "M"}${tidy(middle)} ${tidy(at)}`);
      else if (estimate[i] > 0) {
        drawn[`bar${off}${lower[i] <= 0 ? " faint" : ""}`].push(box(x, width, at, BASE));
        drawn.level.push(`M${tidy(x)} ${tidy(at)}h${tidy(width)}`);
      }
      if (low > high)
        drawn[`whisker${off}`].push(
          box(
            this.isLine ? i * this.step : middle - whisker / 2,
            this.isLine ? this.step : whisker,
            high,
            low,
          ),
        );
      // The interval goes on beyond the picture.
      if (upper[i] > top * 1.0001 && !this.isLine)
        drawn.beyond.push(`M${tidy(middle - arrow)} 4L${tidy(middle)} -3L${tidy(middle + arrow)} 4Z`);
    }
    if (this.isLine && Math.max(...upper) > top * 1.0001) drawn.beyond.push(`M145 4L150 -3L155 4Z`);
    return drawn;
  }
}
