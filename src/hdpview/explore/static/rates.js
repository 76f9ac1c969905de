// The panel of rates, means, medians and sums by the values of an attribute.

import { ask } from "./api.js";
import { LISTED, Panel, choose, resultBox } from "./panel.js";
import { element, inFull, inPercent, inferredNote, rounded } from "./parts.js";
import { offline } from "./transport.js";

const WIDTH = 220; // of the drawn intervals, in pixels
const MEASURES = { share: "share of", mean: "mean of", median: "median of", sum: "sum of" };
const CALLS = { mean: "AVG", median: "MEDIAN", sum: "SUM" };
const VAGUE = 0.8; // an interval of so much of what is possible says nothing

export class RatesPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    const { attributes } = this.schema;
    const names = attributes.map((a) => a.name);
    const changed = () => this.changed();
    this.kinds = {
      share: attributes.filter((a) => a.literals?.length),
      mean: attributes.filter((a) => ["integer", "real"].includes(a.kind)),
    };
    this.kinds.median = this.kinds.mean;
    this.kinds.sum = this.kinds.mean;
    const offered = Object.keys(MEASURES).filter(
      (measure) => this.kinds[measure].length && (measure === "share" || !this.closer.lacksNumbers),
    );
    this.measure = element(
      "select",
      {
        "aria-label": "Measure",
        onchange: () => {
          this.#outcomes();
          changed();
        },
      },
      ...offered.map((value) => element("option", { value }, MEASURES[value])),
    );
    this.outcome = element("select", {
      "aria-label": "Outcome",
      onchange: () => {
        this.#values();
        changed();
      },
    });
    this.value = element("select", { "aria-label": "Value of the outcome", onchange: changed });
    this.#outcomes();
    const few = attributes.find((a) => a.name !== this.outcome.value && a.labels.length <= 24);
    this.by = this.attributeList("Rate by", names, few?.name);
    const asked = offered.length
      ? [this.measure, this.outcome, this.value, "by", this.by]
      : ["This view has no attribute to measure."];
    this.root.replaceChildren(element("div", { class: "controls" }, ...asked), resultBox());
  }

  look() {
    return {
      measure: this.measure.value,
      outcome: this.outcome.value,
      value: this.value.value,
      rateBy: this.by.value,
    };
  }

  take({ measure, outcome, value, rateBy }) {
    choose(this.measure, measure);
    choose(this.by, rateBy);
    this.#outcomes();
    choose(this.outcome, outcome);
    this.#values();
    choose(this.value, value);
  }

  /** The attributes that the measure can be of: two values first. */
  #outcomes() {
    const all = this.kinds[this.measure.value] ?? [];
    const before = this.outcome.value;
    this.outcome.replaceChildren(...all.map(({ name }) => element("option", { value: name }, name)));
    this.outcome.value = all.some(({ name }) => name === before)
      ? before
      : ((all.find((a) => a.literals?.length === 2) ?? all[0])?.name ?? "");
    this.#values();
  }

  #values() {
    const attribute = this.attribute(this.outcome.value);
    const before = this.value.value;
    this.value.hidden = this.measure.value !== "share";
    this.value.replaceChildren(
      ...(attribute?.literals ?? []).map((literal, i) =>
        element("option", { value: literal }, attribute.labels[i]),
      ),
    );
    if (attribute?.kind === "boolean") this.value.value = "TRUE";
    choose(this.value, before);
  }

  /** Show a measure by the values of an attribute: one gesture from its chart. */
  measureBy(name) {
    this.by.value = name;
    if (this.outcome.value === name)
      this.outcome.value = [...this.outcome.options].find((option) => option.value !== name)?.value ?? name;
    this.#values();
  }

  /**
   * How often an outcome holds, or a mean or median, by the values of another attribute: "readmitted by
   * age".
   */
  async refresh() {
    const result = this.root.querySelector(".result");
    const turn = this.closer.turn;
    const by = this.attribute(this.by.value);
    const { measure } = this;
    if (!this.outcome.value) return;
    if (by.labels.length > LISTED) {
      result.replaceChildren(
        element(
          "p",
          {},
          `${by.name} has ${inFull(by.labels.length)} values, too many to list. Choose another.`,
        ),
      );
      return;
    }
    const answer = await (measure.value === "share" ? this.#rates(by) : this.#means(by, measure.value));
    if (!answer || turn !== this.closer.turn) return;
    const notes = [
      ...answer.notes,
      ...inferredNote(this.schema, [...new Set([this.outcome.value, by.name, ...this.page.filtered])]),
    ];
    result.replaceChildren(
      rateTable(
        answer,
        by,
        measure.value === "share" ? null : [measure.value, this.attribute(this.outcome.value)],
        notes,
      ),
    );
  }

  #rates(by) {
    const outcome = `${this.sqlOf(this.outcome.value)} = ${this.value.value}`;
    return ask(
      "/api/rates",
      { view: this.page.view, where: this.page.state.where(), outcome, attribute: by.name },
      "rates",
    );
  }

  /** Means, medians or sums of an attribute by the values of another, in the form of rates. */
  async #means(by, measure) {
    if (offline) return this.#computedMeans(by, measure);
    const group = this.sqlOf(by.name);
    const answer = await this.sql(
      `SELECT ${group} AS g, ${CALLS[measure]}(${this.sqlOf(this.outcome.value)}) AS m ${this.from()} ` +
        `GROUP BY ${group} ORDER BY ${group}`,
      "rates",
    );
    if (!answer) return null;
    const code = ({ g }) => (g === null ? by.labels.length - 1 : by.rawLabels.indexOf(String(g)));
    const rows = answer.rows
      .map((row) => ({ ...row, code: code(row) }))
      .filter((row) => row.code >= 0)
      .sort((x, y) => x.code - y.code);
    const column = (key) => rows.map((row) => (typeof row[key] === "number" ? row[key] : null));
    return {
      codes: rows.map((row) => row.code),
      estimate: column("m"),
      lower: column("m_lower"),
      upper: column("m_upper"),
      notes: answer.notes,
    };
  }

  async #computedMeans(by, measure) {
    const asked = { where: this.page.state.where(), attribute: this.outcome.value, by: by.name };
    const measures = [measure === "median" ? 0.5 : measure];
    const answer = await ask("/api/statistics", { ...asked, measures }, "rates");
    return answer && { codes: answer.codes, ...answer.found[0], notes: answer.notes };
  }
}

