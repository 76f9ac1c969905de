// How the published page is answered: by a worker that holds the view, without a network.

const told = (id) => document.getElementById(id).textContent;
const waiting = new Map();
let asked = 0;
let starting = null;

/** The engine's script, which stands in the page compressed. */
async function engine() {
  const bytes = Uint8Array.from(atob(told("engine")), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

async function start() {
  const worker = new Worker(URL.createObjectURL(new Blob([await engine()], { type: "text/javascript" })));
  worker.addEventListener("message", ({ data: { id, answer, error, refused } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) resolve(answer);
    else reject(Object.assign(new Error(error), { refused }));
  });
  worker.postMessage({ id: 0, content: JSON.parse(told("content")) });
  waiting.set(0, { resolve: () => null, reject: () => null });
  return worker;
}

export const offline = true;
export const facts = () => JSON.parse(told("facts"));

export function post(path, body) {
  starting ??= start();
  return new Promise((resolve, reject) => {
    const id = (asked += 1);
    waiting.set(id, { resolve, reject });
    starting.then((worker) => worker.postMessage({ id, path, body }), reject);
  });
}

export const get = (path) => post(path.split("?")[0]);
export const file = () => Promise.reject(new Error("This page writes no such file. hdpview query does."));

// For whoever wants the numbers: await hdpview.ask("/api/histograms", { where: "age > 40" })
window.hdpview = { ask: post };
