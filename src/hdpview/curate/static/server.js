// Requests to the server of this page.

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error ?? `The server answered ${response.status}.`);
  return body;
}

const reach = (path, options) =>
  fetch(path, options).catch(() => {
    throw new Error("The page's server does not answer. If it has stopped, run hdpview curate again.");
  });

export const get = async (path) => answer(await reach(path));
export const post = async (path, body = {}) =>
  answer(
    await reach(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
