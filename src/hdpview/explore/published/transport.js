// How the published page is answered: by a worker that holds the view, without a network.

import { Client } from "./client.js";
import { unzipped } from "./unpack.js";

const textOf = (id) => document.getElementById(id).textContent;
let starting = null;

async function start() {
  const [script, content] = await Promise.all(
    ["engine", "content"].map(async (id) => new TextDecoder().decode(await unzipped(textOf(id)))),
  );
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  return new Client(new Worker(address), JSON.parse(content));
}

export const offline = true;
export const facts = () => JSON.parse(textOf("facts"));

export async function post(path, body) {
  starting ??= start();
  return (await starting).ask(path, body);
}

export const get = (path) => post(path.split("?")[0]);
export const file = () => Promise.reject(new Error("This page writes no such file. hdpview query does."));

// For whoever wants the numbers: await hdpview.ask("/api/histograms", { where: "age > 40" })
window.hdpview = { ask: post };
