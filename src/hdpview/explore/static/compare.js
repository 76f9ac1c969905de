// The panel that compares two filters: breakdown of their records by an attribute, and their counts.

import { Panel } from "./panel.js";
import { about, choose, element, percents, rounded, three } from "./parts.js";
import { statementOf } from "./statements.js";

const MOST = 200; // values listed

export class ComparePanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    const { attributes } = this.schema;
    this.kept = null;
    this.hasKept = false;
    this.shared = this.attributeList("Breakdown by", this.names, attributes.find((a) => !a.edges)?.name);
    this.fields = ["A", "B"].map((letter) =>
      element("input", {
        "aria-label": `Name of group ${letter}`, value: letter, maxlength: 40, size: 10,
        onchange: () => {
          this.page.overlay.offer();
          this.changed();
        },
      }),
    );
    const keep = element("button", { onclick: () => this.#keep() }, "Keep the active filter as A");
    const hint = element("span", { class: "quiet" }, "then change the filter to get B");
    const labels = this.fields.map((field, i) => element("label", {}, `Name of ${"AB"[i]} `, field));
    this.fill(
      "the comparison", [keep, hint, ...labels, element("label", {}, "Breakdown by ", this.shared)],
      ["CSV", "PNG", "SVG"],
    );
  }

  look() {
    const kept = this.hasKept ? { kept: this.kept, names: this.fields.map((field) => field.value) } : {};
    return { shared: this.shared.value, ...kept };
  }

  restore({ shared, kept, names }) {
    choose(this.shared, shared);
    if (Array.isArray(names))
      this.fields.forEach((field, i) => {
        field.value = String(names[i] ?? field.value).slice(0, 40);
      });
    this.hasKept = typeof kept === "string" || kept === null;
    this.kept = kept ?? null;
  }

  /** Keep the filter as A. Every chart then compares the current filter (B) with A. */
  #keep() {
    this.kept = this.page.state.where();
    this.hasKept = true;
    const free = this.schema.attributes.find((a) => !a.edges && !this.page.filtered.includes(a.name));
    if (free && this.page.filtered.includes(this.shared.value)) this.shared.value = free.name;
    this.page.overlay.offer("A");
    this.page.columns.forget();
    this.changed();
    this.page.show(false, false);
  }

  nameOf(letter) {
    return this.fields[letter === "A" ? 0 : 1].value.trim() || letter;
  }

  async refresh() {
    if (!this.hasKept) {
      this.say("Keep a filter, change it, and see whether the two groups clearly differ.", "quiet");
      return;
    }
    const second = this.page.state.where();
    const first = this.kept;
    const turn = this.closer.turn;
    const by = this.attribute(this.shared.value);
    const isLong = by.labels.length > MOST;
    const [counts, shares] = await Promise.all([
      this.ask("/api/compare", { first, second }, "compare"),
      isLong
        ? { reason: `${by.name} has too many values to list. Choose another.` }
        : this.ask("/api/shares", { first, second, attribute: by.name }),
    ]);
    if (!counts || !shares || turn !== this.closer.turn) return;
    const names = [this.nameOf("A"), this.nameOf("B")];
    const nodes = [...this.#sides(counts, [first, second], names), countWords(counts, names)];
    if (shares.reason) {
      this.exhibit = null;
      this.result.replaceChildren(element("p", {}, shares.reason), ...nodes);
      return;
    }
    this.#showShares(by, shares, names, nodes, second);
  }

  #showShares(by, shares, names, nodes, where) {
    const { lower, upper } = shares.difference;
    const real = by.labels.filter((_, i) => lower[i] > 0 || upper[i] < 0);
    const [one, other] = names;
    const headline = real.length
      ? `${one} and ${other} really differ in ${by.name} (${real.length} of ${by.labels.length} shares).`
      : `No clear difference between ${one} and ${other} in ${by.name}.`;
    const span = (side, i) => {
      const ends = ["estimate", "lower", "upper"].map((end) => shares[side][end][i]);
      if (ends.some((end) => typeof end !== "number")) return ["", "", ""];
      if (side !== "difference") return percents(...ends);
      return rounded(...ends.map((end) => 100 * end), 0.01);
    };
    const verdict = (i) => {
      if (lower[i] > 0) return `larger in ${one}`;
      return upper[i] < 0 ? `larger in ${other}` : "may be equal";
    };
    const apart = `${one} − ${other}, points`;
    const heads = [one, other === one ? `${other} (B)` : other, apart];
    const exhibit = {
      title: `${one} and ${other} by ${by.name}`,
      file: "comparison",
      where: `${one}: ${this.kept ?? "all records"}; ${other}: ${where ?? "all records"}`,
      lines: [headline],
      columns: [by.name, ...heads.flatMap(three), "verdict"],
      nNames: 1,
      rows: by.labels.map((label, i) => [
        label, ...["first", "second", "difference"].flatMap((side) => span(side, i)), verdict(i),
      ]),
      sql: statementOf(by, { kind: "percent" }, where, (name) => this.attribute(name)),
    };
    const note =
      "Shares of the records under each filter. The verdict follows from the interval of the difference. " +
      "Intervals of two different shares may overlap.";
    const verdictLine = element("p", { class: "verdict" }, element("strong", {}, headline));
    this.show(exhibit, [note], () => false, verdictLine, ...nodes);
  }

  #sides({ first, second }, wheres, names) {
    const side = (letter, where, name, count) =>
      element(
        "div", {}, element("h3", { class: `of-${letter}` }, name),
        element("code", {}, where ?? "all records"),
        element("p", {}, about(count.estimate, count.lower, count.upper)),
      );
    const sides = [side("A", wheres[0], names[0], first), side("B", wheres[1], names[1], second)];
    return [element("div", { class: "side" }, ...sides)];
  }
}

/** The difference and ratio of two counts as a sentence. */
function countWords(counts, [one, other]) {
  const { difference, difference_interval: apart, ratio, ratio_interval: ends, is_real: isReal } = counts;
  const [estimate, low, high] = rounded(difference, ...apart);
  const isBounded = ratio !== null && ends[1] !== null;
  const times = isBounded ? rounded(ratio, ...ends, 0.01) : null;
  const ratioWords = isBounded
    ? ` ${one} has ${times[0]} times as many (likely ${times[1]} to ${times[2]}).`
    : ` The ratio is unbounded, because ${other} may be 0.`;
  const verdict = isReal ? "Their numbers of records differ" : "Their numbers of records may be equal";
  return element(
    "p", { class: "quiet" },
    `${verdict}: ${one} − ${other} is about ${estimate} (likely ${low} to ${high}).${ratioWords}`,
  );
}
