// A histogram that filters: bars with whiskers, drag over bars for a range, click or press Enter on a bar to pick a value.

import { Bars, HEIGHT, WIDTH } from "./bars.js";
import { bound, brief, element, say, set, short, words } from "./parts.js";
import { saveMenu } from "./picture.js";

const NAMED = 20; // so many values of a category have room for their names
let made = 0;

export class Chart {
  /** onFilter(filter, moving) is told of gestures; onSave(chart, kind) of a wish for a picture. */
  constructor(attribute, onFilter, onSave) {
    this.attribute = attribute;
    this.onFilter = onFilter;
    this.onSave = onSave;
    this.n = attribute.labels.length;
    this.nValues = attribute.nullable ? this.n - 1 : this.n;
    this.tip = element("div", { class: "tip", "aria-hidden": "true" });
    this.scale = element("span", { class: "quiet scale", "aria-hidden": "true", title: "Records at the top of the chart" });
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "group", "aria-label": `Histogram of ${attribute.name}` });
    this.bars = new Bars(this.n);
    this.hits = attribute.labels.map((_, code) => this.#hit(code));
    this.svg.append(...this.bars.nodes, ...this.hits);
    this.selected = element("span", { class: "hidden" });
    this.note = element("span", { class: "note" });
    const unequal = attribute.unequal ? [element("span", { class: "note", title: "Bins differ in width. Heights are counts, not densities: a wide bin looks taller." }, "unequal bins")] : [];
    this.card = element("article", { class: "card", "data-attribute": attribute.name },
      element("div", { class: "head" }, element("h2", { title: attribute.name }, element("span", { class: "name" }, attribute.name)), this.selected, ...unequal, this.note, this.scale, this.#save()),
      this.svg, element("div", { class: "below" }, this.#labels(), this.tip), ...this.#pick());
    this.card.addEventListener("pointerleave", () => say(this.tip, ""));
    this.#drag();
  }

  /** Under the bars: of a category every name where there is room, upright if need be; of a scale its ends and middle. */
  #labels() {
    const { labels, ends } = this.attribute, last = this.nValues - 1;
    const under = (kind, texts) => element("div", { class: `labels ${kind}`, "aria-hidden": "true" }, ...texts.map(([text, title]) => element("span", { title }, text)));
    if (!ends && this.n <= 4 && labels.every((label) => label.length <= 14)) return under("under", labels.map((label) => [label, label]));
    if (!ends && this.n <= NAMED) return under("upright", labels.map((label) => [brief(label, 18), label]));
    if (!ends) return under("few", [[""], [`${this.nValues} values`], [this.attribute.nullable ? labels.at(-1) : ""]]);
    // Each stands under its bar: the first at its left end, the last at its right end, the middle one centred.
    const place = (code) => (code === 0 ? "left: 0" : code === last ? `right: calc(${100 * (1 - (last + 1) / this.n)}% + ${this.attribute.nullable ? ".35rem" : "0rem"})` : `left: ${100 * (code + 0.5) / this.n}%; transform: translateX(-50%)`);
    const mark = (code, text) => element("span", { title: labels[code], style: place(code), "data-of": code }, text);
    const marks = [...new Set([0, Math.floor(last / 2), last])].map((code) => mark(code, bound(labels[code], code === last && code > 0)));
    const missing = this.attribute.nullable ? [element("span", { title: labels.at(-1), style: "right: 0" }, this.n > 8 ? "?" : labels.at(-1))] : [];
    return element("div", { class: "labels placed", "aria-hidden": "true" }, ...marks, ...missing);
  }

  /** The same choice without a mouse: two lists for a range, or a field to find one of many values. */
  #pick() {
    const { labels, ends, name } = this.attribute;
    if (!ends) return this.n > NAMED ? [this.#find()] : [];
    const options = (first) => [element("option", { value: "" }, first), ...labels.slice(0, this.nValues).map((label, i) => element("option", { value: i }, label))];
    this.from = element("select", { "aria-label": `${name} from` }, ...options("from"));
    this.to = element("select", { "aria-label": `${name} to` }, ...options("to"));
    const changed = () => {
      const first = this.from.value === "" ? 0 : Number(this.from.value), last = this.to.value === "" ? this.nValues - 1 : Number(this.to.value);
      this.onFilter(this.from.value === "" && this.to.value === "" ? null : { range: [Math.min(first, last), Math.max(first, last)] });
    };
    this.from.addEventListener("change", changed);
    this.to.addEventListener("change", changed);
    return [element("div", { class: "pick" }, this.from, "–", this.to)];
  }

  /** A field that offers values while one types, and picks the one typed or chosen. */
  #find() {
    const { labels, name } = this.attribute, id = `values-${made += 1}`;
    const field = element("input", { list: id, placeholder: "find a value…", "aria-label": `Add or remove a value of ${name}`, autocomplete: "off" });
    const choose = () => {
      const code = labels.indexOf(field.value.trim());
      if (code < 0) { say(this.tip, field.value ? `There is no value “${brief(field.value, 40)}”.` : ""); return; }
      field.value = "";
      this.toggle(code);
    };
    field.addEventListener("change", choose);
    field.addEventListener("input", (event) => { if (!event.inputType || event.inputType === "insertReplacementText") choose(); }); // chosen from the list, not typed
    return element("div", { class: "pick" }, field, element("datalist", { id }, ...labels.map((label) => element("option", { value: label }))));
  }

  #save() { return saveMenu(`the picture of ${this.attribute.name}`, ["PNG", "SVG"], (kind) => this.onSave(this, kind), ""); }

  /** Show an answer. Elements stay and only what differs is changed, so that charts keep up with the mouse and the focus stays where it is. */
  draw(data, filter, inferredFrom = []) {
    this.data = data;
    this.filter = filter;
    const top = this.bars.show(data, (code) => this.isOff(code), filter?.range);
    say(this.scale, top ? `up to ${short(top)}` : "no records");
    this.hits.forEach((hit, code) => {
      set(hit, "aria-label", this.#words(code));
      set(hit, "aria-checked", String(Boolean(filter) && !this.isOff(code)));
    });
    if (this.from) { this.from.value = filter?.range ? filter.range[0] : ""; this.to.value = filter?.range ? filter.range[1] : ""; }
    say(this.selected, filter ? "filtered" : "");
    say(this.note, inferredFrom.length ? "inferred" : "");
    set(this.note, "title", inferredFrom.length ? `Not counted together with ${inferredFrom.join(", ")}: how they go together is inferred, and may be flatter than it is.` : "");
    this.card.classList.toggle("filtered", Boolean(filter));
  }

  /** Draw heights in proportion to counts, or to their logarithms. */
  rescale(log) {
    this.bars.log = log;
    set(this.scale, "title", log ? "Records at the top of the chart; heights are logarithms" : "Records at the top of the chart");
    if (this.data) this.bars.show(this.data, (code) => this.isOff(code), this.filter?.range);
  }

  #words(code) { return words(this.attribute.labels[code], this.data.estimate[code], this.data.lower[code], this.data.upper[code]); }

  isOff(code) {
    const f = this.filter;
    if (!f) return false;
    if (f.range) return code < f.range[0] || code > f.range[1];
    return f.missing ? code !== this.n - 1 : !f.codes.includes(code);
  }

  #hit(code) {
    const step = WIDTH / this.n, tell = () => { if (this.data) say(this.tip, this.#words(code)); };
    const focused = () => { tell(); this.hits.forEach((hit, other) => set(hit, "tabindex", other === code ? "0" : "-1")); }; // Tab comes back to the bar it left
    return element("rect", {
      class: "hit", x: code * step, width: step, y: 0, height: HEIGHT, "data-code": code, tabindex: code === 0 ? 0 : -1, role: "checkbox",
      "aria-checked": "false", "aria-label": this.attribute.labels[code], onpointerenter: tell, onfocus: focused, onblur: () => say(this.tip, ""), onkeydown: (event) => this.#key(event, code),
    });
  }

  #key(event, code) {
    const far = Math.max(1, Math.round(this.n / 10)), last = this.n - 1;
    const to = { ArrowRight: code + 1, ArrowLeft: code - 1, PageUp: Math.min(last, code + far), PageDown: Math.max(0, code - far), Home: 0, End: last }[event.key];
    if (to !== undefined) { event.preventDefault(); this.hits[to]?.focus(); }
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
      if (this.data) say(this.tip, this.#words(code));
      if (start === null || !this.attribute.ends || (code === start && !moved)) return;
      if (moved && code === latest) return; // still over the same bin
      moved = true;
      latest = code;
      const last = this.nValues - 1;
      this.onFilter({ range: [Math.min(start, code, last), Math.min(Math.max(start, code), last)] }, true);
    });
    const release = (event) => {
      if (start === null) return;
      const code = at(event), from = start;
      start = null;
      if (!moved) this.toggle(code, event.shiftKey);
      else this.onFilter({ range: [Math.min(from, code, this.nValues - 1), Math.min(Math.max(from, code), this.nValues - 1)] }, false);
    };
    this.svg.addEventListener("pointerup", release);
    this.svg.addEventListener("pointercancel", () => { // the browser scrolls instead: keep what was reached, as one step
      if (start !== null && moved) this.onFilter(this.filter ?? null, false);
      start = null;
    });
  }
}
