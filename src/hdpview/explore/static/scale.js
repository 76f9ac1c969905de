// The chart of an attribute with an order: bars side by side or a line, over which ranges are drawn.

import { Bars, HEIGHT, WIDTH } from "./bars.js";
import { bound, element, percent, rounded, say, set, short } from "./parts.js";

const LINE_FROM = 12; // dates in so many bins are a line
const MOST_LETTERS = 34; // of all names together that have room beside each other
const NUMBERED = 8; // so many bars have room for their numbers
const N_TICKS = 4;
const GRIP = 7; // of a range's ends, in pixels

export class Scale {
  /** chart: told of gestures by filter(filter, moving), toggle(code, extend), tell(code, event), leave(). */
  constructor(attribute, chart) {
    Object.assign(this, { attribute, chart, n: attribute.labels.length });
    this.nValues = this.n - Number(attribute.nullable);
    this.bars = new Bars(this.n, attribute.kind === "datetime" && this.n >= LINE_FROM);
    this.svg = element("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "group",
      "aria-label": `Histogram of ${attribute.name}`,
    });
    this.group = this.svg;
    this.hits = attribute.labels.map((_, code) => this.#hit(code));
    this.svg.append(...this.bars.nodes, ...this.hits);
    this.ticks = Array.from({ length: N_TICKS }, () => element("span", {}));
    const numbered = this.n <= NUMBERED && !this.bars.isLine;
    this.numbers = numbered ? attribute.labels.map(() => element("span", {})) : [];
    const drawing = element(
      "div",
      { class: "drawing" },
      element("div", { class: "ticks", "aria-hidden": "true" }, ...this.ticks),
      this.svg,
    );
    this.nodes = [
      ...(numbered
        ? [element("div", { class: "labels under numbers-on", "aria-hidden": "true" }, ...this.numbers)]
        : []),
      drawing,
      this.#labels(),
      this.#pick(),
    ];
    this.#drag();
  }

