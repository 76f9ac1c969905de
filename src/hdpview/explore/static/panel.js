// What the panels below the charts have in common.

import { ask } from "./api.js";
import { element } from "./parts.js";

export const LISTED = 500; // rows of a table; a saved file has all

/** A list of names to choose from. */
export function selectOf(label, names, chosen) {
  const made = element(
    "select",
    { "aria-label": label },
    ...names.map((name) => element("option", { value: name }, name || "nothing else")),
  );
  made.value = chosen ?? names[0];
  return made;
}

/** Choose what a link says, if the list has it. */
export function choose(list, value) {
  if ([...list.options].some((option) => option.value === value)) list.value = value;
}

/** Where a panel shows its answer. */
export const resultBox = () =>
  element("div", { class: "result scroll", role: "region", "aria-label": "Result", tabindex: 0 });

/**
 * A panel: `refresh` asks for what it shows and draws it, `look` says for the link what is chosen, and `take`
 * chooses what a link says.
 */
export class Panel {
  /** closer: told by changed() that something else was chosen; root: the element that the panel fills. */
  constructor(closer, root) {
    Object.assign(this, { closer, root, page: closer.page, schema: closer.schema });
  }

  look() {
    return {};
  }

  take() {}

  changed() {
    return this.closer.changed();
  }

  /** A list of attributes; another choice is shown at once. */
  attributeList(label, names, chosen) {
    const list = selectOf(label, names, chosen);
    list.addEventListener("change", () => this.changed());
    return list;
  }

  attribute(name) {
    return this.schema.attributes.find((a) => a.name === name);
  }

  /** An attribute's name as statements write it. */
  sqlOf(name) {
    return this.attribute(name).sql;
  }

  /** What a statement about the active filter ends with. */
  from() {
    const where = this.page.state.where();
    return `FROM view${where ? ` WHERE ${where}` : ""}`;
  }

  sql(text, kind) {
    return ask("/api/sql", { sql: text, view: this.page.view }, kind);
  }

  copyPython(call) {
    this.page.copy(
      `import hdpview as hv\n\nview = hv.open(${JSON.stringify(this.page.view)})\n${call}\n`,
      "Python copied",
    );
  }

  /** Say why there is nothing to see. */
  say(text) {
    this.root.querySelector(".result")?.replaceChildren(element("p", { class: "error" }, text));
  }
}
