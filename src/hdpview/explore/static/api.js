// Questions in lanes. Of each kind one is under way at a time; while it is, only the newest of those that
// follow waits.

import { post } from "./transport.js";

const lanes = new Map();
let era = 0; // answers from before the last `forget` are dropped

/**
 * Post a question; resolves to null if a newer one of the same kind took its place, or all were forgotten.
 */
export function ask(path, body, kind = path) {
  if (!lanes.has(kind)) lanes.set(kind, { busy: false, next: null });
  const lane = lanes.get(kind);
  return new Promise((resolve, reject) => {
    lane.next?.resolve(null);
    lane.next = { path, body, resolve, reject, era };
    if (!lane.busy) drain(lane);
  });
}

async function drain(lane) {
  lane.busy = true;
  while (lane.next) {
    const asked = lane.next;
    lane.next = null;
    try {
      const found = await post(asked.path, asked.body);
      asked.resolve(asked.era === era ? found : null);
    } catch (problem) {
      if (asked.era === era) asked.reject(problem);
      else asked.resolve(null);
    }
  }
  lane.busy = false;
}

/** What was asked so far no longer matters: another view is opened. */
export function forget() {
  era += 1;
}
