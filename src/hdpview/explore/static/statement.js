// The panel “SQL”: runs a SELECT statement.

import { LISTED, Panel } from "./panel.js";
import { element, rounded, shown } from "./parts.js";

export class StatementPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    this.statement = element("textarea", {
      rows: 5, spellcheck: "false", "aria-label": "A SELECT statement over the table view",
    });
    const [first] = this.schema.attributes;
    this.first =
      `SELECT ${first.sql}, COUNT(*) AS n\nFROM view\nGROUP BY ${first.sql}\n` + "ORDER BY n DESC\nLIMIT 10";
    this.statement.value = this.first;
    const run = element("button", { class: "primary", onclick: () => this.changed() }, "Run the statement");
    this.statement.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.changed();
      }
    });
    const hint = "Any SELECT over the table view. The filter above does not apply.";
    const controls = [run, element("span", { class: "quiet" }, hint)];
    this.fill("the result", controls, ["CSV", "Parquet", "PNG", "SVG"]);
    this.root.prepend(this.statement);
  }

  look() {
    return this.statement.value === this.first ? {} : { sql: this.statement.value };
  }

  restore({ sql }) {
    this.statement.value = typeof sql === "string" ? sql.slice(0, 20_000) : this.first;
  }

  async refresh() {
    const turn = this.closer.turn;
    const sql = this.statement.value;
    const answer = await this.ask("/api/sql", { sql }, "select");
    if (!answer || turn !== this.closer.turn) return;
    const { columns, aggregates, rows } = answer;
    const nNames = Math.max(0, columns.findIndex((column) => aggregates.includes(column)));
    const keyOf = (column) => column.replace(/_(lower|upper)$/, "");
    const cell = (row, column) => {
      const key = aggregates.includes(column) ? column : keyOf(column);
      const span = [row[key], row[`${key}_lower`], row[`${key}_upper`]];
      if (!aggregates.includes(key) || span.some((each) => typeof each !== "number"))
        return typeof row[column] === "number" ? shown(row[column]) : String(row[column] ?? "");
      const texts = rounded(...span, span.every(Number.isInteger) ? 1 : 0);
      return texts[column === key ? 0 : column.endsWith("_lower") ? 1 : 2];
    };
    const isNoise = ({ [`${aggregates[0]}_lower`]: lower }) => typeof lower === "number" && lower <= 0;
    const exhibit = {
      title: "Result of a statement",
      file: "result",
      where: "none besides the statement's own conditions",
      lines: [
        sql.replace(/\s+/g, " ").trim(),
        ...(answer.cut_off ? [`The first ${shown(rows.length)} rows`] : []),
      ],
      columns,
      nNames,
      rows: rows.map((row) => columns.map((column) => cell(row, column))),
      sql,
    };
    const notes = [
      ...answer.notes, ...answer.inferred,
      rows.length > LISTED || answer.cut_off ? `The first ${LISTED} rows.` : "",
      rows.length ? "" : "No rows.",
    ];
    this.show(exhibit, notes, (_, i) => isNoise(rows[i]));
  }
}
