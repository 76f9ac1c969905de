// A histogram that filters: bars with whiskers, drag over bars for a range, click or press Enter on a bar to pick a value.

import { saveList } from "./picture.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300, HEIGHT = 120;

export function element(tag, attributes = {}, ...children) {
  const made = tag === "svg" || shapes.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}
const shapes = new Set(["rect", "line", "g", "title", "text", "path"]);

/** Short numbers for scales: 950, 3.2k, 1.5M. */
const short = (x) => new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 }).format(x);

export const shown = (x) => (Math.abs(x) >= 100 || Number.isInteger(x) ? Math.round(x).toLocaleString("en") : x.toLocaleString("en", { maximumFractionDigits: 1 }));

/** Words for one value: its count, its interval, and whether it means anything. */
export function words(label, estimate, lower, upper) {
  const faint = lower <= 0 && estimate > 0 ? ", not distinguishable from 0" : "";
  return `${label}: ${shown(estimate)} (${shown(lower)} to ${shown(upper)})${faint}`;
}

export class Chart {
  /** onFilter(filter, moving) is told of gestures; onSave(chart, kind) of a wish for a picture. */
  constructor(attribute, onFilter, onSave) {
    this.attribute = attribute;
    this.onFilter = onFilter;
    this.onSave = onSave;
    this.n = attribute.labels.length;
    this.nValues = attribute.nullable ? this.n - 1 : this.n;
    this.hint = attribute.ends ? "drag for a range, click for one" : "click to pick values";
    this.tip = element("div", { class: "tip", "aria-live": "off" }, this.hint);
    this.scale = element("span", { class: "quiet scale", "aria-hidden": "true" });
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "group", "aria-label": `Histogram of ${attribute.name}` });
    this.selected = element("span", { class: "quiet" });
    this.card = element("article", { class: "card", "data-attribute": attribute.name },
      element("h2", {}, element("span", { class: "name" }, attribute.name), this.selected, this.scale), this.svg, this.#labels(), this.tip, this.#pick());
    this.card.addEventListener("pointerleave", () => { this.tip.textContent = this.hint; });
    this.#drag();
  }

  get step() { return WIDTH / this.n; }

  /** Under the bars: every value's name where there is room, upright if need be; else the ends and the middle. */
  #labels() {
    const { labels, ends } = this.attribute;
    const each = (kind, texts) => element("div", { class: `labels ${kind}`, "aria-hidden": "true" }, ...texts.map((text) => element("span", { title: text }, text)));
    if (this.n <= 4 && !ends) return each("under", labels);
    if (this.n <= 16 && !ends) return each("upright", labels);
    return each("few", this.n > 2 ? [labels[0], labels[Math.floor((this.nValues - 1) / 2)], labels[this.n - 1]] : labels);
  }

  /** The same choice without a mouse: two lists for a range, or one to toggle values. */
  #pick() {
    const { labels, ends, name } = this.attribute;
    const options = (first) => [element("option", { value: "" }, first), ...labels.slice(0, ends ? this.nValues : this.n).map((label, i) => element("option", { value: i }, label))];
    if (!ends) {
      const pick = element("select", { "aria-label": `Add or remove a value of ${name}` }, ...options("pick…"));
      pick.addEventListener("change", () => { if (pick.value !== "") this.toggle(Number(pick.value)); pick.value = ""; });
      return element("div", { class: "pick" }, pick, this.#save());
    }
    this.from = element("select", { "aria-label": `${name} from` }, ...options("from"));
    this.to = element("select", { "aria-label": `${name} to` }, ...options("to"));
    const changed = () => {
      const first = this.from.value === "" ? 0 : Number(this.from.value), last = this.to.value === "" ? this.nValues - 1 : Number(this.to.value);
      this.onFilter(this.from.value === "" && this.to.value === "" ? null : { range: [Math.min(first, last), Math.max(first, last)] });
    };
    this.from.addEventListener("change", changed);
    this.to.addEventListener("change", changed);
    return element("div", { class: "pick" }, this.from, "–", this.to, this.#save());
  }

  #save() { return saveList(`the picture of ${this.attribute.name}`, ["PNG", "SVG"], (kind) => this.onSave(this, kind)); }

  draw({ estimate, lower, upper }, filter) {
    this.data = { estimate, lower, upper };
    this.filter = filter;
    const most = Math.max(...estimate, 1e-9), top = Math.min(Math.max(...upper, 1e-9), 1.6 * most);
    const y = (value) => HEIGHT - 2 - (HEIGHT - 6) * Math.min(value, top) / top;
    const parts = [], dense = this.n > 24, whisker = dense ? Math.max(this.step * 0.86, 0.6) : Math.min(this.step * 0.1, 3.5);
    for (let i = 0; i < this.n; i++) {
      const x = i * this.step, width = Math.max(this.step * 0.86, 0.6), middle = x + width / 2;
      const classes = [this.isOff(i) ? "off" : "", lower[i] <= 0 ? "faint" : "", dense ? "dense" : ""].join(" ").trim();
      const group = element("g", { class: classes },
        element("rect", { class: "bar", x, width, y: y(estimate[i]), height: HEIGHT - 2 - y(estimate[i]) }),
        element("rect", { class: "whisker", x: middle - whisker / 2, width: whisker, y: y(upper[i]), height: Math.max(0, y(lower[i]) - y(upper[i])) }));
      if (estimate[i] > 0) group.append(element("line", { class: "level", x1: x, x2: x + width, y1: y(estimate[i]), y2: y(estimate[i]), "vector-effect": "non-scaling-stroke" }));
      if (upper[i] > top && !dense) group.append(element("path", { class: "beyond", d: `M${middle - 5} 4 L${middle} -3 L${middle + 5} 4 Z` })); // the interval goes on beyond the picture
      parts.push(group);
    }
    this.scale.textContent = `up to ${short(top)}`;
    parts.push(element("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 2, y2: HEIGHT - 2 }));
    if (filter?.range) {
      const [first, last] = filter.range;
      parts.push(element("rect", { class: "brush", x: first * this.step, width: (last - first + 1) * this.step, y: 0, height: HEIGHT - 2, "pointer-events": "none" }));
    }
    for (let i = 0; i < this.n; i++) parts.push(this.#hit(i));
    const focused = this.svg.contains(document.activeElement) ? Number(document.activeElement.dataset.code) : null;
    this.svg.replaceChildren(...parts);
    if (focused !== null) this.svg.querySelector(`[data-code="${focused}"]`)?.focus();
    if (this.from) { this.from.value = filter?.range ? filter.range[0] : ""; this.to.value = filter?.range ? filter.range[1] : ""; }
    this.selected.textContent = filter ? "filtered" : "";
  }

  isOff(code) {
    const f = this.filter;
    if (!f) return false;
    if (f.range) return code < f.range[0] || code > f.range[1];
    return f.missing ? code !== this.n - 1 : !f.codes.includes(code);
  }

  #hit(code) {
    const text = words(this.attribute.labels[code], this.data.estimate[code], this.data.lower[code], this.data.upper[code]);
    const tell = () => { this.tip.textContent = text; };
    return element("rect", {
      class: "hit", x: code * this.step, width: this.step, y: 0, height: HEIGHT, "data-code": code,
      tabindex: code === 0 ? 0 : -1, role: "checkbox", "aria-checked": String(Boolean(this.filter) && !this.isOff(code)), "aria-label": text,
      onpointerenter: tell, onfocus: tell, onkeydown: (event) => this.#key(event, code),
    });
  }

  #key(event, code) {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move) { event.preventDefault(); this.svg.querySelector(`[data-code="${code + move}"]`)?.focus(); }
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.toggle(code, event.shiftKey); }
    if (event.key === "Escape") this.onFilter(null);
  }

  /** Pick a value, or give it up; on an ordered attribute, a range of that one bin (with Shift: up to it). */
  toggle(code, extend = false) {
    const f = this.filter;
    if (this.attribute.ends && code < this.nValues) {
      const range = extend && f?.range ? [Math.min(f.range[0], code), Math.max(f.range[1], code)] : [code, code];
      this.onFilter(f?.range && f.range[0] === code && f.range[1] === code ? null : { range });
    } else if (this.attribute.ends) {
      this.onFilter(f?.missing ? null : { missing: true });
    } else {
      const codes = f?.codes ?? [];
      const next = codes.includes(code) ? codes.filter((c) => c !== code) : [...codes, code].sort((a, b) => a - b);
      this.onFilter(next.length ? { codes: next } : null);
    }
  }

  #drag() {
    const at = (event) => {
      const box = this.svg.getBoundingClientRect();
      return Math.max(0, Math.min(this.n - 1, Math.floor((event.clientX - box.left) / box.width * this.n)));
    };
    let start = null, moved = false, latest = null;
    this.svg.addEventListener("pointerdown", (event) => { start = at(event); moved = false; this.svg.setPointerCapture(event.pointerId); });
    this.svg.addEventListener("pointermove", (event) => {
      const code = at(event);
      if (this.data) this.tip.textContent = words(this.attribute.labels[code], this.data.estimate[code], this.data.lower[code], this.data.upper[code]);
      if (start === null || !this.attribute.ends || (code === start && !moved)) return;
      if (moved && code === latest) return; // still over the same bin
      moved = true;
      latest = code;
      const last = this.nValues - 1;
      this.onFilter({ range: [Math.min(start, code, last), Math.min(Math.max(start, code), last)] }, true);
    });
    const end = (event) => {
      if (start === null) return;
      const code = at(event), from = start;
      start = null;
      if (!moved) this.toggle(code, event.shiftKey);
      else this.onFilter({ range: [Math.min(from, code, this.nValues - 1), Math.min(Math.max(from, code), this.nValues - 1)] }, false);
    };
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", () => { // the browser scrolls instead: keep what was reached, as one step
      if (start !== null && moved) this.onFilter(this.filter ?? null, false);
      start = null;
    });
  }
}
