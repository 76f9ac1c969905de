// Fields of forms, and texts between them.

import { element } from "./parts.js";

export const paragraph = (words, kind = null, more = {}) => element("p", { class: kind, ...more }, words);

/** A field to type into; oninput is told the text. */
export function typed(label, value, oninput, more = {}, tag = "input") {
  const type = tag === "input" ? "text" : null;
  const told = (event) => oninput(event.target.value);
  const made = element(tag, { type, "aria-label": label, ...more, oninput: told });
  made.value = value;
  return made;
}

/** A box to tick; onchange is told whether it is. */
export const ticked = (label, checked, onchange) =>
  element("input", {
    type: "checkbox", checked, "aria-label": label, onchange: (event) => onchange(event.target.checked),
  });

/** A labelled field of a form: its words, what to type into, and a remark. */
export const field = (words, input, remark = "") =>
  element("label", { class: "field" }, element("span", {}, words), input, element("small", {}, remark));

export const button = (words, onclick, more = {}) => element("button", { ...more, onclick }, words);

/** What is wrong, for screen readers at once. */
export const errorLine = (id = null) => element("div", { class: "error", role: "alert", id });

/** A number without zeros that say nothing. */
export const trim = (x) => String(Number(x.toPrecision(6)));
