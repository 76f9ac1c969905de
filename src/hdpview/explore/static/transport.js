// Sends requests to the engine in the browser, and to the server what the engine refuses: other SQL, and
// views made of blocks. A published page has published/transport.js instead.

import { Client } from "./client.js";
import { statementOf } from "./statements.js";

const MOST_ENGINES = 4; // views held in memory
const engines = new Map();
const schemas = new Map();
// Requests that the server answers too, and the fields that it accepts.
const FIELDS = {
  "/api/histograms": ["view", "where", "own", "attributes", "shares"],
  "/api/pairs": ["view", "where", "first", "second"], "/api/compare": ["view", "first", "second"],
  "/api/shares": ["view", "first", "second", "attribute"],
};
const ENGINE = new Set([...Object.keys(FIELDS), "/api/statistics", "/api/association"]);

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
    throw new Error("The server does not answer. If it has stopped, start it again and press Run.");
  });
const posted = (path, body) =>
  reach(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
const server = async (path, body) => answer(await posted(path, body));

function engineOf(view) {
  if (!engines.has(view)) {
    const starting = get(`/api/content?view=${encodeURIComponent(view)}`).then(
      (content) => new Client(new Worker("worker.js", { type: "module" }), content),
    );
    starting.catch(() => engines.delete(view));
    engines.set(view, starting);
    if (engines.size > MOST_ENGINES) {
      const [oldest, client] = engines.entries().next().value;
      engines.delete(oldest);
      client.then(({ worker }) => worker.terminate());
    }
  }
  return engines.get(view);
}

export const offline = false;
export const facts = () => null;
export async function get(path) {
  const body = await answer(await reach(path));
  if (path.startsWith("/api/schema")) schemas.set(body.name, body);
  return body;
}

export async function post(path, body) {
  if (path === "/api/guaranteed") return server("/api/histograms", body);
  if (!ENGINE.has(path)) return server(path, body);
  try {
    return await (await engineOf(body.view)).ask(path, body);
  } catch (problem) {
    if (!problem.refused || (!FIELDS[path] && path !== "/api/statistics")) throw problem;
  }
  if (path === "/api/statistics") return statistics(body);
  const request = Object.fromEntries(FIELDS[path].map((key) => [key, body[key]]));
  if (path !== "/api/histograms") return server(path, request);
  const measure = body.measure ?? {};
  const counts = await server(path, { ...request, shares: measure.kind === "percent" });
  if (measure.attribute) counts.overall = await addMeasure(body, counts.histograms);
  return counts;
}

/** Add a measure to histograms by one SQL statement per attribute. Returns the measure of all records. */
async function addMeasure({ view, where, own, measure }, histograms) {
  const attributeOf = (name) => schemas.get(view).attributes.find((each) => each.name === name);
  const span = (row) => row && { estimate: row.value, lower: row.value_lower, upper: row.value_upper };
  const overall = statementOf(null, measure, where, attributeOf);
  const [whole] = (await server("/api/sql", { view, sql: overall })).rows;
  for (const [name, histogram] of Object.entries(histograms)) {
    if (name === measure.attribute) continue;
    const by = attributeOf(name);
    const under = Object.hasOwn(own, name) ? own[name] : where;
    const { rows } = await server("/api/sql", { view, sql: statementOf(by, measure, under, attributeOf) });
    const codes = new Map(rows.map((row) => [codeOf(by, row[name]), span(row)]));
    const column = (end) => by.labels.map((_, code) => codes.get(code)?.[end] ?? null);
    histogram.value = { estimate: column("estimate"), lower: column("lower"), upper: column("upper") };
    histogram.overall = span(whole);
  }
  return span(whole);
}

const codeOf = (by, key) =>
  key === null ? by.labels.length - 1 : (by.rawLabels ?? by.labels).indexOf(String(key));

/** Means and quantiles by an SQL statement. */
async function statistics({ view, where, attribute, measures }) {
  const { sql: x } = schemas.get(view).attributes.find((each) => each.name === attribute);
  const call = (measure) => (measure === "mean" ? `AVG(${x})` : `quantile_cont(${x}, ${measure})`);
  const parts = measures.map((measure, i) => `${call(measure)} AS c${i}`);
  const sql = `SELECT ${parts.join(", ")} FROM view${where ? ` WHERE ${where}` : ""}`;
  const { rows, notes } = await server("/api/sql", { view, sql });
  const span = (_, i) => ({
    estimate: rows[0][`c${i}`], lower: rows[0][`c${i}_lower`], upper: rows[0][`c${i}_upper`],
  });
  return { spans: measures.map(span), notes };
}

/** A file written by the server. */
export async function file(path, body) {
  const response = await posted(path, body);
  return response.ok ? response.blob() : answer(response);
}
