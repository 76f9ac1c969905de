// The card of an attribute: an interactive chart with its controls.

import { movable } from "./drag.js";
import { grainsOf, singles } from "./grain.js";
import { exhibitMenu } from "./menu.js";
import { isMeasured, modelOf, nameOf, textsOf, titleOf, wordsOf } from "./model.js";
import { describing, element, rounded, say, selectOf, set, three } from "./parts.js";
import { plot, show } from "./plot.js";
import { inWords } from "./state.js";
import { statementOf } from "./statements.js";

const HEIGHT = 168; // minimum height of an ordered attribute's chart, in pixels
const PAPER = 300; // height of a saved chart, in pixels
const SHOWN = 12; // categories listed initially
const FOUND = 40; // categories listed by a search
const FEW_BARS = 24; // bars of a rate or a mean; more bars would be too uncertain to read
const PINNED = 8; // rows of a pinned chart
const GRIP = 7; // pixels around a range's ends in which a drag moves that end
const GAP = 11; // vertical gap between cards, in pixels
const TRACK = 8; // height of a row of the cards' grid, in pixels, as in style.css

export class Chart {
  /** beside: name of the other view whose counts this chart shows; such a chart cannot be moved. */
  constructor(attribute, page, beside = null) {
    Object.assign(this, { attribute, page, beside, hits: new Map(), text: "", width: 300, listed: null });
    this.n = attribute.labels.length;
    this.nValues = this.n - Number(attribute.nullable);
    this.isMany = !attribute.edges && this.n > SHOWN;
    this.grains = grainsOf(attribute);
    this.chosen = null; // value of the chosen grain; null for the default
    const { name } = attribute;
    this.tip = element("div", { class: "tip", "aria-hidden": "true" });
    this.group = element("g");
    this.targets = element("g");
    this.svg = element(
      "svg",
      { class: "plot", role: "group", "aria-label": `Histogram of ${name}${beside ? ` in ${beside}` : ""}` },
      this.group, this.targets,
    );
    this.note = element("span", { class: "note" });
    this.status = element("span", { class: "hidden" });
    this.more = element("div", { class: "quiet more" });
    this.card = element(
      "article", { class: "card", ...(beside ? { "data-beside": name } : { "data-attribute": name }) },
      this.#head(), element("div", { class: attribute.edges ? "drawing" : "drawing rows" }, this.svg),
      ...(this.isMany ? [this.more, this.#find()] : []), ...(attribute.edges ? [this.#pick()] : []), this.tip,
    );
    if (!beside)
      movable(
        this.handle, this.card, (how) => page.arrange(name, how),
        (other, isAfter) => page.arrangeBeside(name, other, isAfter),
      );
    this.card.addEventListener("pointerleave", ({ pointerType }) => {
      if (pointerType !== "touch") this.leave(); // after a tap the tooltip stays
    });
    this.#drag();
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = this.svg.parentElement;
      this.card.style.gridRowEnd = `span ${Math.ceil((this.card.offsetHeight + GAP) / TRACK)}`;
      const isSame = width === this.width && (height === this.height || !attribute.edges);
      if (isSame || width < 40) return;
      Object.assign(this, { width, height });
      this.redraw();
    });
    for (const each of [this.svg.parentElement, this.card]) observer.observe(each);
  }

  #head() {
    const { name } = this.attribute;
    const about = describing(this.attribute);
    const title = element(
      "h2", { title: [this.beside ?? name, about].filter(Boolean).join(": ") },
      element("span", { class: "name" }, this.beside ?? name),
      ...(about && !this.beside ? [" ", element("span", { class: "quiet" }, about)] : []),
    );
    if (this.beside) return element("div", { class: "head" }, title, this.status, this.note);
    this.handle = element(
      "button",
      {
        class: "bare handle", "aria-label": `Move ${name}: drag, or press arrow keys`,
        title: "Drag to move",
      },
      "⠿",
    );
    this.clear = element(
      "button",
      {
        class: "bare clear", "aria-label": `Clear ${name}`, title: "Remove this filter", hidden: true,
        onclick: () => this.filter(null),
      },
      "✕",
    );
    const more = exhibitMenu(this.page, name, "⋯", () => this.exhibit(), undefined, () => this.#menu());
    return element("div", { class: "head" }, this.handle, title, this.status, this.note, this.clear, more);
  }

