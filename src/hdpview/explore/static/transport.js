// How the page is answered: by the explorer's server. A published page has another file in place of this one.

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok)
    throw Object.assign(new Error(body.error ?? `The server answered ${response.status}.`), {
      refused: response.status === 400,
    });
  return body;
}

const reach = (path, options) =>
  fetch(path, options).catch(() => {
    throw new Error("The explorer's server does not answer. Start it again if it has ended, then press Run.");
  });
const posted = (path, body) =>
  reach(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

export const offline = false;
export const facts = () => null;
export const get = async (path) => answer(await reach(path));
export const post = async (path, body) => answer(await posted(path, body));

/** A file made by the server, as bytes. */
export async function file(path, body) {
  const response = await posted(path, body);
  return response.ok ? response.blob() : answer(response);
}
