// The panel of two filters: whether their counts differ, and how their records share out over the values of
// an attribute.

import { ask } from "./api.js";
import { Panel, choose } from "./panel.js";
import { about, element, grain, inPercent, shown } from "./parts.js";
import { offline } from "./transport.js";

const WIDTH = 220; // of the drawn intervals, in pixels
const MOST = 200; // values that are listed

const signed = (x, half) => shown(Math.round(x / grain(half)) * grain(half) || 0).replace("-", "−");

export class ComparePanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    const { attributes } = this.schema;
    this.kept = null;
    this.hasKept = false;
    this.shared = this.attributeList(
      "Share out by",
      attributes.map((a) => a.name),
      attributes.find((a) => !a.ends)?.name,
    );
    this.sides = element("div", { class: "result" });
    this.names = ["A", "B"].map((letter) =>
      element("input", {
        "aria-label": `Name of group ${letter}`,
        value: letter,
        maxlength: 40,
        size: 10,
        onchange: () => {
          this.page.overlay.offer();
          this.changed();
        },
      }),
    );
    const keep = element("button", { onclick: () => this.#keep() }, "Keep the active filter as A");
    this.root.replaceChildren(
      element(
        "div",
        { class: "controls" },
        keep,
        element("span", { class: "quiet" }, "then change the filter: it is B"),
        element("label", {}, "A is called ", this.names[0]),
        element("label", {}, "B ", this.names[1]),
      ),
      this.sides,
    );
  }

  look() {
    const kept = this.hasKept ? { kept: this.kept, names: this.names.map((field) => field.value) } : {};
    return { shared: this.shared.value, ...kept };
  }

  take({ shared, kept, names }) {
    choose(this.shared, shared);
    if (Array.isArray(names))
      this.names.forEach((field, i) => {
        field.value = String(names[i] ?? field.value).slice(0, 40);
      });
    this.hasKept = typeof kept === "string" || kept === null;
    this.kept = kept ?? null;
  }

  /** Keep the filter as A: from now on every chart shows A's shape beside B's. */
  #keep() {
    this.kept = this.page.state.where();
    this.hasKept = true;
    const free = this.schema.attributes.find((a) => !a.ends && !this.page.filtered.includes(a.name));
    if (free && this.page.filtered.includes(this.shared.value)) this.shared.value = free.name;
    this.page.overlay.offer("A");
    this.changed();
    this.page.show(false, false);
  }

  /** What a group is called. */
  nameOf(letter) {
    return this.names[letter === "A" ? 0 : 1].value.trim() || letter;
  }

  async refresh() {
    if (!this.hasKept) {
      this.sides.replaceChildren(
        element("p", {}, "Keep a filter first, change it, and see whether the two counts really differ."),
      );
      return;
    }
    const second = this.page.state.where();
    const turn = this.closer.turn;
    const answer = await ask("/api/compare", { view: this.page.view, first: this.kept, second }, "compare");
    if (!answer || turn !== this.closer.turn) return;
    const names = [this.nameOf("A"), this.nameOf("B")];
    const told = verdict(answer, [this.kept, second], names);
    if (offline && this.schema.made_of === "block") {
      this.sides.replaceChildren(...told);
      return;
    }
    const by = this.attribute(this.shared.value);
    const table = await shareTable(this.page.view, by, [this.kept, second], names);
    if (table && turn === this.closer.turn)
      this.sides.replaceChildren(
        ...told,
        element("div", { class: "controls" }, "How their records share out by", this.shared),
        table,
      );
  }
}

