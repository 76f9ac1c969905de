// Sends the published page's requests to a worker that holds the view, without a network.

import { Client } from "./client.js";
import { textOf } from "./unpack.js";

let starting = null;

async function start() {
  const [script, content] = await Promise.all(["engine", "content"].map(textOf));
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  return new Client(new Worker(address), JSON.parse(content));
}

export const offline = true;
export const facts = () => JSON.parse(document.getElementById("facts").textContent);

export async function post(path, body) {
  starting ??= start();
  return (await starting).ask(path, body);
}

export const get = (path) => post(path.split("?")[0]);
export const file = () => Promise.reject(new Error("This page cannot write such a file. Use hdpview query."));

// For scripts and the console: await hdpview.ask("/api/histograms", { where: "age > 40" })
window.hdpview = { ask: post };
