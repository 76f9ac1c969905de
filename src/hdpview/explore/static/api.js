// Talking to the server. A newer request of the same kind makes an older one's answer obsolete.

const newest = new Map();

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error ?? (body.detail ? "The request was not understood." : `The server answered ${response.status}.`));
  return body;
}

export const get = async (path) => answer(await fetch(path));

/** Post a question; resolves to null where a newer one of the same kind has been asked meanwhile. */
export async function ask(path, body, kind = path) {
  const ticket = (newest.get(kind) ?? 0) + 1;
  newest.set(kind, ticket);
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const found = await fetch(path, options).then(answer, (problem) => { throw problem; });
  return newest.get(kind) === ticket ? found : null;
}
