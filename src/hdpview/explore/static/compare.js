// Two filters side by side: whether their counts differ, and how their records share out over the values of
// an attribute.

import { ask } from "./api.js";
import { about, element, grain, rounded, shown } from "./parts.js";

const WIDTH = 220;
const MOST = 200; // of the drawn intervals, in pixels; values that are listed

const signed = (x, half) => shown(Math.round(x / grain(half)) * grain(half) || 0).replace("-", "−");
const inPercent = (x) => (100 * x).toFixed(1).replace("-", "−");

/** Counts, difference and ratio of /api/compare in words, with a verdict; wheres and names of both groups. */
export function verdict(answer, wheres, names) {
  const side = (letter, where, name, found) =>
    element(
      "div",
      {},
      element("h3", { class: `of-${letter}` }, name),
      element("code", {}, where ?? "everything"),
      element("p", {}, about(found.estimate, found.lower, found.upper)),
    );
  const [low, high] = answer.ratio_interval;
  const [from, to] = answer.difference_interval;
  const half = (to - from) / 2;
  const [one, other] = names;
  const ratio =
    answer.ratio === null || high === null
      ? `The ratio has no bound: ${other} may be 0.`
      : `${one} is ${answer.ratio.toFixed(2)} times ${other} ` +
        `(likely ${low.toFixed(2)} to ${high.toFixed(2)}).`;
  return [
    element(
      "div",
      { class: "side" },
      side("A", wheres[0], one, answer.first),
      side("B", wheres[1], other, answer.second),
    ),
    element(
      "p",
      {},
      element(
        "strong",
        {},
        answer.is_real ? `${one} and ${other} really differ. ` : `${one} and ${other} cannot be told apart. `,
      ),
      `${one} − ${other} is about ${signed(answer.difference, half)} ` +
        `(likely ${signed(from, half)} to ${signed(to, half)}). ${ratio}`,
    ),
  ];
}

/**
 * A table of the shares under both filters and of their differences, each with its interval; null if a newer
 * question took its place.
 */
export async function shareTable(view, attribute, [first, second], names) {
  if (attribute.labels.length > MOST)
    return element(
      "p",
      {},
      `${attribute.name} has ${shown(attribute.labels.length)} values, too many to list. Choose another.`,
    );
  const answer = await ask("/api/shares", { view, first, second, attribute: attribute.name });
  if (!answer) return null;
  if (answer.reason) return element("div", {}, element("p", {}, answer.reason));
  const of = (side, code) => ({
    share: answer[side].estimate[code],
    lower: answer[side].lower[code],
    upper: answer[side].upper[code],
  });
  const scale =
    WIDTH /
    Math.max(...answer.first.upper.map((x) => x ?? 0), ...answer.second.upper.map((x) => x ?? 0), 1e-9);
  const told = ({ share, lower, upper }, unit) =>
    element(
      "td",
      {},
      ...(typeof share === "number"
        ? [
            `${inPercent(share)} ${unit}`,
            element("small", { class: "quiet" }, ` ${inPercent(lower)} to ${inPercent(upper)}`),
          ]
        : ["—"]),
    );
  const which = ({ share, lower, upper }) =>
    typeof share !== "number"
      ? ""
      : lower > 0
        ? `larger in ${names[0]}`
        : upper < 0
          ? `larger in ${names[1]}`
          : "may be equal";
  const heads = [
    [attribute.name, "hidden"],
    [names[0], "of-A"],
    [names[1], "of-B"],
    [`${names[0]} − ${names[1]}`, null],
    ["Intervals", "hidden"],
    ["Verdict", "hidden"],
  ];
  const head = heads.map(([text, kind], i) =>
    element("th", { scope: "col", class: i === 4 ? "drawn" : null }, element("span", { class: kind }, text)),
  );
  const body = attribute.labels.map((label, code) => {
    const [a, b, apart] = ["first", "second", "difference"].map((side) => of(side, code));
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, label),
      told(a, "%"),
      told(b, "%"),
      told(apart, "points"),
      element("td", { class: "drawn" }, drawn(a, b, scale)),
      element("td", {}, which(apart)),
    );
  });
  return element(
    "div",
    {},
    element(
      "table",
      { class: "shares" },
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body),
    ),
    element(
      "p",
      { class: "quiet" },
      "Shares of the records under each filter and their difference, with 95 % typical intervals. The " +
        "interval of the difference decides: those of A and B may overlap where the two differ.",
    ),
  );
}

