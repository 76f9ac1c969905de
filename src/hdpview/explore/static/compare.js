// Two filters side by side: whether their counts differ, and how their records share out over the values of an attribute.

import { ask } from "./api.js";
import { element, shown } from "./parts.js";

const WIDTH = 220, MOST = 200; // of the drawn intervals, in pixels; values that are listed

const signed = (x) => shown(x).replace("-", "−");
const percent = (x) => (100 * x).toFixed(1).replace("-", "−");

/** Counts, difference and ratio of /api/compare in words, with a verdict. */
export function verdict(answer, first, second) {
  const side = (name, where, found) => element("div", {}, element("h3", { class: `of-${name}` }, name), element("code", {}, where ?? "everything"),
    element("p", {}, element("strong", {}, shown(found.estimate)), ` (${shown(found.lower)} to ${shown(found.upper)})`));
  const [low, high] = answer.ratio_interval;
  const ratio = answer.ratio === null || high === null ? "The ratio has no bound: B may be 0." : `A is ${answer.ratio.toFixed(2)} times B (${low.toFixed(2)} to ${high.toFixed(2)}).`;
  return [element("div", { class: "side" }, side("A", first, answer.first), side("B", second, answer.second)),
    element("p", {}, element("strong", {}, answer.is_real ? "A and B really differ. " : "A and B cannot be told apart. "), `A − B is ${signed(answer.difference)} (95 % typical: ${answer.difference_interval.map(signed).join(" to ")}). ${ratio}`)];
}

/** A table of the shares under both filters and of their differences, each with its interval; null if a newer question took its place. */
export async function shareTable(view, attribute, first, second) {
  if (attribute.labels.length > MOST) return element("p", {}, `${attribute.name} has ${shown(attribute.labels.length)} values, too many to list. Choose another.`);
  const answer = await ask("/api/shares", { view, first, second, attribute: attribute.name });
  if (!answer) return null;
  if (answer.reason) return element("div", {}, element("p", {}, answer.reason));
  const of = (side, code) => ({ share: answer[side].estimate[code], lower: answer[side].lower[code], upper: answer[side].upper[code] });
  const scale = WIDTH / Math.max(...answer.first.upper.map((x) => x ?? 0), ...answer.second.upper.map((x) => x ?? 0), 1e-9);
  const told = ({ share, lower, upper }, unit) => element("td", {}, ...(typeof share === "number" ? [`${percent(share)} ${unit}`, element("small", { class: "quiet" }, ` ${percent(lower)} to ${percent(upper)}`)] : ["—"]));
  const which = ({ share, lower, upper }) => (typeof share !== "number" ? "" : lower > 0 ? "larger in A" : upper < 0 ? "larger in B" : "may be equal");
  const head = ["", "A", "B", "A − B", "", ""].map((name, i) => element("th", { scope: "col", class: name.length === 1 ? `of-${name}` : i === 4 ? "drawn" : null }, name || element("span", { class: "hidden" }, [attribute.name, "", "", "", "Intervals", "Verdict"][i])));
  const body = attribute.labels.map((label, code) => {
    const [a, b, apart] = ["first", "second", "difference"].map((side) => of(side, code));
    return element("tr", {}, element("th", { scope: "row" }, label), told(a, "%"), told(b, "%"), told(apart, "points"), element("td", { class: "drawn" }, drawn(a, b, scale)), element("td", {}, which(apart)));
  });
  return element("div", {}, element("table", { class: "shares" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)),
    element("p", { class: "quiet" }, "Shares of the records under each filter and their difference, with 95 % typical intervals. The interval of the difference decides: those of A and B may overlap where the two differ."));
}

/** A table of /api/rates: each rate with its interval, in numbers and drawn. Rates that could be almost anything are set in italics. */
export function rateTable({ codes, estimate, lower, upper }, attribute, notes) {
  const scale = WIDTH / Math.max(...upper.map((x, i) => (x !== null && x - lower[i] < 0.8 ? x : 0)), ...estimate.map((x) => x ?? 0), 1e-9);
  const rows = codes.map((code, i) => {
    const known = typeof estimate[i] === "number", vague = !known || upper[i] - lower[i] >= 0.8;
    const bands = known ? [element("rect", { class: "band of-A", x: lower[i] * scale, y: 4, width: Math.max(1, (Math.min(upper[i] * scale, WIDTH) - lower[i] * scale)), height: 8 }), element("rect", { class: "of-A", x: estimate[i] * scale - 1, y: 2, width: 2, height: 12 })] : [];
    return element("tr", { class: vague ? "faint" : null }, element("th", { scope: "row" }, attribute.labels[code]), element("td", { class: "number" }, known ? `${percent(estimate[i])} %` : "—"),
      element("td", { class: "quiet interval" }, known ? `${percent(lower[i])} to ${percent(upper[i])}` : ""), element("td", { class: "drawn" }, element("svg", { width: WIDTH + 2, height: 16, "aria-hidden": "true" }, ...bands)));
  });
  const heads = [attribute.name, "rate", "95 % typical", ""].map((head, i) => element("th", { scope: "col", class: i === 3 ? "drawn" : null }, head || element("span", { class: "hidden" }, "Intervals")));
  return element("div", {}, element("table", { class: "rates" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)),
    ...[...notes, "Rates in italics could be almost anything."].map((note) => element("p", { class: "quiet" }, note)));
}

/** Both intervals as bands, A's above B's, with a mark at the estimate. */
function drawn(a, b, scale) {
  const band = (found, y, name) => (typeof found?.share !== "number" ? [] : [element("rect", { class: `band of-${name}`, x: found.lower * scale, y, width: Math.max(1, (found.upper - found.lower) * scale), height: 5 }),
    element("rect", { class: `of-${name}`, x: found.share * scale - 1, y: y - 1, width: 2, height: 7 })]);
  return element("svg", { width: WIDTH + 2, height: 18, "aria-hidden": "true" }, ...band(a, 2, "A"), ...band(b, 11, "B"));
}
