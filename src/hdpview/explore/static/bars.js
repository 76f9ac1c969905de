// The picture of a histogram. A few paths hold all its bars: a redraw changes a handful of attributes, however many values there are.

import { element, set } from "./parts.js";

export const WIDTH = 300;
export const HEIGHT = 120;
const BASE = HEIGHT - 2, DENSE_FROM = 25; // from so many values on, intervals are bands as wide as the bars
const LAYERS = ["bar", "bar faint", "bar off", "bar off faint", "whisker", "whisker off", "level", "beyond"]; // painted in this order

const tidy = (x) => Math.round(x * 100) / 100;
const box = (x, width, high, low) => `M${tidy(x)} ${tidy(high)}h${tidy(width)}V${tidy(low)}h${tidy(-width)}z`;

export class Bars {
  /** n values side by side; `nodes` belong into an SVG element of WIDTH × HEIGHT. */
  constructor(n) {
    this.n = n;
    this.dense = n >= DENSE_FROM;
    this.log = false;
    this.paths = new Map(LAYERS.map((layer) => [layer, element("path", { class: this.dense ? `${layer} dense` : layer, "vector-effect": "non-scaling-stroke" })]));
    this.brush = element("rect", { class: "brush", y: 0, height: BASE, "pointer-events": "none", visibility: "hidden" });
    this.nodes = [...this.paths.values(), element("line", { class: "axis", x1: 0, x2: WIDTH, y1: BASE, y2: BASE }), this.brush];
  }

  get step() { return WIDTH / this.n; }

  /** Show counts with their intervals; isOff(code) says which are filtered out, range (first and last code) what is brushed. Returns the scale's upper end, 0 where nothing is to be seen. */
  show({ estimate, lower, upper }, isOff, range) {
    const most = Math.max(...estimate), highest = Math.max(...upper, 1e-9), top = most < 0.5 ? highest : Math.min(highest, 1.6 * most); // of less than half a record, its interval is all there is
    const drawn = this.#outlines(estimate, lower, upper, top, isOff);
    for (const [layer, path] of this.paths) set(path, "d", drawn[layer].join(""));
    set(this.brush, "visibility", range ? "visible" : "hidden");
    if (range) { set(this.brush, "x", String(range[0] * this.step)); set(this.brush, "width", String((range[1] - range[0] + 1) * this.step)); }
    return Math.max(...upper) > 0 ? top : 0;
  }

  /** The outlines of each layer, value by value. */
  #outlines(estimate, lower, upper, top, isOff) {
    const drawn = Object.fromEntries(LAYERS.map((layer) => [layer, []]));
    const height = (value) => (this.log ? Math.log1p(value) / Math.log1p(top) : value / top);
    const y = (value) => BASE - (HEIGHT - 6) * height(Math.max(0, Math.min(value, top)));
    const width = Math.max(this.step * 0.86, 0.6), whisker = this.dense ? width : Math.min(this.step * 0.1, 3.5), arrow = Math.min(5, this.step / 2);
    for (let i = 0; i < this.n; i++) {
      const x = i * this.step + (this.step - width) / 2, middle = x + width / 2, off = isOff(i) ? " off" : "", high = y(upper[i]), low = y(lower[i]);
      if (estimate[i] > 0) {
        drawn[`bar${off}${lower[i] <= 0 ? " faint" : ""}`].push(box(x, width, y(estimate[i]), BASE));
        drawn.level.push(`M${tidy(x)} ${tidy(y(estimate[i]))}h${tidy(width)}`);
      }
      if (low > high) drawn[`whisker${off}`].push(box(middle - whisker / 2, whisker, high, low));
      if (upper[i] > top) drawn.beyond.push(`M${tidy(middle - arrow)} 4L${tidy(middle)} -3L${tidy(middle + arrow)} 4Z`); // the interval goes on beyond the picture
    }
    return drawn;
  }
}
