// The first script of the published page: decompresses the style sheet, the facts and the main script.

import { textOf } from "./unpack.js";

async function load() {
  const [facts, style, app] = await Promise.all(["facts", "style", "app"].map(textOf));
  document.getElementById("facts").textContent = facts;
  const src = URL.createObjectURL(new Blob([app], { type: "text/javascript" }));
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  document.body.append(Object.assign(document.createElement("script"), { src }));
}

load();
