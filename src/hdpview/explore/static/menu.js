// A menu button. It is not a <select>, where an arrow key alone would trigger an action.

import { saveExhibit } from "./exhibit.js";
import { element } from "./parts.js";

const EDGE = 8; // pixels between a menu and the edge of the viewport

/** items(): the current items as [text, accessible name, action]. */
export function menu(label, face, items) {
  const opener = element("summary", { "aria-label": label, title: label }, face);
  const list = element("div", { tabindex: -1 });
  const made = element("details", { class: "menu" }, opener, list);
  const shut = () => {
    made.open = false;
    opener.focus();
  };
  const button = ([text, name, act]) =>
    element(
      "button",
      {
        "aria-label": name,
        onclick: () => {
          shut();
          act();
        },
      },
      text,
    );
  opener.addEventListener("click", () => {
    if (!made.open) list.replaceChildren(...items().map(button));
  });
  made.addEventListener("toggle", () => {
    if (!made.open) return;
    list.style.transform = "";
    const { left, right, bottom } = list.getBoundingClientRect();
    const x = Math.max(EDGE - left, Math.min(0, document.documentElement.clientWidth - EDGE - right));
    const y = Math.min(0, window.innerHeight - EDGE - bottom);
    list.style.transform = `translate(${x}px, ${y}px)`;
  });
  made.addEventListener("focusout", (event) => {
    if (!made.contains(event.relatedTarget)) made.open = false;
  });
  made.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && made.open) shut();
  });
  return made;
}

/** A menu to save an exhibit, copy its SQL, or copy a link. */
export function exhibitMenu(page, what, face, exhibitOf, kinds = ["PNG", "SVG", "CSV"], more = () => []) {
  const withExhibit = (act) => () => {
    const exhibit = exhibitOf();
    if (exhibit) Promise.resolve(act(exhibit)).catch((problem) => page.fail(problem.message));
  };
  return menu(`${face === "⋯" ? "More on" : "Save"} ${what}`, face, () => [
    ...more(),
    ...kinds.map((kind) => [
      `Save as ${kind}`, `Save ${what} as ${kind}`,
      withExhibit((exhibit) => saveExhibit(page, exhibit, kind)),
    ]),
    ["Copy SQL", `Copy the SQL of ${what}`, withExhibit(({ sql }) => page.copy(sql, "SQL copied"))],
    ["Copy link", `Copy a link to ${what}`, () => page.copy(location.href, "Link copied")],
  ]);
}
