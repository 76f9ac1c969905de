// The card of an attribute: a chart that filters, and what can be done with it.

import { topOf } from "./bars.js";
import { movable } from "./drag.js";
import { about, element, percent, say, set, words } from "./parts.js";
import { menu } from "./picture.js";
import { Rows } from "./rows.js";
import { Scale } from "./scale.js";

const UNEQUAL = "Bins differ in width. Heights are counts, not densities: a wide bin looks taller.";

export class Chart {
  /**
   * page: told of filters by filter(name, filter, moving), of other wishes by arrange(name, how),
   * arrangeBeside(name, other, isAfter), measureBy(name) and savePicture(chart, kind). beside: the name of
   * another view whose counts the chart shows; it is not moved or arranged by itself.
   */
  constructor(attribute, page, beside = null) {
    Object.assign(this, {
      attribute,
      page,
      beside,
      n: attribute.labels.length,
      look: { log: false, percent: false, sorted: false },
    });
    this.nValues = this.n - Number(attribute.nullable);
    this.tip = element("div", { class: "tip", "aria-hidden": "true" });
    this.empty = element("span", { class: "quiet scale" });
    this.selected = element("span", { class: "hidden" });
    this.note = element("span", { class: "note" });
    this.clear = element(
      "button",
      {
        class: "bare clear",
        "aria-label": `Clear ${attribute.name}`,
        title: "Remove this filter",
        hidden: true,
        onclick: () => this.filter(null),
      },
      "✕",
    );
    this.body = attribute.ends ? new Scale(attribute, this) : new Rows(attribute, this);
    const unequal = attribute.unequal
      ? [element("span", { class: "note", title: UNEQUAL }, "unequal bins")]
      : [];
    const { name } = this.attribute;
    const title = element(
      "h2",
      { title: beside ?? name },
      element("span", { class: "name" }, beside ?? name),
    );
    const told = [title, this.selected, ...unequal, this.note, this.empty];
    const head = beside ? told : [this.#handle(), ...told, this.clear, this.#menu()];
    this.card = element(
      "article",
      { class: "card", ...(beside ? { "data-beside": name } : { "data-attribute": name }) },
      element("div", { class: "head" }, ...head),
      ...this.body.nodes,
      this.tip,
    );
    if (beside) this.body.group.setAttribute("aria-label", `Histogram of ${name} in ${beside}`);
    else
      movable(
        this.handle,
        this.card,
        (how) => page.arrange(name, how),
        (other, isAfter) => page.arrangeBeside(name, other, isAfter),
      );
    this.card.addEventListener("pointerleave", () => this.leave());
  }

  #handle() {
    this.handle = element(
      "button",
      {
        class: "bare handle",
        "aria-label": `Move ${this.attribute.name}: drag, or press arrow keys`,
        title: "Drag to move",
      },
      "⠿",
    );
    return this.handle;
  }

