// The chart of a category: a row for each value, with its whole name, a bar and a number.

import { topOf } from "./bars.js";
import { element, percent, rounded, say, set } from "./parts.js";

const MOST_LETTERS = 30; // of a name that the column of names makes room for, as far as the card allows
const SHOWN = 12;
const FOUND = 40; // values listed at first, and by a search

export class Rows {
  /** chart: told of gestures by filter(filter, moving), toggle(code), tell(code, event), leave(). */
  constructor(attribute, chart) {
    Object.assign(this, { attribute, chart, n: attribute.labels.length, rows: new Map(), text: "" });
    this.nValues = this.n - Number(attribute.nullable);
    this.many = this.n > SHOWN;
    this.list = element("div", {
      class: "rows",
      role: "group",
      "aria-label": `Histogram of ${attribute.name}`,
    });
    this.more = element("div", { class: "quiet more" });
    this.group = this.list;
    this.nodes = [this.list, ...(this.many ? [this.more, this.#find()] : [])];
    this.#show(attribute.labels.map((_, code) => code).slice(0, SHOWN));
    this.#drag();
  }

  /** The elements that stand for values, by code; those that are not listed are not there. */
  get hits() {
    return [...this.rows.values()].sort((one, other) => Number(one.style.order) - Number(other.style.order));
  }

  hit(code) {
    return this.rows.get(code);
  }

  /** List these values, in this order. */
  #show(codes) {
    const wanted = new Set(codes);
    const longest = Math.max(0, ...codes.map((code) => this.attribute.labels[code].length));
    this.list.style.setProperty("--name", `${Math.min(longest + 1, MOST_LETTERS)}ch`);
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    for (const [code, row] of this.rows)
      if (!wanted.has(code)) {
        row.remove();
        this.rows.delete(code);
      }
    codes.forEach((code, place) => {
      if (!this.rows.has(code)) {
        this.rows.set(code, this.#row(code));
        this.list.append(this.rows.get(code));
      }
      this.rows.get(code).style.order = place;
    });
    if (![...this.rows.values()].some((row) => row.tabIndex === 0))
      this.hits[0]?.setAttribute("tabindex", "0");
    if (focused && !focused.isConnected) this.hits[0]?.focus();
  }

  #row(code) {
    const name = this.attribute.labels[code];
    return element(
      "div",
      {
        class: "value",
        role: "checkbox",
        "aria-checked": "false",
        "aria-label": name,
        "data-code": code,
        tabindex: -1,
        onfocus: () => this.chart.focused(code),
        onblur: () => this.chart.leave(),
        onkeydown: (event) => this.chart.key(event, code),
      },
      element("span", { class: "name", title: name }, name),
      element(
        "span",
        { class: "track" },
        element("i", { class: "fill" }),
        element("i", { class: "other" }),
        element("i", { class: "spread" }),
      ),
      element("span", { class: "number" }),
    );
  }

  /** Which values are listed: all of a few; of many those found, or the most frequent of all records. */
  #listed(data, filter, look) {
    const codes = Array.from({ length: this.n }, (_, code) => code);
    const by = (counts) => (x, y) => counts[y] - counts[x];
    const isMissing = (code) => code >= this.nValues;
    const sorted = (some, counts) =>
      look.sorted ? [...some].sort((x, y) => isMissing(x) - isMissing(y) || by(counts)(x, y)) : some;
    if (!this.many) return sorted(codes, data.estimate);
    // Charts are first drawn of all records, or nearly.
    this.first ??= [...codes].sort(by(data.estimate)).slice(0, SHOWN);
    const found = this.text
      ? codes.filter((code) => this.attribute.labels[code].toLowerCase().includes(this.text))
      : this.first;
    const chosen = (filter?.codes ?? []).filter((code) => !found.includes(code)).slice(0, SHOWN);
    const listed = [...found.slice(0, FOUND), ...chosen].sort((x, y) => x - y);
    const what = this.text
      ? `${found.length} of ${this.n} values found`
      : `The most frequent of ${this.n} values`;
    say(this.more, `${what}${found.length > FOUND ? `, ${FOUND} listed` : ""}.`);
    return sorted(listed, data.estimate);
  }

  /** A field that finds values by a part of their name; Enter picks or gives up the first. */
  #find() {
    const field = element("input", {
      type: "search",
      placeholder: "find a value…",
      "aria-label": `Add or remove a value of ${this.attribute.name}`,
      autocomplete: "off",
    });
    field.addEventListener("input", () => {
      this.text = field.value.trim().toLowerCase();
      this.chart.redraw();
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !this.text) return;
      event.preventDefault();
      const exact = this.attribute.labels.findIndex((label) => label.toLowerCase() === this.text);
      const code = exact >= 0 ? exact : this.hits.length ? Number(this.hits[0].dataset.code) : -1;
      if (code < 0 || !this.attribute.labels[code].toLowerCase().includes(this.text)) {
        say(this.more, `There is no value with “${field.value.trim().slice(0, 40)}”.`);
        return;
      }
      field.value = this.text = "";
      this.chart.toggle(code);
    });
    return element("div", { class: "pick" }, field);
  }

  /**
   * Show an answer; elements stay, and only what differs is changed. Returns whether there is anything to be
   * seen.
   */
  draw(data, filter, other, total, look, moving) {
    if (!moving || !this.first) this.#show(this.#listed(data, filter, look));
    const codes = [...this.rows.keys()];
    const pick = (values) => codes.map((code) => values[code]);
    const own = topOf({ estimate: pick(data.estimate), upper: pick(data.upper) }, other && pick(other));
    const top = Math.max(own, look.top ?? 0);
    const share = (value) => (look.log ? Math.log1p(Math.max(0, value)) / Math.log1p(top) : value / top);
    const place = (value) => `${(100 * Math.max(0, Math.min(share(value), 1))).toFixed(2)}%`;
    for (const [code, row] of this.rows) {
      const [estimate, lower, upper] = [data.estimate[code], data.lower[code], data.upper[code]];
      const [fill, mark, spread] = row.children[1].children;
      set(
        row,
        "class",
        [
          "value",
          this.chart.isOff(code) && "off",
          lower <= 0 && "faint",
          this.chart.differs(code) && "differs",
        ]
          .filter(Boolean)
          .join(" "),
      );
      set(fill, "style", `width:${place(estimate)}`);
      set(spread, "style", `left:${place(lower)};right:calc(100% - ${place(upper)})`);
      spread.classList.toggle("beyond", upper > top * 1.0001);
      set(mark, "style", other ? `left:${place(other[code])}` : "display:none");
      say(
        row.children[2],
        look.percent ? percent(total > 0 ? estimate / total : 0) : rounded(estimate, lower, upper)[0],
      );
    }
    return Math.max(...data.upper) > 0;
  }

  /** A press on one row and a release on another picks all between. */
  #drag() {
    let start = null;
    let moved = false;
    const at = (event) => {
      const rows = this.hits;
      const place = rows.findIndex((row) => event.clientY < row.getBoundingClientRect().bottom);
      return place < 0 ? rows.length - 1 : place;
    };
    const between = (from, to) => {
      const codes = this.hits
        .slice(Math.min(from, to), Math.max(from, to) + 1)
        .map((row) => Number(row.dataset.code));
      return { codes: codes.sort((x, y) => x - y) };
    };
    this.list.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      [start, moved] = [at(event), false];
      if (event.pointerType === "mouse") this.list.setPointerCapture(event.pointerId);
    });
    this.list.addEventListener("pointermove", (event) => {
      const place = at(event);
      this.chart.tell(Number(this.hits[place].dataset.code), event);
      // A finger scrolls; only a mouse that left the row where it was pressed picks several.
      if (start === null || event.pointerType !== "mouse" || (place === start && !moved)) return;
      if (moved === place) return;
      moved = place;
      this.chart.filter(between(start, place), true);
    });
    this.list.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const from = start;
      start = null;
      if (moved === false) this.chart.toggle(Number(this.hits[from].dataset.code));
      else this.chart.filter(between(from, at(event)), false);
    });
    this.list.addEventListener("pointercancel", () => {
      start = null;
    });
  }
}
