// The panel “Two attributes”: a heatmap.

import { Heatmap } from "./heatmap.js";
import { Panel } from "./panel.js";
import { choose, element, inferredNote, percents, rounded, say, selectOf, shown, three } from "./parts.js";
import { between } from "./state.js";
import { statementOf } from "./statements.js";

const FIRST_CELLS = 50_000; // maximum cells of the initial heatmap
const MOST_CELLS = 250_000; // maximum cells of any heatmap
const CELLS = [
  ["records", "records"], ["row", "percent of the row"], ["column", "percent of the column"],
  ["all", "percent of all"],
];

/** The initial attributes: an ordered one across, and one that keeps the heatmap small. */
function firstPair(attributes) {
  const across = attributes.find((a) => a.edges) ?? attributes[0];
  const others = attributes.filter((a) => a !== across);
  const isSmall = (b) => across.labels.length * b.labels.length <= FIRST_CELLS;
  const down = others.find(isSmall) ?? others[0] ?? across;
  return [across.name, down.name];
}

export class PairsPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    const [across, down] = firstPair(this.schema.attributes);
    this.x = this.attributeList("Across", this.names, across);
    this.y = this.attributeList("Down", this.names, down);
    this.cell = element("div", { class: "quiet", id: "cell", "aria-live": "polite" });
    this.cells = selectOf("Cells show", CELLS, "records", () => this.changed());
    const controls = [["across", this.x], ["down", this.y], ["show", this.cells]];
    this.fill("the heatmap", controls, ["PNG", "SVG", "CSV"], this.cell);
    this.#read("");
  }

  look() {
    return { x: this.x.value, y: this.y.value, cells: this.cells.value };
  }

  restore({ x, y, cells }) {
    choose(this.x, x);
    choose(this.y, y);
    choose(this.cells, cells);
  }

  #read(words) {
    say(this.cell, words || "Point at a cell to read it. Click it to filter by it.");
  }

  async refresh() {
    const [a, b] = [this.x.value, this.y.value].map((name) => this.attribute(name));
    const n = a.labels.length * b.labels.length;
    const why =
      a === b
        ? "Choose two different attributes."
        : n > MOST_CELLS
          ? `${shown(n)} cells are too many for a heatmap. Choose an attribute with fewer values.`
          : null;
    if (why) {
      this.say(why, "quiet");
      return;
    }
    const turn = this.closer.turn;
    const where = this.page.state.where();
    const whole = this.cells.value;
    const answer = await this.ask("/api/pairs", { where, first: b.name, second: a.name, whole }, "pairs");
    if (!answer || turn !== this.closer.turn) return;
    const pick = (across, down) =>
      this.page.filterAll({ [a.name]: between(a, ...across), [b.name]: between(b, ...down) });
    const makeMap = (width) => new Heatmap(a, b, answer, width, whole);
    const map = makeMap(this.result.clientWidth);
    map.listen((words) => this.#read(words), pick);
    const wasFocused = document.activeElement === this.picture;
    this.picture = map.picture;
    const notes = [
      ...answer.notes,
      ...inferredNote(this.schema, [...new Set([a.name, b.name, ...this.page.filtered])]),
    ];
    this.exhibit = this.#exhibitOf(a, b, map, makeMap, where, notes);
    this.result.replaceChildren(this.picture, ...notes.map((note) => element("p", { class: "quiet" }, note)));
    if (wasFocused) this.picture.focus();
  }

  #exhibitOf(a, b, map, makeMap, where, notes) {
    const isCount = map.whole === "records" || !map.answer.share;
    const head = isCount ? "records" : `percent of ${map.whole}`;
    const { estimate, lower, upper } = map.data;
    const cell = (i, j) => {
      const ends = [estimate[j][i], lower[j][i], upper[j][i]];
      return isCount ? rounded(...ends) : percents(...ends);
    };
    const what = isCount ? "Records" : `Percent of the ${map.whole === "all" ? "whole" : map.whole}`;
    return {
      title: `${what} by ${a.name} (across) and ${b.name} (down)`,
      file: `heatmap_${a.name}_${b.name}`,
      where,
      lines: ["Pale cells cannot be distinguished from 0", ...notes],
      columns: [b.name, a.name, ...three(head)],
      nNames: 2,
      rows: b.labels.flatMap((down, j) => a.labels.map((across, i) => [down, across, ...cell(i, j)])),
      sql: statementOf([b, a], { kind: "records" }, where, (name) => this.attribute(name)),
      picture: (width) => {
        const { picture } = makeMap(width);
        return { nodes: [...picture.children], height: Number(picture.getAttribute("height")) };
      },
    };
  }
}
