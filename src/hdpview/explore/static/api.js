// Talking to the server. Of each kind of question one is under way at a time; while it is, only the newest of those that follow waits.

const lanes = new Map();
let era = 0; // answers from before the last `forget` are dropped

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(body.error ?? `The server answered ${response.status}.`), { refused: response.status === 400 });
  return body;
}

const reach = (path, options) => fetch(path, options).catch(() => { throw new Error("The explorer's server does not answer. Start it again if it has ended, then press Run."); });
const posted = (path, body) => reach(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export const get = async (path) => answer(await reach(path));

/** A file made by the server, as bytes. */
export async function file(path, body) {
  const response = await posted(path, body);
  return response.ok ? response.blob() : answer(response);
}

/** Post a question; resolves to null if a newer one of the same kind took its place, or all were forgotten. */
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
      const found = await posted(asked.path, asked.body).then(answer);
      asked.resolve(asked.era === era ? found : null);
    } catch (problem) { if (asked.era === era) asked.reject(problem); else asked.resolve(null); }
  }
  lane.busy = false;
}

/** What was asked so far no longer matters: another view is opened. */
export function forget() { era += 1; }