/** Counts, difference and ratio of /api/compare in words, with a verdict; wheres and names of both groups. */
function verdict(answer, wheres, names) {
  const side = (letter, where, name, found) =>
    element(
      "div",
      {},
      element("h3", { class: `of-${letter}` }, name),
      element("code", {}, where ?? "everything"),
      element("p", {}, about(found.estimate, found.lower, found.upper)),
    );
  const [low, high] = answer.ratio_interval;
  const [from, to] = answer.difference_interval;
  const half = (to - from) / 2;
  const [one, other] = names;
  const ratio =
    answer.ratio === null || high === null
      ? `The ratio has no bound: ${other} may be 0.`
      : `${one} is ${answer.ratio.toFixed(2)} times ${other} ` +
        `(likely ${low.toFixed(2)} to ${high.toFixed(2)}).`;
  return [
    element(
      "div",
      { class: "side" },
      side("A", wheres[0], one, answer.first),
      side("B", wheres[1], other, answer.second),
    ),
    element(
      "p",
      {},
      element(
        "strong",
        {},
        answer.is_real ? `${one} and ${other} really differ. ` : `${one} and ${other} cannot be told apart. `,
      ),
      `${one} − ${other} is about ${signed(answer.difference, half)} ` +
        `(likely ${signed(from, half)} to ${signed(to, half)}). ${ratio}`,
    ),
  ];
}

/**
 * A table of the shares under both filters and of their differences, each with its interval; null if a newer
 * question took its place.
 */
async function shareTable(view, attribute, [first, second], names) {
  if (attribute.labels.length > MOST)
    return element(
      "p",
      {},
      `${attribute.name} has ${shown(attribute.labels.length)} values, too many to list. Choose another.`,
    );
  const answer = await ask("/api/shares", { view, first, second, attribute: attribute.name });
  if (!answer) return null;
  if (answer.reason) return element("div", {}, element("p", {}, answer.reason));
  const ends = [...answer.first.upper, ...answer.second.upper].map((end) => end ?? 0);
  const scale = WIDTH / Math.max(...ends, 1e-9);
  const rows = attribute.labels.map((label, code) => shareRow(label, code, answer, names, scale));
  return element(
    "div",
    {},
    element(
      "table",
      { class: "shares" },
      element("thead", {}, shareHeads(attribute.name, names)),
      element("tbody", {}, ...rows),
    ),
    element(
      "p",
      { class: "quiet" },
      "Shares of the records under each filter and their difference, with 95 % typical intervals. The " +
        "interval of the difference decides: those of A and B may overlap where the two differ.",
    ),
  );
}

function shareHeads(attribute, names) {
  const heads = [
    [attribute, "hidden"],
    [names[0], "of-A"],
    [names[1], "of-B"],
    [names.join(" − "), null],
    ["Intervals", "hidden", "drawn"],
    ["Verdict", "hidden"],
  ];
  const head = ([text, kind, column = null]) =>
    element("th", { scope: "col", class: column }, element("span", { class: kind }, text));
  return element("tr", {}, ...heads.map(head));
}

function shareRow(label, code, answer, names, scale) {
  const [a, b, apart] = ["first", "second", "difference"].map((side) => ({
    share: answer[side].estimate[code],
    lower: answer[side].lower[code],
    upper: answer[side].upper[code],
  }));
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, label),
    shareCell(a, "%"),
    shareCell(b, "%"),
    shareCell(apart, "points"),
    element("td", { class: "drawn" }, drawn(a, b, scale)),
    element("td", {}, larger(apart, names)),
  );
}

function shareCell({ share, lower, upper }, unit) {
  if (typeof share !== "number") return element("td", {}, "—");
  const interval = element("small", { class: "quiet" }, ` ${inPercent(lower)} to ${inPercent(upper)}`);
  return element("td", {}, `${inPercent(share)} ${unit}`, interval);
}

/** In which group a share is larger, as far as its difference says. */
function larger({ share, lower, upper }, names) {
  if (typeof share !== "number") return "";
  if (lower > 0) return `larger in ${names[0]}`;
  return upper < 0 ? `larger in ${names[1]}` : "may be equal";
}

/** Both intervals as bands, A's above B's, with a mark at the estimate. */
function drawn(a, b, scale) {
  const band = (found, y, name) =>
    typeof found?.share !== "number"
      ? []
      : [
          element("rect", {
            class: `band of-${name}`,
            x: found.lower * scale,
            y,
            width: Math.max(1, (found.upper - found.lower) * scale),
            height: 5,
          }),
          element("rect", { class: `of-${name}`, x: found.share * scale - 1, y: y - 1, width: 2, height: 7 }),
        ];
  return element(
    "svg",
    { width: WIDTH + 2, height: 18, "aria-hidden": "true" },
    ...band(a, 2, "A"),
    ...band(b, 11, "B"),
  );
}
