// The panel “Means and quantiles”: mean and quartiles of all numeric attributes.

import { Panel } from "./panel.js";
import { element, rounded, three } from "./parts.js";

// Columns and their measures: the mean, or the share of records below the quantile.
const STATISTICS = { mean: "mean", "25th percentile": 0.25, median: 0.5, "75th percentile": 0.75 };
const VAGUE = 0.8; // an interval wider than this share of the possible range is uninformative

export class SummaryPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    this.numeric = this.schema.attributes.filter((a) => a.kind === "integer" || a.kind === "real");
    const what = element("span", { class: "quiet" }, "All numeric attributes");
    this.fill("the statistics", [what], ["CSV", "PNG", "SVG"]);
  }

  async refresh() {
    if (!this.numeric.length) {
      this.say("This view has no numeric attribute.", "quiet");
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
      const { edges } = attribute;
      const cells = answers[i].spans.flatMap((value, k) => {
        const span = [value?.estimate, value?.lower, value?.upper];
        if (span.some((each) => typeof each !== "number")) return ["", "", ""];
        if (span[2] - span[1] > VAGUE * (edges.at(-1) - edges[0])) vague.push(i);
        // Quantiles of integers are integers.
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
    const reading = "Records count as the midpoints of their bins. Rows in italics are highly uncertain.";
    this.show(exhibit, [...answers[0].notes, reading], (_, i) => vague.includes(i));
  }
}
