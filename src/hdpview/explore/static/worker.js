// The engine beside the page: it gets the view once, then questions, and answers each by its number.

import { Refusal } from "./conditions.js";
import { Engine } from "./engine.js";
import { unpacked } from "./unpack.js";

let engine = null;

self.addEventListener("message", async ({ data: { id, path, body, content } }) => {
  try {
    engine ??= unpacked(content).then((found) => new Engine(found));
    self.postMessage({ id, answer: path ? (await engine).answer(path, body ?? {}) : null });
  } catch (problem) {
    self.postMessage({
      id,
      error:
        problem instanceof Refusal
          ? problem.message
          : "This page could not compute that. Ask for something else, or load it again.",
      refused: problem instanceof Refusal,
    });
  }
});
