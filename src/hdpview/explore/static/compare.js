// Two filters side by side: whether their counts differ, and how their records share out over the values of an attribute.

import { ask } from "./api.js";
import { element, shown } from "./parts.js";

const WIDTH = 220, MOST = 200; // of the drawn intervals, in pixels; values that are listed

const signed = (x) => shown(x).replace("-", "−");
const percent = (x) => (100 * x).toFixed(1);

/** Counts, difference and ratio of /api/compare in words, with a verdict. */
export function verdict(answer, first, second) {
  const side = (name, where, found) => element("div", {}, element("h3", { class: `of-${name}` }, name), element("code", {}, where ?? "everything"),
    element("p", {}, element("strong", {}, shown(found.estimate)), ` (${shown(found.lower)} to ${shown(found.upper)})`));
  const [low, high] = answer.ratio_interval;
  const ratio = answer.ratio === null || high === null ? "The ratio has no bound: B may be 0." : `A is ${answer.ratio.toFixed(2)} times B (${low.toFixed(2)} to ${high.toFixed(2)}).`;
  return [element("div", { class: "side" }, side("A", first, answer.first), side("B", second, answer.second)),
    element("p", {}, element("strong", {}, answer.is_real ? "A and B really differ. " : "A and B cannot be told apart. "), `A − B is ${signed(answer.difference)} (95 % typical: ${answer.difference_interval.map(signed).join(" to ")}). ${ratio}`)];
}

/** Shares of an attribute's values under a condition, by label: { share, lower, upper }. Null if a newer question took its place. */
async function shares(view, attribute, where, kind) {
  const by = attribute.sql;
  const answer = await ask("/api/sql", { view, sql: `SELECT ${by}, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM view${where ? ` WHERE ${where}` : ""} GROUP BY ${by}` }, kind);
  return answer && new Map(answer.rows.map((row) => [String(row[attribute.name] ?? attribute.labels.at(-1)), { share: row.share, lower: row.share_lower, upper: row.share_upper }]));
}

/** A table of the shares under both filters, each with its interval in numbers and drawn; null if a newer question took its place. */
export async function shareTable(view, attribute, first, second) {
  if (attribute.labels.length > MOST) return element("p", {}, `${attribute.name} has ${shown(attribute.labels.length)} values, too many to list. Choose another.`);
  const [a, b] = await Promise.all([shares(view, attribute, first, "shares of A"), shares(view, attribute, second, "shares of B")]);
  if (!a || !b) return null;
  const rows = attribute.labels.filter((label) => a.has(label) || b.has(label)), scale = WIDTH / Math.max(...[...a.values(), ...b.values()].map(({ upper }) => upper ?? 0), 1e-9);
  const told = (found) => element("td", {}, ...(typeof found?.share === "number" ? [`${percent(found.share)} %`, element("small", { class: "quiet" }, ` ${percent(found.lower)} to ${percent(found.upper)}`)] : ["—"]));
  const which = (x, y) => (!x || !y ? "" : x.lower > y.upper ? "larger in A" : y.lower > x.upper ? "larger in B" : "");
  const head = ["", "A", "B", "", ""].map((name, i) => element("th", { scope: "col", class: name ? `of-${name}` : i === 3 ? "drawn" : null }, name || element("span", { class: "hidden" }, [attribute.name, "", "", "Intervals", "Verdict"][i])));
  const body = rows.map((label) => element("tr", {}, element("th", { scope: "row" }, label), told(a.get(label)), told(b.get(label)), element("td", { class: "drawn" }, drawn(a.get(label), b.get(label), scale)), element("td", {}, which(a.get(label), b.get(label)))));
  return element("div", {}, element("table", { class: "shares" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)),
    element("p", { class: "quiet" }, "Shares of the records under each filter, with 95 % typical intervals. Where these overlap, the two cannot be told apart."));
}

/** Both intervals as bands, A's above B's, with a mark at the estimate. */
function drawn(a, b, scale) {
  const band = (found, y, name) => (typeof found?.share !== "number" ? [] : [element("rect", { class: `band of-${name}`, x: found.lower * scale, y, width: Math.max(1, (found.upper - found.lower) * scale), height: 5 }),
    element("rect", { class: `of-${name}`, x: found.share * scale - 1, y: y - 1, width: 2, height: 7 })]);
  return element("svg", { width: WIDTH + 2, height: 18, "aria-hidden": "true" }, ...band(a, 2, "A"), ...band(b, 11, "B"));
}