  #menu() {
    const { name } = this.attribute;
    const { large, pinned } = this.page.arrangement;
    const item = (text, how) => [text, `${text} ${name}`, () => this.page.arrange(name, how)];
    return [
      item(large.has(name) ? "Shrink" : "Enlarge", "enlarge"),
      item(pinned.has(name) ? "Unpin" : "Pin", "pin"), item("Put first", "front"),
      item("Move earlier", "earlier"), item("Move later", "later"), item("Hide", "hide"),
      ["Show as a table", `Show ${name} as a table`, () => this.page.closer.groupBy(name)],
    ];
  }

  /** Two lists to choose a range by keyboard, and a list of grains. */
  #pick() {
    const { labels, name } = this.attribute;
    const values = labels.slice(0, this.nValues).map((label, i) => [String(i), label]);
    const changed = () => {
      const lists = [this.from, this.to];
      const ends = lists.map(({ value }, i) => (value === "" ? i * (this.nValues - 1) : Number(value)));
      const isEmpty = lists.every(({ value }) => value === "");
      this.filter(isEmpty ? null : { range: [Math.min(...ends), Math.max(...ends)] });
    };
    this.from = selectOf(`${name} from`, [["", "from"], ...values], "", changed);
    this.to = selectOf(`${name} to`, [["", "to"], ...values], "", changed);
    this.grainList = selectOf(
      `Bars of ${name}`, this.grains.map((each) => [each.value, each.name]), undefined,
      () => this.page.setGrain(name, this.grainList.value),
    );
    this.grainList.hidden = this.grains.length < 2;
    return element("div", { class: "pick" }, this.from, "to", this.to, this.grainList);
  }

  /** A search field for values. Enter toggles the first match. */
  #find() {
    const field = element("input", {
      type: "search", placeholder: "find a value…",
      "aria-label": `Add or remove a value of ${this.attribute.name}`, autocomplete: "off",
    });
    field.addEventListener("input", () => {
      this.text = field.value.trim().toLowerCase();
      this.redraw();
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !this.text) return;
      event.preventDefault();
      const exact = this.attribute.labels.findIndex((label) => label.toLowerCase() === this.text);
      const code = exact >= 0 ? exact : (this.model?.bars[0]?.code ?? -1);
      if (code < 0 || !this.attribute.labels[code].toLowerCase().includes(this.text)) {
        say(this.more, `No value contains “${field.value.trim().slice(0, 40)}”.`);
        return;
      }
      field.value = this.text = "";
      this.toggle(code);
    });
    return element("div", { class: "pick" }, field);
  }

  /** Choose a grain (bins per bar) by its value; null for the default of the measure. */
  setGrain(value) {
    this.chosen = this.grains.some((each) => each.value === value) ? value : null;
  }

  get grain() {
    const most = isMeasured(this.page.measure) ? FEW_BARS : Infinity;
    const suits = ({ groups }) => groups.length <= most;
    const chosen = this.grains.find(({ value }) => value === this.chosen);
    return chosen ?? this.grains.find(suits) ?? this.grains[0];
  }

  /** The bars to request, as [first, last] code; null if each bin is a bar. */
  get asked() {
    return this.grain.value ? this.grain.groups.map(({ first, last }) => [first, last]) : null;
  }

  /** The chart's current filter, even if its answer is pending. */
  get current() {
    return this.page.state.filters[this.attribute.name] ?? null;
  }

  filter(filter, moving = false) {
    this.page.filter(this.attribute.name, filter, moving);
  }

  /**
   * Draw an answer. data: counts or a measure with intervals; filter: filter on this attribute; where:
   * condition on the counted records; inferredFrom: filtered attributes not counted together with this one;
   * other: answer to compare with, its kind and name; moving: the gesture continues.
   */
  draw(data, { filter, where, inferredFrom = [], other = null, moving = false }) {
    // Answers of the server have one bar per bin.
    const isGathered = data.estimate.length === this.grain.groups.length;
    const groups = isGathered ? this.grain.groups : singles(this.attribute);
    this.shown = { data, filter, where, other, groups };
    this.difference = null; // it belongs to the previous answer
    this.moving = moving;
    this.redraw();
    this.moving = false;
    say(this.status, filter ? "filtered" : "");
    say(this.note, inferredFrom.length ? "modelled" : "");
    const names = inferredFrom.join(", ");
    const why =
      `${this.attribute.name} was not counted together with ${names}. This relationship is modelled: it ` +
      "may look weaker than it is, or even reversed.";
    set(this.note, "title", inferredFrom.length ? why : "");
    if (this.clear) this.clear.hidden = !filter;
    this.card.classList.toggle("filtered", Boolean(filter));
  }

  /** The listed bars in order: all if they are few, otherwise search hits or the most frequent. */
  #listed(bars, isSorted) {
    const by = (one, other) => (other.value ?? -Infinity) - (one.value ?? -Infinity);
    const sorted = (some) => [...some].sort((x, y) => x.isMissing - y.isMissing || by(x, y));
    const isShort = this.page.arrangement.pinned.has(this.attribute.name) && bars.length > PINNED;
    if (this.attribute.edges) return bars;
    if (!this.isMany) return isSorted ? sorted(bars) : bars;
    if (this.moving && this.listed) return this.listed.map((index) => bars[index]);
    const counts = this.shown.data.estimate;
    const frequent = [...bars].sort((x, y) => counts[y.index] - counts[x.index]);
    const hits = this.text ? bars.filter(({ label }) => label.toLowerCase().includes(this.text)) : [];
    const some = this.text ? hits.slice(0, FOUND) : frequent.slice(0, isShort ? PINNED - 1 : SHOWN);
    const chosen = bars.filter((bar) => this.shown.filter?.codes?.includes(bar.code) && !some.includes(bar));
    const listed = [...some, ...chosen.slice(0, SHOWN)].sort((x, y) => x.index - y.index);
    const what = this.text
      ? `${hits.length} of ${this.n} values match${hits.length > FOUND ? `, ${FOUND} listed` : ""}.`
      : `The ${some.length} most frequent of ${this.n} values${this.shown.where ? " under the filter" : ""}.`;
    say(this.more, what);
    return isSorted ? sorted(listed) : listed;
  }

  #model() {
    const { attribute, page, difference } = this;
    const { measure } = page;
    const measured = measure.kind === "mean" ? page.attribute(measure.attribute) : null;
    const edges = measured?.edges;
    return modelOf({
      attribute, ...this.shown, measure, difference, look: page.look, top: this.top,
      range: edges ? [edges[0], edges.at(-1)] : null,
      listed: (bars, isSorted) => this.#listed(bars, isSorted),
    });
  }

  redraw() {
    if (!this.shown) return;
    this.model = this.#model();
    const { bars } = this.model;
    if (!this.attribute.edges) this.listed = bars.map(({ index }) => index);
    const drawing = plot(this.model, this.width, Math.max(HEIGHT, this.height ?? 0));
    const size = [`${this.width}`, `${drawing.height}`];
    set(this.svg, "width", size[0]);
    set(this.svg, "height", size[1]);
    set(this.svg, "viewBox", `0 0 ${size.join(" ")}`);
    set(this.svg, "data-other", this.shown.other?.kind ?? "none");
    set(this.card, "data-other", this.shown.other?.kind ?? "none");
    show(this.group, drawing);
    this.#place(bars, drawing.hits);
    if (this.from) {
      this.grainList.value = this.grain.value;
      const range = this.shown.filter?.range;
      this.from.value = range ? range[0] : "";
      this.to.value = range ? range[1] : "";
    }
  }

  /** Lay the interactive targets over the bars, in their order. */
  #place(bars, boxes) {
    const wanted = new Set(bars.map(({ code }) => code));
    for (const [code, hit] of this.hits)
      if (!wanted.has(code)) {
        hit.remove();
        this.hits.delete(code);
      }
    bars.forEach((bar, i) => {
      if (!this.hits.has(bar.code)) this.hits.set(bar.code, this.#hit(bar.code));
      const hit = this.hits.get(bar.code);
      if (this.targets.children[i] !== hit) this.targets.insertBefore(hit, this.targets.children[i] ?? null);
      for (const side of ["x", "y", "width", "height"]) set(hit, side, boxes[i][side].toFixed(2));
      const [label, ...words] = this.#words(bar);
      set(hit, "aria-label", `${label}: ${words.join("; ")}`);
      set(hit, "aria-checked", String(Boolean(this.shown.filter) && !bar.isOff));
    });
    const all = [...this.targets.children];
    if (!all.some((hit) => hit.getAttribute("tabindex") === "0")) all[0]?.setAttribute("tabindex", "0");
  }

  #hit(code) {
    return element("rect", {
      class: "hit", "data-code": code, tabindex: -1, role: "checkbox", "aria-checked": "false",
      onfocus: () => this.focused(code), onblur: () => this.leave(),
      onkeydown: (event) => this.key(event, code),
    });
  }

  #words(bar) {
    const { data, other } = this.shown;
    const { difference } = this;
    const names = difference?.names;
    const { measure } = this.page;
    const attributeOf = (name) => this.page.attribute(name);
    return wordsOf(this.model, bar, { data, other, difference, names, measure, attributeOf });
  }

  /** Upper end of the value axis. */
  get end() {
    return this.model?.axis.to ?? 0;
  }

  /** Extend the axis at least to `top`, so that paired charts share a scale. */
  level(top) {
    this.top = top;
    this.redraw();
  }

  /** Mark the values whose shares clearly differ between two groups. */
  differ({ difference }, names) {
    this.difference = difference ? { ...difference, names } : null;
    this.redraw();
  }

  /** The chart as an exhibit to save. */
  exhibit() {
    if (!this.shown) return null;
    const { data, filter, where, other } = this.shown;
    const { attribute, page, model } = this;
    const attributeOf = (name) => page.attribute(name);
    const kind = model.kind;
    const isCount = kind === "records";
    const head = isCount ? "records" : kind === "percent" ? "percent" : nameOf(page.measure, attributeOf);
    const counts = isCount ? [] : three("records");
    const every = [...model.bars, ...this.#others()];
    const ends = ({ value, lower, upper }) =>
      value === null ? ["", "", ""] : textsOf([value, lower, upper], kind);
    const rows = every.map((bar) => [
      bar.label, ...ends(bar),
      ...(isCount ? [] : rounded(data.estimate[bar.index], data.lower[bar.index], data.upper[bar.index])),
    ]);
    return {
      title: titleOf(page.measure, model, attributeOf),
      file: attribute.name,
      where,
      lines: this.#captions(filter, other),
      columns: [attribute.name, ...three(head), ...counts],
      nNames: 1,
      rows,
      sql: statementOf(attribute, isCount ? { kind } : page.measure, where, attributeOf, this.grain.value),
      picture: (width) => {
        const group = element("g");
        const drawing = plot(model, width, PAPER);
        show(group, drawing);
        return { nodes: [group], height: drawing.height, kind: { "data-other": other?.kind ?? "none" } };
      },
    };
  }

  /** Bars of values that are not listed; a saved table has them too. */
  #others() {
    if (!this.isMany) return [];
    const all = modelOf({
      attribute: this.attribute, ...this.shown, measure: this.page.measure, look: this.page.look,
      difference: null, listed: (bars) => bars,
    }).bars;
    return all.filter(({ index }) => !this.listed.includes(index));
  }

  #captions(filter, other) {
    const { attribute, page, model } = this;
    return [
      filter ? `Selected: ${inWords(attribute, filter)}` : "",
      other && model.bars.some((bar) => bar.other !== null) ? `Outline or stroke: ${other.name}` : "",
      model.overall === null ? "" : "Dashed line: all of these records",
      page.leftOut && model.kind === "rate" ? page.leftOut : "",
      page.look.isLog && model.kind !== "mean" ? "Log scale" : "",
      model.brackets.length ? "Order within a bracket is uncertain" : "",
      this.isMany ? this.more.textContent : "",
      this.note.textContent ? this.note.title : "",
      this.difference
        ? `◆ or thick line: the share differs clearly between ${this.difference.names.join(" and ")}`
        : "",
      model.kind === "records" || model.kind === "percent" ? "Pale bars cannot be distinguished from 0" : "",
    ].filter(Boolean);
  }

  /** Show a value's tooltip at the pointer. */
  showTip(code, event) {
    const bar = this.model?.bars.find((each) => each.code === code);
    if (!bar) return;
    say(this.tip, this.#words(bar).join("\n"));
    const x = Math.min(event.clientX + 14, window.innerWidth - this.tip.offsetWidth - 8);
    const high = this.tip.offsetHeight;
    const y = event.clientY + 18 + high > window.innerHeight ? event.clientY - high - 12 : event.clientY + 18;
    this.tip.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
  }

  leave() {
    say(this.tip, "");
  }

  /** Make the focused value the one tab stop of the chart (roving tabindex). */
  focused(code) {
    for (const [each, hit] of this.hits) set(hit, "tabindex", each === code ? "0" : "-1");
    const hit = this.hits.get(code);
    const box = hit.getBoundingClientRect();
    if (hit.matches(":focus-visible")) this.showTip(code, { clientX: box.left, clientY: box.bottom - 10 });
  }

  key(event, code) {
    const hits = [...this.targets.children];
    const place = hits.findIndex((hit) => Number(hit.dataset.code) === code);
    const far = Math.max(1, Math.round(hits.length / 10));
    const last = hits.length - 1;
    const to = {
      ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1,
      PageUp: Math.max(0, place - far), PageDown: Math.min(last, place + far), Home: 0, End: last,
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

  /** Select or deselect a bar. On an ordered attribute it becomes the range; Shift extends the range. */
  toggle(code, extend = false) {
    const f = this.current;
    if (this.attribute.edges && code < this.nValues) {
      const { first, last } = this.shown.groups.find((group) => group.first <= code && code <= group.last);
      const isExtended = extend && f?.range;
      const range = isExtended ? [Math.min(f.range[0], first), Math.max(f.range[1], last)] : [first, last];
      this.filter(f?.range && f.range[0] === first && f.range[1] === last ? null : { range });
    } else if (this.attribute.edges) {
      this.filter(f?.missing ? null : { missing: true });
    } else {
      const codes = f?.codes ?? [];
      const next = codes.includes(code)
        ? codes.filter((c) => c !== code)
        : [...codes, code].sort((a, b) => a - b);
      this.filter(next.length ? { codes: next } : null);
    }
  }

  /** Index of the bar at the pointer. */
  #at(event) {
    const box = this.svg.getBoundingClientRect();
    const hits = [...this.targets.children];
    const isRows = !this.attribute.edges;
    const at = isRows ? event.clientY - box.top : event.clientX - box.left;
    const end = (hit) =>
      isRows
        ? Number(hit.getAttribute("y")) + Number(hit.getAttribute("height"))
        : Number(hit.getAttribute("x")) + Number(hit.getAttribute("width"));
    const place = hits.findIndex((hit) => at < end(hit));
    return place < 0 ? hits.length - 1 : place;
  }

  /** The effect of a drag from the pointer's position: a new range, or moving the range or one end. */
  #grip(event) {
    const range = this.attribute.edges ? this.model?.brush?.bars : null;
    if (!range || !this.current?.range) return { kind: "new" };
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const hits = [...this.targets.children];
    const left = Number(hits[range[0]].getAttribute("x"));
    const right = Number(hits[range[1]].getAttribute("x")) + Number(hits[range[1]].getAttribute("width"));
    if (Math.abs(x - left) <= GRIP && right - left > 2 * GRIP) return { kind: "end", from: range[1] };
    if (Math.abs(x - right) <= GRIP && right - left > 2 * GRIP) return { kind: "end", from: range[0] };
    return x > left && x < right ? { kind: "move", range: [...range] } : { kind: "new" };
  }

  /** The filter that results from a drag between two bars. */
  #between({ kind, range, from }, start, place) {
    const { bars } = this.model;
    const ends = [Math.min(from ?? start, place), Math.max(from ?? start, place)];
    if (!this.attribute.edges)
      return { codes: bars.slice(ends[0], ends[1] + 1).map(({ code }) => code).sort((x, y) => x - y) };
    const { groups } = this.shown;
    const last = groups.filter(({ first }) => first < this.nValues).length - 1;
    const clamp = (x) => Math.max(0, Math.min(last, x));
    const by = kind === "move" ? Math.max(-range[0], Math.min(last - range[1], place - start)) : 0;
    const [first, end] = kind === "move" ? [range[0] + by, range[1] + by] : ends.map(clamp);
    return { range: [groups[first].first, groups[end].last] };
  }

  #drag() {
    let start = null;
    let latest = null;
    let grip = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.model) return;
      [start, latest, grip] = [this.#at(event), null, this.#grip(event)];
      if (this.attribute.edges || event.pointerType === "mouse") this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!this.model) return;
      const place = this.#at(event);
      this.showTip(this.model.bars[place]?.code, event);
      if (start === null) {
        set(this.svg, "data-grip", this.#grip(event).kind);
        return;
      }
      // On a touch screen a drag over rows scrolls; only a mouse selects several.
      if (!this.attribute.edges && event.pointerType !== "mouse") return;
      if (place === (latest ?? start)) return; // still over the same bar
      latest = place;
      this.filter(this.#between(grip, start, place), true);
    });
    this.svg.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const from = start;
      start = null;
      if (latest !== null) this.filter(this.#between(grip, from, this.#at(event)), false);
      else this.#press(this.model.bars[from].code, event);
    });
    this.svg.addEventListener("pointercancel", () => {
      // The browser scrolls instead, so keep the filter reached so far as one history step.
      if (start !== null && latest !== null) this.filter(this.current, false);
      start = null;
    });
  }

  /** A click selects a value. On a touch screen the first tap shows the tooltip and the second selects. */
  #press(code, event) {
    if (event.pointerType === "touch" && this.tapped !== code) {
      this.tapped = code;
      this.showTip(code, event);
      for (const next of ["pointerdown", "scroll"])
        document.addEventListener(next, () => this.leave(), { once: true });
      return;
    }
    this.tapped = null;
    this.toggle(code, event.shiftKey);
  }
}
