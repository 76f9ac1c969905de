// Requests in lanes, one per kind. A lane has one request in flight and keeps only the newest that waits.

import { post } from "./transport.js";

const lanes = new Map();
let era = 0; // calls of `forget` so far; answers to requests of an earlier era are dropped

/** Post a request. Resolves to null if a newer one of the same kind replaced it or `forget` was called. */
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
    const request = lane.next;
    lane.next = null;
    try {
      const answer = await post(request.path, request.body);
      request.resolve(request.era === era ? answer : null);
    } catch (problem) {
      if (request.era === era) request.reject(problem);
      else request.resolve(null);
    }
  }
  lane.busy = false;
}

/** Drop the answers to all earlier requests, because another view is being opened. */
export function forget() {
  era += 1;
}
