// The panel of two attributes: a heatmap.

import { ask } from "./api.js";
import { Heatmap } from "./heatmap.js";
import { Panel, choose, resultBox } from "./panel.js";
import { element, inferredNote, say, shown } from "./parts.js";
import { saveMenu, savePicture } from "./picture.js";
import { between } from "./state.js";
import { offline } from "./transport.js";

const PICTURE = 50_000; // cells of a picture drawn unasked
const MOST_CELLS = 250_000; // and of one that is asked for
/**
 * The two attributes of the first picture: one that has an order, and one with which it makes no huge
 * picture.
 */
function firstPair(attributes) {
  const across = attributes.find((a) => a.ends) ?? attributes[0];
  const others = attributes.filter((a) => a !== across);
  const down = others.find((b) => across.labels.length * b.labels.length <= PICTURE) ?? others[0] ?? across;
  return [across.name, down.name];
}

export class PairsPanel extends Panel {
  constructor(closer, root) {
    super(closer, root);
    const names = this.schema.attributes.map((a) => a.name);
    const [across, down] = firstPair(this.schema.attributes);
    this.x = this.attributeList("Across", names, across);
    this.y = this.attributeList("Down", names, down);
    this.map = resultBox();
    this.cell = element("div", { class: "quiet", id: "cell", "aria-live": "polite" });
    this.cells = element(
      "select",
      { "aria-label": "Cells show", onchange: () => this.changed() },
      ...Object.entries({
        records: "records",
        row: "percent of the row",
        column: "percent of the column",
        all: "percent of all",
      }).map(([value, text]) => element("option", { value }, text)),
    );
    this.blocks = element("input", { type: "checkbox", id: "blocks", onchange: () => this.changed() });
    const saved = saveMenu("the heatmap", ["PNG", "SVG"], (kind) =>
      this.#saveHeatmap(kind).catch((p) => this.say(p.message)),
    );
    const copy = element(
      "button",
      {
        onclick: () => this.copyPython(`view.plot.heatmap(${this.#heatmapArguments()})`),
      },
      "Copy Python",
    );
    this.root.replaceChildren(
      element(
        "div",
        { class: "controls" },
        "across",
        this.x,
        "down",
        this.y,
        "show",
        this.cells,
        ...(this.schema.made_of === "block" && !offline
          ? [element("label", {}, this.blocks, " draw the blocks")]
          : []),
        saved,
        copy,
      ),
      this.cell,
      this.map,
    );
    this.#read("");
  }

  look() {
    return {
      x: this.x.value,
      y: this.y.value,
      blocks: this.blocks.checked,
      cells: this.cells.value,
    };
  }

  take({ x, y, blocks, cells }) {
    choose(this.x, x);
    choose(this.y, y);
    choose(this.cells, cells);
    this.blocks.checked = blocks === true;
  }

  say(text) {
    this.picture = null;
    super.say(text);
  }

  /** What the heatmap shows, as arguments of a call in Python. */
  #heatmapArguments() {
    const shown = [this.x.value, this.y.value, this.page.state.where()];
    return shown
      .filter((each) => each !== null)
      .map((each) => JSON.stringify(each))
      .join(", ");
  }

  async #saveHeatmap(kind) {
    if (!this.picture) return;
    // Of what the picture shows, which may be older than what is asked for.
    const { names, where } = this.drawn;
    await savePicture(
      this.picture,
      [`Records by ${names[0]} (across) and ${names[1]} (down)`, this.page.caption(where)],
      `heatmap_${names.join("_").replace(/[^\w-]+/g, "_")}`,
      kind,
    );
  }

  #read(words) {
    say(this.cell, words || "Point at a cell to read it, click it to filter by it.");
  }

  async refresh() {
    const [a, b] = [this.x.value, this.y.value].map((name) =>
      this.schema.attributes.find((x) => x.name === name),
    );
    const cells = a.labels.length * b.labels.length;
    const why =
      a === b
        ? "Choose two different attributes."
        : cells > MOST_CELLS
          ? `${shown(cells)} cells are too many for a picture. Choose an attribute with fewer values.`
          : null;
    if (why) {
      this.picture = null;
      this.map.replaceChildren(element("p", {}, why));
      return;
    }
    const turn = this.closer.turn;
    const where = this.page.state.where();
    const [answer, drawn] = await Promise.all([
      ask("/api/pairs", { view: this.page.view, where, first: b.name, second: a.name }, "pairs"),
      this.blocks.checked
        ? ask("/api/blocks", { view: this.page.view, first: a.name, second: b.name }, "blocks")
        : null,
    ]);
    if (!answer || turn !== this.closer.turn) return;
    const choose = (across, down) =>
      this.page.filterAll({ [a.name]: between(a, ...across), [b.name]: between(b, ...down) });
    const map = new Heatmap(
      a,
      b,
      answer,
      drawn?.blocks ?? [],
      this.map.clientWidth,
      this.cells.value,
      (words) => this.#read(words),
      choose,
    );
    const wasFocused = document.activeElement === this.picture;
    this.picture = map.picture;
    this.drawn = { names: [a.name, b.name], where };
    const notes = [
      ...answer.notes,
      ...inferredNote(this.schema, [...new Set([a.name, b.name, ...this.page.filtered])]),
    ];
    if (drawn)
      notes.push(
        drawn.of > drawn.blocks.length
          ? `Lines: the ${shown(drawn.blocks.length)} largest of ${shown(drawn.of)} outlines of blocks.`
          : `Lines: outlines of the view's blocks, ${shown(drawn.of)} different ones. Inside a block the ` +
              `view knows one number.`,
      );
    this.map.replaceChildren(this.picture, ...notes.map((note) => element("p", { class: "quiet" }, note)));
    if (wasFocused) this.picture.focus();
  }
}
