// The panel of groups: counts and shares by one or two attributes, and files of them.

import { ask } from "./api.js";
import { LISTED, Panel, choose, resultBox } from "./panel.js";
import { element, inferredNote } from "./parts.js";
import { save, saveMenu } from "./picture.js";
import { asTable, saveCsv } from "./tables.js";
import { file, offline } from "./transport.js";

export class GroupsPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    const names = this.schema.attributes.map((a) => a.name);
    this.group = this.attributeList("Group by", names);
    this.second = this.attributeList("and by", ["", ...names], "");
    this.rows = resultBox();
    const saved = saveMenu("the table", offline ? ["CSV"] : ["CSV", "Parquet"], (kind) =>
      this.#saveTable(kind.toLowerCase()).catch((p) => this.say(p.message)),
    );
    const copy = element(
      "button",
      { onclick: () => this.copyPython(`view.sql(${JSON.stringify(this.tableSql)})`) },
      "Copy Python",
    );
    const copySql = element(
      "button",
      { onclick: () => this.page.copy(this.tableSql, "SQL copied") },
      "Copy SQL",
    );
    this.root.replaceChildren(
      element("div", { class: "controls" }, "by", this.group, "and", this.second, saved, copySql, copy),
      this.rows,
    );
  }

  look() {
    return { by: this.group.value, and: this.second.value };
  }

  take({ by, and }) {
    choose(this.group, by);
    choose(this.second, and);
  }

  async refresh() {
    const names = [...new Set([this.group.value, this.second.value].filter(Boolean))];
    const by = names.map((name) => this.sqlOf(name)).join(", ");
    const only = names.length === 1 && this.schema.attributes.find((a) => a.name === names[0]);
    const order = only?.ends && only.labels.length <= LISTED ? by : "n DESC"; // a scale keeps its order
    this.tableSql =
      `SELECT ${by}, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share ` +
      `${this.from()} GROUP BY ${by} ORDER BY ${order}`;
    const turn = this.closer.turn;
    const answer = await (offline
      ? this.#groups(names)
      : this.sql(`${this.tableSql} LIMIT ${LISTED + 1}`, "table"));
    if (!answer || turn !== this.closer.turn) return;
    const more = answer.rows.length > LISTED;
    const told = { ...answer, rows: answer.rows.slice(0, LISTED) };
    const notes = [
      ...answer.notes,
      ...inferredNote(this.schema, [...new Set([...names, ...this.page.filtered])]),
      more ? `The ${LISTED} largest groups; a saved file has all.` : "",
      answer.rows.length
        ? "Values in italics cannot be told from 0: noise and the model's error alone could make them."
        : "No value of this view fits the filter.",
    ];
    this.rows.replaceChildren(
      asTable(told, names.length),
      element("p", { class: "quiet" }, notes.filter(Boolean).join(" ")),
    );
  }

  /** The same groups without SQL, for a page that has no server. */
  async #groups(names) {
    const where = this.page.state.where();
    const [a, b] = names.map((name) => this.schema.attributes.find((each) => each.name === name));
    const answer = await (b
      ? ask("/api/pairs", { where, first: a.name, second: b.name }, "table")
      : ask("/api/histograms", { where }, "table"));
    if (!answer) return null;
    const found = b ? answer : answer.histograms[a.name];
    const flat = (key) => found[key].flat();
    const columns = [...names, "n", "n_lower", "n_upper"];
    const rows = flat("estimate").map((n, i) => ({
      ...Object.fromEntries(
        b
          ? [
              [a.name, a.labels[Math.floor(i / b.labels.length)]],
              [b.name, b.labels[i % b.labels.length]],
            ]
          : [[a.name, a.labels[i]]],
      ),
      n,
      n_lower: flat("lower")[i],
      n_upper: flat("upper")[i],
    }));
    return {
      columns,
      aggregates: ["n"],
      rows: rows.filter(({ n_upper: most }) => most > 0),
      notes: answer.notes ?? answer.count.notes,
    };
  }

  /**
   * All groups as a file: CSV of rounded numbers below a line that says where they come from, or Parquet as
   * it is.
   */
  async #saveTable(format) {
    if (format !== "csv") {
      save(
        `groups.${format}`,
        await file("/api/table", { view: this.page.view, sql: this.tableSql, format }),
      );
      return;
    }
    const names = [...new Set([this.group.value, this.second.value].filter(Boolean))];
    saveCsv(
      this.page,
      "groups.csv",
      await (offline ? this.#groups(names) : this.sql(this.tableSql, "file")),
      names,
    );
  }
}
