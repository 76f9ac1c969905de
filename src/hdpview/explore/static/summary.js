// The panel of means and quartiles of all numbers.

import { Panel } from "./panel.js";
import { element, rounded, three } from "./parts.js";

// The columns, and what is asked for: the mean, or the share of records below a quantile.
const STATISTICS = { mean: "mean", "25th percentile": 0.25, median: 0.5, "75th percentile": 0.75 };
const VAGUE = 0.8; // an interval of so much of what is possible says nothing

export class SummaryPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    this.numeric = this.schema.attributes.filter((a) => a.kind === "integer" || a.kind === "real");
    const what = element("span", { class: "quiet" }, "of all numbers");
    this.fill("the statistics", [what], ["CSV", "PNG", "SVG"]);
  }

  async refresh() {
    if (!this.numeric.length) {
      this.say("This view has no attribute that is a number.", "quiet");
      return;
    }
    const turn = this.closer.turn;
    const where = this.page.state.where();
    const measures = Object.values(STATISTICS);
    if (!this.result.childElementCount) this.say("Computing…", "quiet");
    const answers = await Promise.all(
      this.numeric.map(({ name }) =>
        this.ask("/api/statistics", { where, attribute: name, measures }, `numbers of ${name}`),
      ),
    );
    if (answers.includes(null) || turn !== this.closer.turn) return;
    const vague = [];
    const rows = this.numeric.map((attribute, i) => {
      const ends = attribute.ends.map(Number);
      const cells = answers[i].found.flatMap((found, k) => {
        const span = [found?.estimate, found?.lower, found?.upper];
        if (span.some((each) => typeof each !== "number")) return ["", "", ""];
        if (span[2] - span[1] > VAGUE * (ends.at(-1) - ends[0])) vague.push(i);
        // Quantiles of whole numbers are whole.
        return rounded(...span, k > 0 && attribute.kind === "integer" ? 1 : 0);
      });
      return [attribute.name, ...cells];
    });
    const { sql } = this.numeric[0];
    const calls = [`AVG(${sql})`, ...measures.slice(1).map((share) => `quantile_cont(${sql}, ${share})`)];
    const exhibit = {
      title: "Means and quantiles", file: "statistics", where,
      columns: ["attribute", ...Object.keys(STATISTICS).flatMap(three)], nNames: 1, rows,
      sql: `SELECT ${calls.join(", ")} ${this.from()}`,
    };
    const reading = "Bins count as their middle. Rows in italics could be almost anywhere.";
    this.show(exhibit, [...answers[0].notes, reading], (_, i) => vague.includes(i));
  }
}