  #menu() {
    const { name } = this.attribute;
    const arrange = (how) => () => this.page.arrange(name, how);
    const picture = (kind) => [
      `Save as ${kind}`,
      `Save the picture of ${name} as ${kind}`,
      () => this.page.savePicture(this, kind),
    ];
    return menu(`More on ${name}`, "⋯", [
      ["Enlarge or shrink", `Enlarge or shrink ${name}`, arrange("enlarge")],
      ["Pin or unpin", `Pin or unpin ${name}`, arrange("pin")],
      ["Put first", `Put ${name} first`, arrange("front")],
      ["Move earlier", `Move ${name} earlier`, arrange("earlier")],
      ["Move later", `Move ${name} later`, arrange("later")],
      ["Hide", `Hide ${name}`, arrange("hide")],
      ["Rates and means by this", `Rates and means by ${name}`, () => this.page.measureBy(name)],
      picture("PNG"),
      picture("SVG"),
    ]);
  }

  /** What the chart is filtered by, asked for or shown. */
  get current() {
    return this.page.state.filters[this.attribute.name] ?? null;
  }

  filter(filter, moving = false) {
    this.page.filter(this.attribute.name, filter, moving);
  }

  /**
   * Show an answer. data: counts with their intervals; filter: of this attribute; inferredFrom: attributes
   * that were not counted together with it; other: counts to compare with, and what they are called; moving:
   * a gesture goes on.
   */
  draw(data, filter, inferredFrom = [], other = null, moving = false) {
    this.shown = { data, filter, other };
    this.difference = null; // of what was shown before
    this.total = data.estimate.reduce((total, value) => total + value, 0);
    const base = other && other.estimate.reduce((total, value) => total + value, 0);
    this.other = other && base > 0 ? other.estimate.map((value) => (value * this.total) / base) : null;
    this.redraw(moving);
    say(this.selected, filter ? "filtered" : "");
    this.clear.hidden = !filter;
    say(this.note, inferredFrom.length ? "inferred" : "");
    set(
      this.note,
      "title",
      inferredFrom.length
        ? `Not counted together with ${inferredFrom.join(", ")}: how they go together is inferred, and ` +
            `may be flatter than it is.`
        : "",
    );
    this.card.classList.toggle("filtered", Boolean(filter));
  }

  redraw(moving = false) {
    if (!this.shown) return;
    const { filter, other } = this.shown;
    set(this.card, "data-other", other?.kind ?? "none");
    const hasRecords = this.body.draw(this.#drawn, filter, this.other, this.total, this.look, moving);
    say(this.empty, hasRecords ? "" : "no records");
    for (const hit of this.body.hits) {
      const code = Number(hit.dataset.code);
      set(hit, "aria-label", this.#words(code));
      set(hit, "aria-checked", String(Boolean(filter) && !this.isOff(code)));
    }
  }

  /** What is drawn: counts, or in percent the shares with intervals of their own, times the total. */
  get #drawn() {
    const { data } = this.shown;
    if (!this.#inShares) return data;
    const times = (column, unknown) => column.map((end) => (end ?? unknown) * this.total);
    return {
      estimate: data.estimate,
      lower: times(data.share.lower, 0),
      upper: times(data.share.upper, 1),
    };
  }

  get #inShares() {
    return this.look.percent && this.shown.data.share && this.total > 0;
  }

  /** Where the chart's own scale would end: in records, or as a share in percent. */
  get top() {
    return this.shown ? topOf(this.#drawn, this.other) / this.#unit : 0;
  }

  get #unit() {
    return this.look.percent && this.total > 0 ? this.total : 1;
  }

  /** Let the scale reach at least so far, as far as that of the chart beside it. */
  level(top) {
    this.look = { ...this.look, top: top * this.#unit };
    this.redraw();
  }

  /**
   * Mark the values whose shares really differ between two groups; answer: of /api/shares, names: of the
   * groups.
   */
  differ({ difference }, names) {
    this.difference = difference ? { ...difference, names } : null;
    this.redraw();
  }

  /** Whether the shares of a value differ for certain, as far as 95 % are certain. */
  differs(code) {
    return this.difference?.lower[code] > 0 || this.difference?.upper[code] < 0;
  }

  #differenceWords(code) {
    const { estimate, lower, upper, names } = this.difference;
    const points = (x) => (100 * x).toFixed(1).replace("-", "−");
    return (
      `${names.join(" − ")}: ${points(estimate[code])} points ` +
      `(likely ${points(lower[code])} to ${points(upper[code])})`
    );
  }

  /** Change how numbers are drawn: log, percent, sorted. */
  rescale(look) {
    this.look = { ...this.look, ...look };
    this.redraw();
  }

  #words(code) {
    const { estimate, lower, upper } = this.shown.data;
    const told = words(this.attribute.labels[code], estimate[code], lower[code], upper[code]);
    const share = this.#inShares ? `${told}; ${this.#shareWords(code)}` : told;
    return this.differs(code) ? `${share}; ${this.#differenceWords(code)}` : share;
  }

  #shareWords(code) {
    const { estimate, share } = this.shown.data;
    const told = `${percent(estimate[code] / this.total)} of what this chart counts`;
    const [low, high] = share ? [share.lower[code], share.upper[code]] : [null, null];
    return low === null || high === null ? told : `${told} (likely ${percent(low)} to ${percent(high)})`;
  }

  isOff(code) {
    const f = this.shown?.filter;
    if (!f) return false;
    if (f.missing && code === this.n - 1 && this.attribute.nullable) return false;
    if (f.range) return code < f.range[0] || code > f.range[1];
    return f.missing ? true : !f.codes.includes(code);
  }

  /** Say at the pointer what a value counts, and what share of the chart that is. */
  tell(code, event) {
    if (!this.shown) return;
    const {
      other,
      data: { estimate, lower, upper },
    } = this.shown;
    const lines = [this.attribute.labels[code], about(estimate[code], lower[code], upper[code])];
    if (lower[code] <= 0 && estimate[code] > 0) lines.push("not distinguishable from 0");
    if (this.total > 0) lines.push(this.#shareWords(code));
    if (this.other && this.total > 0)
      lines.push(`${percent(this.other[code] / this.total)} of ${other.name}`);
    if (typeof this.difference?.estimate[code] === "number") lines.push(this.#differenceWords(code));
    say(this.tip, lines.join("\n"));
    const x = Math.min(event.clientX + 14, window.innerWidth - this.tip.offsetWidth - 8);
    const high = this.tip.offsetHeight;
    const y = event.clientY + 18 + high > window.innerHeight ? event.clientY - high - 12 : event.clientY + 18;
    this.tip.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
  }

  leave() {
    say(this.tip, "");
  }

  /** A value got the keyboard's focus: Tab comes back to it. */
  focused(code) {
    for (const hit of this.body.hits) set(hit, "tabindex", Number(hit.dataset.code) === code ? "0" : "-1");
    const hit = this.#hit(code);
    const box = hit.getBoundingClientRect();
    if (hit.matches(":focus-visible")) this.tell(code, { clientX: box.left, clientY: box.bottom - 10 });
  }

  #hit(code) {
    return this.body.hits.find((hit) => Number(hit.dataset.code) === code);
  }

  key(event, code) {
    const { hits } = this.body;
    const place = hits.findIndex((hit) => Number(hit.dataset.code) === code);
    const far = Math.max(1, Math.round(hits.length / 10));
    const last = hits.length - 1;
    const to = {
      ArrowRight: place + 1,
      ArrowDown: place + 1,
      ArrowLeft: place - 1,
      ArrowUp: place - 1,
      PageUp: Math.min(last, place + far),
      PageDown: Math.max(0, place - far),
      Home: 0,
      End: last,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      hits[to]?.focus();
    }
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.toggle(code, event.shiftKey);
    }
    if (event.key === "Escape") this.filter(null);
  }

  /** Pick a value, or give it up; on an ordered attribute, a range of that one bin (with Shift: up to it). */
  toggle(code, extend = false) {
    const f = this.current;
    if (this.attribute.ends && code < this.nValues) {
      const range =
        extend && f?.range ? [Math.min(f.range[0], code), Math.max(f.range[1], code)] : [code, code];
      this.filter(f?.range && f.range[0] === code && f.range[1] === code ? null : { range });
    } else if (this.attribute.ends) {
      this.filter(f?.missing ? null : { missing: true });
    } else {
      const codes = f?.codes ?? [];
      const next = codes.includes(code)
        ? codes.filter((c) => c !== code)
        : [...codes, code].sort((a, b) => a - b);
      this.filter(next.length ? { codes: next } : null);
    }
  }
}
