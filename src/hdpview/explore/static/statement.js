// The panel of a SELECT statement written by hand.

import { LISTED, Panel, resultBox } from "./panel.js";
import { element } from "./parts.js";
import { saveMenu } from "./picture.js";
import { asTable, saveCsv } from "./tables.js";

export class StatementPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    this.statement = element("textarea", {
      rows: 5,
      spellcheck: "false",
      "aria-label": "A SELECT statement over the table view",
    });
    const [first] = this.schema.attributes;
    this.statement.value =
      `SELECT ${first.sql}, COUNT(*) AS n\nFROM view\nGROUP BY ${first.sql}\n` + "ORDER BY n DESC\nLIMIT 10";
    const run = element("button", { class: "primary", onclick: () => this.changed() }, "Run the statement");
    const saved = saveMenu("the result", ["CSV"], () => saveCsv(this.page, "result.csv", this.result, []));
    this.statement.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.changed();
      }
    });
    this.root.replaceChildren(
      this.statement,
      element(
        "div",
        { class: "controls" },
        run,
        saved,
        element(
          "span",
          { class: "quiet" },
          "Any SELECT over the table view. The filter above does not apply.",
        ),
      ),
      resultBox(),
    );
  }

  /** The answer to the statement. */
  async refresh() {
    const turn = this.closer.turn;
    const answer = await this.sql(this.statement.value, "select");
    if (!answer || turn !== this.closer.turn) return;
    this.result = answer;
    const more = answer.rows.length > LISTED || answer.cut_off;
    const notes = [
      ...answer.notes,
      ...answer.inferred,
      more ? `The first ${LISTED} rows.` : "",
      answer.rows.length ? "" : "No rows.",
    ].filter(Boolean);
    this.root.querySelector(".result").replaceChildren(
      asTable(
        { ...answer, rows: answer.rows.slice(0, LISTED) },
        answer.columns.findIndex((column) => answer.aggregates.includes(column)),
      ),
      ...notes.map((note) => element("p", { class: "quiet" }, note)),
    );
  }
}
