// The panel “Group by”: counts, shares and the measure by one or two attributes.

import { isMeasured, nameOf } from "./model.js";
import { LISTED, Panel } from "./panel.js";
import { choose, inferredNote, percents, rounded, three } from "./parts.js";
import { statementOf } from "./statements.js";
import { offline } from "./transport.js";

const RECORDS = { kind: "records" };
const UNKNOWN = ["", "", ""];

export class GroupsPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    this.group = this.attributeList("Group by", this.names);
    this.second = this.attributeList("and by", ["", ...this.names], "");
    const kinds = ["CSV", ...(offline ? [] : ["Parquet"]), "PNG", "SVG"];
    this.fill("the table", [["by", this.group], ["and", this.second]], kinds);
  }

  look() {
    return { by: this.group.value, and: this.second.value };
  }

  restore({ by, and }) {
    choose(this.group, by);
    choose(this.second, and);
  }

  async refresh() {
    const names = [...new Set([this.group.value, this.second.value].filter(Boolean))];
    const by = names.map((name) => this.attribute(name));
    const { page } = this;
    const where = page.state.where();
    const turn = this.closer.turn;
    const table = await (by.length === 1 ? this.#one(by[0], where) : this.#two(by, where));
    if (!table || turn !== this.closer.turn) return;
    const isScale = by.length === 1 && by[0].edges && table.rows.length <= LISTED;
    const order = [...table.rows.keys()].filter((i) => table.most[i] > 0);
    if (!isScale) order.sort((x, y) => table.counts[y] - table.counts[x]);
    const rows = order.map((i) => table.rows[i]);
    const notes = [
      ...table.notes,
      ...inferredNote(this.schema, [...new Set([...names, ...page.filtered])]),
      rows.length > LISTED ? `The ${LISTED} largest groups; saved files list all.` : "",
      rows.length
        ? "Values in italics cannot be distinguished from 0."
        : "No possible value matches the filter.",
    ];
    const exhibit = {
      title: `${table.title} by ${names.join(" and ")}`, file: "groups", where, lines: table.notes,
      columns: [...names, ...table.columns], nNames: by.length, rows,
      sql: statementOf(by, by.length > 1 ? RECORDS : page.measure, where, (name) => page.attribute(name)),
    };
    this.show(exhibit, notes, (_, i) => table.least[order[i]] <= 0);
  }

  /** The table of one attribute, with shares and the measure. */
  async #one(attribute, where) {
    const { page } = this;
    const { name } = attribute;
    const { measure } = page;
    const hasMeasure = isMeasured(measure) && measure.attribute !== name;
    const question = { where, own: {}, attributes: [name], groups: {} };
    const [shared, measured] = await Promise.all([
      this.ask("/api/histograms", { ...question, measure: { kind: "percent" } }, "table"),
      hasMeasure ? this.ask("/api/histograms", { ...question, measure }, "table measured") : null,
    ]);
    if (!shared || (hasMeasure && !measured)) return null;
    const { estimate, lower, upper, share } = shared.histograms[name];
    const value = measured?.histograms[name].value;
    const title = hasMeasure ? nameOf(measure, (each) => page.attribute(each)) : "records";
    const valueOf = (i) => {
      const ends = [value.estimate[i], value.lower[i], value.upper[i]];
      if (ends.some((end) => typeof end !== "number")) return UNKNOWN;
      return measure.kind === "rate" ? percents(...ends) : rounded(...ends, 0);
    };
    const shareOf = (i) =>
      typeof share?.lower[i] === "number"
        ? percents(share.estimate[i], share.lower[i], share.upper[i])
        : UNKNOWN;
    const leftOut = hasMeasure && measure.kind === "rate" ? page.leftOut : "";
    return {
      title: `${title[0].toUpperCase()}${title.slice(1)}`,
      columns: [...three("records"), ...three("share"), ...(hasMeasure ? three(title) : [])],
      rows: attribute.labels.map((label, i) => [
        label, ...rounded(estimate[i], lower[i], upper[i]), ...shareOf(i), ...(hasMeasure ? valueOf(i) : []),
      ]),
      counts: estimate,
      least: lower,
      most: upper,
      notes: [...shared.count.notes, leftOut].filter(Boolean),
    };
  }

  async #two([a, b], where) {
    const answer = await this.ask("/api/pairs", { where, first: a.name, second: b.name }, "table");
    if (!answer) return null;
    const [estimate, lower, upper] = ["estimate", "lower", "upper"].map((key) => answer[key].flat());
    const label = (i) => [a.labels[Math.floor(i / b.labels.length)], b.labels[i % b.labels.length]];
    return {
      title: "Records", columns: three("records"),
      rows: estimate.map((value, i) => [...label(i), ...rounded(value, lower[i], upper[i])]),
      counts: estimate, least: lower, most: upper, notes: answer.notes,
    };
  }
}
