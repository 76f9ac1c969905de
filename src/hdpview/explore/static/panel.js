// What the panels below the charts have in common: a result that is shown, and can be taken away.

import { ask } from "./api.js";
import { tablePicture } from "./exhibit.js";
import { exhibitMenu } from "./menu.js";
import { element, selectOf } from "./parts.js";

export const LISTED = 500; // rows of a table; a saved file has all
const FEW = 4; // columns that stand beside each other on a phone

/**
 * A panel: `refresh` asks for what it shows and draws it, `look` says for the link what is chosen, and `take`
 * chooses what a link says. `exhibit` is what can be saved.
 */
export class Panel {
  /** closer: told by changed() that something else was chosen; root: the element that the panel fills. */
  constructor(closer, root) {
    Object.assign(this, { closer, root, page: closer.page, schema: closer.schema, exhibit: null });
    this.names = this.schema.attributes.map(({ name }) => name);
    const region = { role: "region", "aria-label": "Result", tabindex: 0 };
    this.result = element("div", { class: "result scroll", ...region });
  }

  look() {
    return {};
  }

  take() {}

  changed() {
    return this.closer.changed();
  }

  /** Fill the panel: what is chosen, what can be done with the result, and the result. */
  fill(what, controls, kinds, ...above) {
    const saved = exhibitMenu(this.page, what, "Save", () => this.exhibit, kinds);
    this.root.replaceChildren(
      element("div", { class: "controls" }, ...controls, saved), ...above, this.result,
    );
  }

  /** A list of attributes; another choice is shown at once. */
  attributeList(label, names, chosen) {
    return selectOf(label, names.map((name) => [name, name || "nothing else"]), chosen, () => this.changed());
  }

  attribute(name) {
    return this.page.attribute(name);
  }

  /** What a statement about the active filter ends with. */
  from() {
    const where = this.page.state.where();
    return `FROM view${where ? ` WHERE ${where}` : ""}`;
  }

  ask(path, question, kind) {
    return ask(path, { view: this.page.view, ...question }, kind);
  }

  /** Show a table, and notes below it. exhibit: what it is, for files and the report. */
  show(exhibit, notes, faint = () => false, ...above) {
    this.exhibit = { isTable: true, picture: (width) => tablePicture(exhibit, width), ...exhibit };
    const lines = notes.filter(Boolean).map((note) => element("p", { class: "quiet" }, note));
    this.result.replaceChildren(...above, asTable(exhibit, faint), ...lines);
  }

  /** Say why there is nothing to see. */
  say(text, kind = "error") {
    this.exhibit = null;
    this.result.replaceChildren(element("p", { class: kind }, text));
  }
}

/** An exhibit's rows as a table: each value with its interval beside it. faint(row): may be noise. */
function asTable({ columns, rows, nNames }, faint) {
  const valueOf = (name) => name.replace(/_(lower|upper)$/, "");
  const isEnd = (name) => name !== valueOf(name) && columns.includes(valueOf(name));
  const seen = columns.map((name, i) => [name, i]).filter(([name]) => !isEnd(name));
  const ends = (name) => [columns.indexOf(`${name}_lower`), columns.indexOf(`${name}_upper`)];
  const hasEnds = ([name]) => ends(name)[0] >= 0;
  const heads = seen.flatMap((column, i) => [
    element("th", { scope: "col", class: i < nNames ? null : "number" }, column[0]),
    ...(hasEnds(column) ? [element("th", { scope: "col", class: "quiet" }, "likely")] : []),
  ]);
  const cells = (row) =>
    seen.flatMap((column, i) => {
      if (i < nNames) return [element("th", { scope: "row" }, row[column[1]])];
      const told = { class: "number", "data-head": column[0] };
      const value = element("td", told, row[column[1]] || "—");
      if (!hasEnds(column)) return [value];
      const [low, high] = ends(column[0]).map((end) => row[end]);
      return [value, element("td", { class: "quiet interval" }, low ? `${low} to ${high}` : "")];
    });
  const line = (row, i) => element("tr", { class: faint(row, i) ? "faint" : null }, ...cells(row));
  // On a phone a row of many values stands in several lines.
  return element(
    "table", { class: heads.length > FEW ? "many" : null }, element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows.slice(0, LISTED).map(line)),
  );
}