/**
 * A table of /api/rates, or of means in the same form: each with its interval, in numbers and drawn. What
 * could be almost anything is set in italics. measured: null for rates, otherwise what is measured and its
 * attribute.
 */
export function rateTable({ codes, estimate, lower, upper }, attribute, measured, notes) {
  const isSum = measured?.[0] === "sum";
  const ends = isSum ? [0, Infinity] : (measured?.[1].ends.map(Number) ?? [0, 1]);
  const [low, span] = [ends[0], ends.at(-1) - ends[0]];
  const isKnown = (i) =>
    typeof estimate[i] === "number" && typeof lower[i] === "number" && typeof upper[i] === "number";
  const isVague = (i) =>
    !isKnown(i) || upper[i] - lower[i] >= 0.8 * span || (isSum && lower[i] <= 0 && upper[i] >= 0);
  const clear = codes.map((_, i) => i).filter((i) => !isVague(i));
  const most = Math.max(...clear.map((i) => upper[i]), ...estimate.map((x) => x ?? low), low + 1e-9);
  const least = measured ? Math.min(...clear.map((i) => lower[i]), ...estimate.map((x) => x ?? most)) : 0;
  const x = (value) => Math.max(0, Math.min(WIDTH, ((value - least) / (most - least || 1)) * WIDTH));
  const rows = codes.map((code, i) => {
    const bands = isKnown(i)
      ? [
          element("rect", {
            class: "band of-B",
            x: x(lower[i]),
            y: 4,
            width: Math.max(1, x(upper[i]) - x(lower[i])),
            height: 8,
          }),
          element("rect", { class: "of-B", x: x(estimate[i]) - 1, y: 2, width: 2, height: 12 }),
        ]
      : [];
    const [mid, from, to] = !isKnown(i)
      ? ["—"]
      : measured
        ? rounded(estimate[i], lower[i], upper[i], 0)
        : [`${inPercent(estimate[i])} %`, inPercent(lower[i]), inPercent(upper[i])];
    return element(
      "tr",
      { class: isVague(i) ? "faint" : null },
      element("th", { scope: "row" }, attribute.labels[code]),
      element("td", { class: "number" }, mid),
      element("td", { class: "quiet interval" }, isKnown(i) ? `${from} to ${to}` : ""),
      element(
        "td",
        { class: "drawn" },
        element("svg", { width: WIDTH + 2, height: 16, "aria-hidden": "true" }, ...bands),
      ),
    );
  });
  const heads = [
    attribute.name,
    measured ? `${measured[0]} of ${measured[1].name}` : "rate",
    "likely",
    "",
  ].map((head, i) =>
    element(
      "th",
      { scope: "col", class: i === 3 ? "drawn" : null },
      head || element("span", { class: "hidden" }, "Intervals"),
    ),
  );
  return element(
    "div",
    {},
    element(
      "table",
      { class: "rates" },
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...rows),
    ),
    ...[...notes, "Values in italics could be almost anything."].map((note) =>
      element("p", { class: "quiet" }, note),
    ),
  );
}

/** Both intervals as bands, A's above B's, with a mark at the estimate. */
function drawn(a, b, scale) {
  const band = (found, y, name) =>
    typeof found?.share !== "number"
      ? []
      : [
          element("rect", {
            class: `band of-${name}`,
            x: found.lower * scale,
            y,
            width: Math.max(1, (found.upper - found.lower) * scale),
            height: 5,
          }),
          element("rect", { class: `of-${name}`, x: found.share * scale - 1, y: y - 1, width: 2, height: 7 }),
        ];
  return element(
    "svg",
    { width: WIDTH + 2, height: 18, "aria-hidden": "true" },
    ...band(a, 2, "A"),
    ...band(b, 11, "B"),
  );
}
