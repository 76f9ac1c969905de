// The panel of means and quartiles of all numbers.

import { ask } from "./api.js";
import { Panel, resultBox } from "./panel.js";
import { element, rounded, shown } from "./parts.js";
import { offline } from "./transport.js";

// The columns, and how the published page is asked for them: the mean, or shares of records below a quantile.
const STATISTICS = { mean: "mean", q1: 0.25, median: 0.5, q3: 0.75 };

export class MeansPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    this.numeric = this.schema.attributes
      .filter((a) => a.kind === "integer" || a.kind === "real")
      .map((a) => a.name);
    this.root.replaceChildren(resultBox());
  }

  /** Means and quartiles by a statement: for each number, [value, lower, upper] by the name of the column. */
  async #byStatement() {
    const call = (x, share) => (share === "mean" ? `AVG(${x})` : `quantile_cont(${x}, ${share})`);
    const parts = this.numeric.flatMap((name, i) =>
      Object.entries(STATISTICS).map(([key, share]) => `${call(this.sqlOf(name), share)} AS ${key}_${i}`),
    );
    const answer = await this.sql(`SELECT ${parts.join(", ")} ${this.from()}`, "numbers");
    if (!answer) return null;
    const [row] = answer.rows;
    const span = (name) => ["", "_lower", "_upper"].map((end) => row[`${name}${end}`]);
    const spans = this.numeric.map((_, i) =>
      Object.fromEntries(Object.keys(STATISTICS).map((key) => [key, span(`${key}_${i}`)])),
    );
    return { spans, notes: answer.notes };
  }

  /** The same, computed in the page. */
  async #byPage() {
    const where = this.page.state.where();
    const measures = Object.values(STATISTICS);
    const answers = await Promise.all(
      this.numeric.map((name) =>
        ask("/api/statistics", { where, attribute: name, measures }, `numbers of ${name}`),
      ),
    );
    if (answers.includes(null)) return null;
    const spans = answers.map(({ found }) =>
      Object.fromEntries(
        Object.keys(STATISTICS).map((key, i) => [
          key,
          [found[i].estimate[0], found[i].lower[0], found[i].upper[0]],
        ]),
      ),
    );
    return { spans, notes: answers[0].notes };
  }

  /** A number with its interval; where that is nearly all that the attribute can be, it says so. */
  #cell(name, [value, low, high]) {
    if (typeof value !== "number") return element("td", { class: "faint" }, "—");
    const ends = this.attribute(name).ends.map(Number);
    const isKnown = typeof low === "number" && typeof high === "number";
    const isVague = !isKnown || high - low > 0.8 * (ends.at(-1) - ends[0]);
    const [mid, from, to] = isKnown ? rounded(value, low, high, 0) : [shown(value)];
    return element(
      "td",
      { class: isVague ? "faint" : null },
      element("span", {}, element("strong", {}, mid), isKnown ? ` (${from} to ${to})` : " (no bound)"),
      isVague ? element("small", {}, "says nothing: could be almost anywhere") : "",
    );
  }

  async refresh() {
    const result = this.root.querySelector(".result");
    if (!this.numeric.length) {
      result.replaceChildren(element("p", {}, "This view has no attribute that is a number."));
      return;
    }
    const turn = this.closer.turn;
    if (!result.childElementCount) result.replaceChildren(element("p", { class: "quiet" }, "Computing…"));
    const answer = await (offline ? this.#byPage() : this.#byStatement());
    if (!answer || turn !== this.closer.turn) return;
    const rows = this.numeric.map((name, i) => {
      const cells = Object.keys(STATISTICS).map((key) => this.#cell(name, answer.spans[i][key]));
      return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
    });
    const heads = ["attribute", "mean", "a quarter lies below", "median", "three quarters lie below"];
    result.replaceChildren(
      element(
        "table",
        { class: "numbers" },
        element(
          "thead",
          {},
          element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head))),
        ),
        element("tbody", {}, ...rows),
      ),
      element(
        "p",
        { class: "quiet" },
        [...answer.notes, "In brackets: 95 % typical intervals. Bins count as their middle."].join(" "),
      ),
    );
  }
}