/**
 * A table of /api/rates, or of means in the same form: each with its interval, in numbers and drawn. What
 * could be almost anything is set in italics. measured: null for rates, otherwise what is measured and its
 * attribute.
 */
function rateTable({ codes, estimate, lower, upper }, attribute, measured, notes) {
  const spans = codes.map((code, i) => ({
    label: attribute.labels[code],
    ...describe(estimate[i], lower[i], upper[i], measured),
  }));
  const x = scaleOf(spans, measured);
  const rows = spans.map((span) =>
    element(
      "tr",
      { class: span.isVague ? "faint" : null },
      element("th", { scope: "row" }, span.label),
      element("td", { class: "number" }, span.told),
      element("td", { class: "quiet interval" }, span.isKnown ? `${span.from} to ${span.to}` : ""),
      element("td", { class: "drawn" }, drawn(span, x)),
    ),
  );
  const what = measured ? `${measured[0]} of ${measured[1].name}` : "rate";
  const heads = [attribute.name, what, "likely"].map((head) => element("th", { scope: "col" }, head));
  const intervals = element("span", { class: "hidden" }, "Intervals");
  return element(
    "div",
    {},
    element(
      "table",
      { class: "rates" },
      element(
        "thead",
        {},
        element("tr", {}, ...heads, element("th", { scope: "col", class: "drawn" }, intervals)),
      ),
      element("tbody", {}, ...rows),
    ),
    ...[...notes, "Values in italics could be almost anything."].map((note) =>
      element("p", { class: "quiet" }, note),
    ),
  );
}

/** A value and its interval: as numbers, as text, and whether they say anything. */
function describe(value, low, high, measured) {
  const isKnown = [value, low, high].every((each) => typeof each === "number");
  if (!isKnown) return { value, isKnown, isVague: true, told: "—" };
  const [told, from, to] = measured
    ? rounded(value, low, high, 0)
    : [`${inPercent(value)} %`, inPercent(low), inPercent(high)];
  const isSum = measured?.[0] === "sum";
  const [least, most] = rangeOf(measured);
  const isVague = isSum ? low <= 0 && high >= 0 : high - low >= VAGUE * (most - least);
  return { value, low, high, isKnown, isVague, told, from, to };
}

/** The least and the greatest that a measure can be. */
function rangeOf(measured) {
  if (!measured) return [0, 1];
  const ends = measured[1].ends.map(Number);
  return [ends[0], ends.at(-1)];
}

/** Where values lie in the drawn intervals: from the least to the greatest of those that say something. */
function scaleOf(spans, measured) {
  const values = spans.map(({ value }) => value).filter((value) => typeof value === "number");
  const clear = spans.filter(({ isVague }) => !isVague);
  const start = measured?.[0] === "sum" ? 0 : rangeOf(measured)[0];
  const most = Math.max(...clear.map(({ high }) => high), ...values, start + 1e-9);
  const least = measured ? Math.min(...clear.map(({ low }) => low), ...values, most) : 0;
  return (value) => Math.max(0, Math.min(WIDTH, ((value - least) / (most - least || 1)) * WIDTH));
}

/** An interval as a band, with a mark at the estimate. */
function drawn({ isKnown, value, low, high }, x) {
  const band = () => [
    element("rect", {
      class: "band of-B",
      x: x(low),
      y: 4,
      width: Math.max(1, x(high) - x(low)),
      height: 8,
    }),
    element("rect", { class: "of-B", x: x(value) - 1, y: 2, width: 2, height: 12 }),
  ];
  return element("svg", { width: WIDTH + 2, height: 16, "aria-hidden": "true" }, ...(isKnown ? band() : []));
}
