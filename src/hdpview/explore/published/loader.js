// The first script of the published page: it unpacks the others, which the page holds compressed.

import { unzipped } from "./unpack.js";

async function load() {
  const text = new TextDecoder().decode(await unzipped(document.getElementById("app").textContent));
  const src = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  document.body.append(Object.assign(document.createElement("script"), { src }));
}

load();
