// Form controls and paragraphs.

import { element } from "./parts.js";

export const paragraph = (words, kind = null, more = {}) => element("p", { class: kind, ...more }, words);

/** A text field. `oninput` receives the text. */
export function typed(label, value, oninput, more = {}, tag = "input") {
  const type = tag === "input" ? "text" : null;
  const onEvent = (event) => oninput(event.target.value);
  const made = element(tag, { type, "aria-label": label, ...more, oninput: onEvent });
  made.value = value;
  return made;
}

/** A checkbox. `onchange` receives its state. */
export const ticked = (label, checked, onchange) =>
  element("input", {
    type: "checkbox", checked, "aria-label": label, onchange: (event) => onchange(event.target.checked),
  });

/** A labelled form field with a remark. */
export const field = (words, input, remark = "") =>
  element("label", { class: "field" }, element("span", {}, words), input, element("small", {}, remark));

export const button = (words, onclick, more = {}) => element("button", { ...more, onclick }, words);

/** A line for errors, which screen readers announce at once. */
export const errorLine = (id = null) => element("div", { class: "error", role: "alert", id });

/** A number without trailing zeros. */
export const trim = (x) => String(Number(x.toPrecision(6)));