  /**
   * Under the bars, each name at its bar. Of a few short names all, centred; otherwise the first at its left
   * end, the last at its right end, and the middle one centred.
   */
  #labels() {
    const { labels, nullable } = this.attribute;
    const last = this.nValues - 1;
    if (this.n <= NUMBERED && labels.join("").length <= MOST_LETTERS)
      return element(
        "div",
        { class: "labels under", "aria-hidden": "true" },
        ...labels.map((label, code) => element("span", { title: label, "data-of": code }, label)),
      );
    const right = `right: calc(${100 * (1 - (last + 1) / this.n)}% + ${nullable ? ".35rem" : "0rem"})`;
    const place = (code) =>
      code === 0
        ? "left: 0"
        : code === last
          ? right
          : `left: ${(100 * (code + 0.5)) / this.n}%; transform: translateX(-50%)`;
    const mark = (code, text) =>
      element("span", { title: labels[code], style: place(code), "data-of": code }, text);
    const marks = [...new Set([0, Math.floor(last / 2), last])].map((code) =>
      mark(code, bound(labels[code], code === last && code > 0)),
    );
    const missing = nullable
      ? [element("span", { title: labels.at(-1), style: "right: 0" }, this.n > 8 ? "?" : labels.at(-1))]
      : [];
    return element("div", { class: "labels placed", "aria-hidden": "true" }, ...marks, ...missing);
  }

  /** The same choice without a mouse: two lists. */
  #pick() {
    const { labels, name } = this.attribute;
    const options = (first) => [
      element("option", { value: "" }, first),
      ...labels.slice(0, this.nValues).map((label, i) => element("option", { value: i }, label)),
    ];
    this.from = element("select", { "aria-label": `${name} from` }, ...options("from"));
    this.to = element("select", { "aria-label": `${name} to` }, ...options("to"));
    const changed = () => {
      const ends = [this.from, this.to].map((list, i) =>
        list.value === "" ? i * (this.nValues - 1) : Number(list.value),
      );
      this.chart.filter(
        this.from.value === "" && this.to.value === ""
          ? null
          : { range: [Math.min(...ends), Math.max(...ends)] },
      );
    };
    this.from.addEventListener("change", changed);
    this.to.addEventListener("change", changed);
    return element("div", { class: "pick" }, this.from, "to", this.to);
  }

  /**
   * Show an answer; elements stay, and only what differs is changed. Returns whether there is anything to be
   * seen.
   */
  draw(data, filter, other, total, look) {
    this.bars.log = look.log;
    const inPercent = look.percent && total > 0;
    const unit = inPercent ? total / 100 : 1;
    const { top, marks } = this.bars.show(
      data,
      (code) => this.chart.isOff(code),
      filter?.range,
      other,
      unit,
      (code) => this.chart.differs(code),
      look.top,
    );
    this.ticks.forEach((tick, i) => {
      const [value, place] = marks[i] ?? [];
      say(
        tick,
        value === undefined ? "" : inPercent ? `${Number((value / unit).toPrecision(2))} %` : short(value),
      );
      if (place !== undefined) tick.style.top = `${100 * place}%`;
    });
    this.numbers.forEach((number, code) =>
      say(
        number,
        look.percent
          ? percent(total > 0 ? data.estimate[code] / total : 0)
          : rounded(data.estimate[code], data.lower[code], data.upper[code])[0],
      ),
    );
    this.from.value = filter?.range ? filter.range[0] : "";
    this.to.value = filter?.range ? filter.range[1] : "";
    return top > 0;
  }

  #hit(code) {
    const step = WIDTH / this.n;
    return element("rect", {
      class: "hit",
      x: code * step,
      width: step,
      y: 0,
      height: HEIGHT,
      "data-code": code,
      tabindex: code === 0 ? 0 : -1,
      role: "checkbox",
      "aria-checked": "false",
      "aria-label": this.attribute.labels[code],
      onfocus: () => this.chart.focused(code),
      onblur: () => this.chart.leave(),
      onkeydown: (event) => this.chart.key(event, code),
    });
  }

  #at(event) {
    const box = this.svg.getBoundingClientRect();
    return Math.max(0, Math.min(this.n - 1, Math.floor(((event.clientX - box.left) / box.width) * this.n)));
  }

  /** What a press at a place begins: a new range, or the brushed one is moved or gets another end. */
  #grip(event) {
    const range = this.chart.current?.range;
    const box = this.svg.getBoundingClientRect();
    const width = box.width / this.n;
    if (!range) return { kind: "new" };
    const x = event.clientX - box.left;
    const [left, right] = [range[0] * width, (range[1] + 1) * width];
    if (Math.abs(x - left) <= GRIP && right - left > 2 * GRIP) return { kind: "new", from: range[1] };
    if (Math.abs(x - right) <= GRIP && right - left > 2 * GRIP) return { kind: "new", from: range[0] };
    return x > left && x < right ? { kind: "move", range: [...range] } : { kind: "new" };
  }

  #ranged({ kind, range, from }, start, code) {
    const last = this.nValues - 1;
    const clamp = (x) => Math.max(0, Math.min(last, x));
    if (kind === "new")
      return {
        range: [Math.min(clamp(from ?? start), clamp(code)), Math.max(clamp(from ?? start), clamp(code))],
      };
    const by = Math.max(-range[0], Math.min(last - range[1], code - start));
    return { range: [range[0] + by, range[1] + by] };
  }

  #drag() {
    let start = null;
    let moved = false;
    let latest = null;
    let grip = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = this.#at(event);
      moved = false;
      grip = this.#grip(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      const code = this.#at(event);
      this.chart.tell(code, event);
      if (start === null) {
        const { kind, from } = this.#grip(event);
        set(this.svg, "data-grip", from !== undefined ? "end" : kind);
        return;
      }
      if ((code === start && !moved) || (moved && code === latest)) return; // still over the same bin
      moved = true;
      latest = code;
      this.chart.filter(this.#ranged(grip, start, code), true);
    });
    this.svg.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const code = this.#at(event);
      const from = start;
      start = null;
      if (!moved) this.chart.toggle(code, event.shiftKey);
      else this.chart.filter(this.#ranged(grip, from, code), false);
    });
    this.svg.addEventListener("pointercancel", () => {
      // the browser scrolls instead: keep what was reached, as one step
      if (start !== null && moved) this.chart.filter(this.chart.current ?? null, false);
      start = null;
    });
  }
}
