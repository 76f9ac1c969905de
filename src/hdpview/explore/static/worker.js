// The engine's worker: it receives the view once, then requests, and answers each by its number.

import { Refusal } from "./conditions.js";
import { Engine } from "./engine.js";
import { unpacked } from "./unpack.js";

let engine = null;

self.addEventListener("message", async ({ data: { id, path, body, content } }) => {
  try {
    engine ??= unpacked(content).then((view) => new Engine(view));
    self.postMessage({ id, answer: path ? (await engine).answer(path, body ?? {}) : null });
  } catch (problem) {
    self.postMessage({
      id,
      error:
        problem instanceof Refusal
          ? problem.message
          : "This page could not compute that. Reload it, or ask something else.",
      refused: problem instanceof Refusal,
    });
  }
});
