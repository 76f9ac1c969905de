// The base class of the panels below the charts.

import { ask } from "./api.js";
import { tablePicture } from "./exhibit.js";
import { exhibitMenu } from "./menu.js";
import { element, selectOf } from "./parts.js";

export const LISTED = 500; // rows of a displayed table; saved files list all
const FEW = 4; // columns that fit side by side on a phone

/**
 * A panel. `refresh` requests and draws the result, `look` returns the selection for the link, `restore`
 * takes it from a link, and `exhibit` is the result to save.
 */
export class Panel {
  /** closer: is notified of a new selection by changed(); root: the element that the panel fills. */
  constructor(closer, root) {
    Object.assign(this, { closer, root, page: closer.page, schema: closer.schema, exhibit: null });
    this.names = this.schema.attributes.map(({ name }) => name);
    const region = { role: "region", "aria-label": "Result", tabindex: 0 };
    this.result = element("div", { class: "result scroll", ...region });
  }

  look() {
    return {};
  }

  restore() {}

  changed() {
    return this.closer.changed();
  }

  /** Fill the panel: controls (nodes, or words and the list they name), the save menu and the result. */
  fill(what, controls, kinds, ...above) {
    const saved = exhibitMenu(this.page, what, "Save", () => this.exhibit, kinds);
    const named = ([words, list]) => element("label", {}, `${words} `, list);
    const nodes = controls.map((each) => (Array.isArray(each) ? named(each) : each));
    this.root.replaceChildren(element("div", { class: "controls" }, ...nodes, saved), ...above, this.result);
  }

  /** A list of attributes. A new selection is shown at once. */
  attributeList(label, names, chosen) {
    return selectOf(label, names.map((name) => [name, name || "nothing else"]), chosen, () => this.changed());
  }

  attribute(name) {
    return this.page.attribute(name);
  }

  /** The FROM and WHERE clauses of a statement under the active filter. */
  from() {
    const where = this.page.state.where();
    return `FROM view${where ? ` WHERE ${where}` : ""}`;
  }

  ask(path, question, kind) {
    return ask(path, { view: this.page.view, ...question }, kind);
  }

  /** Show an exhibit's table with notes below. faint(row, i): the row cannot be distinguished from 0. */
  show(exhibit, notes, faint = () => false, ...above) {
    this.exhibit = { isTable: true, picture: (width) => tablePicture(exhibit, width), ...exhibit };
    const lines = notes.filter(Boolean).map((note) => element("p", { class: "quiet" }, note));
    this.result.replaceChildren(...above, asTable(exhibit, faint), ...lines);
  }

  /** Show a message in place of a result. */
  say(text, kind = "error") {
    this.exhibit = null;
    this.result.replaceChildren(element("p", { class: kind }, text));
  }
}

/** An exhibit's rows as a table in which each interval has its own column. */
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
      const value = element("td", { class: "number", "data-head": column[0] }, row[column[1]] || "—");
      if (!hasEnds(column)) return [value];
      const [low, high] = ends(column[0]).map((end) => row[end]);
      return [value, element("td", { class: "quiet interval" }, low ? `${low} to ${high}` : "")];
    });
  const line = (row, i) => element("tr", { class: faint(row, i) ? "faint" : null }, ...cells(row));
  // On a phone, rows of many values wrap to several lines.
  return element(
    "table", { class: heads.length > FEW ? "many" : null }, element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows.slice(0, LISTED).map(line)),
  );
}
