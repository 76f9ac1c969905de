// The model of a chart, in numbers and words. Drawings, saved files and screen-reader texts all use it.

import { about, bound, describing, percentWords, percents, rounded, short, ticksBetween } from "./parts.js";
import { topOf } from "./plot.js";

const LINE_FROM = 12; // date bars from which the chart is a line
const MOST_NAMES = 34; // letters of all tick labels together that fit beside each other
const LARGE = 10_000; // ticks from this size on are abbreviated
const NOTHING = 0.2; // a total below this share of its upper end has no distribution worth drawing
const VAGUE = 0.8; // an interval wider than this share of the possible range is uninformative

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** True for rates and means, false for numbers of records. */
export const isMeasured = ({ kind }) => kind === "rate" || kind === "mean";

/** The name of a measure: "records", "percent", "rate of readmitted = true", "mean of age". */
export function nameOf({ kind, attribute, code, missing }, attributeOf) {
  if (kind === "records" || kind === "percent") return kind;
  const measured = attributeOf(attribute);
  if (kind === "mean") return `mean of ${attribute}${measured.unit ? ` (${measured.unit})` : ""}`;
  const missingWords = missing === "no" ? ", missing counted as no" : "";
  return `rate of ${attribute} = ${measured.labels[code]}${missingWords}`;
}

/** The measure that bars show: percent where an attribute is itself the measured one. */
const kindOf = ({ share, value }, { kind }) => (value ? kind : share ? "percent" : "records");

/** [value, lower, upper] per bar in the unit of the axis; null if unknown. */
function spansOf(data, kind) {
  if (kind === "records") return data.estimate.map((value, i) => [value, data.lower[i], data.upper[i]]);
  const { estimate, lower, upper } = kind === "percent" ? data.share : data.value;
  const times = kind === "mean" ? 1 : 100;
  const isKnown = (i) => [estimate, lower, upper].every((column) => typeof column[i] === "number");
  return estimate.map((value, i) =>
    isKnown(i) ? [times * value, times * lower[i], times * upper[i]] : null,
  );
}

/** The values to compare with. Counts are scaled to the same total. */
function othersOf(other, data, kind) {
  if (!other) return null;
  const times = kind === "rate" ? 100 : 1;
  if (isMeasured({ kind }))
    return other.value?.estimate.map((value) => (value === null ? null : value * times)) ?? null;
  const base = sum(other.estimate);
  const all = kind === "percent" ? 100 : sum(data.estimate);
  return base > 0 ? other.estimate.map((value) => (value * all) / base) : null;
}

/** A value and the ends of its interval, in the unit of the axis, as texts. */
export const textsOf = (span, kind) =>
  kind === "records" || kind === "mean"
    ? rounded(...span, Number(kind === "records"))
    : percents(...span.map((end) => end / 100));

/**
 * groups: codes of each bar; data: answer of the engine; other: answer to compare with; range: smallest and
 * largest possible mean; listed(bars, isSorted): the bars to show, in order; top: minimum end of the axis.
 */
export function modelOf(chart) {
  const { attribute, groups, data, filter, other, measure, look, difference, listed, range, top } = chart;
  const kind = kindOf(data, measure);
  const spans = spansOf(data, kind);
  const isFlat = data.total !== undefined && isNothing(data.total);
  const others = isFlat ? null : othersOf(other, data, kind);
  const isMissing = (group) => attribute.nullable && group.first === attribute.labels.length - 1;
  const isCount = kind === "records" || kind === "percent";
  const all = range ? range[1] - range[0] : 100;
  const isFaint = (span) => !span || (isCount ? span[1] <= 0 : span[2] - span[1] > VAGUE * all);
  const bars = groups.map((group, i) => ({
    index: i, code: group.first, label: group.label, isMissing: isMissing(group),
    value: spans[i]?.[0] ?? null, lower: spans[i]?.[1] ?? null, upper: spans[i]?.[2] ?? null,
    number: isFlat ? "" : spans[i] ? textsOf(spans[i], kind)[0] : "—", isFaint: isFaint(spans[i]),
    isOff: isOff(attribute, group, filter),
    isDifferent: difference?.lower[i] > 0 || difference?.upper[i] < 0, other: others?.[i] ?? null,
  }));
  const shown = listed(bars, look.isSorted);
  const isRows = !attribute.edges;
  const model = {
    attribute, kind, bars: shown, isRows, isPoints: !isCount,
    isLine: attribute.kind === "datetime" && groups.length >= LINE_FROM,
    overall: isCount || !data.overall ? null : (kind === "rate" ? 100 : 1) * data.overall.estimate,
    brush: filter?.range ? brushed(groups, filter.range) : null,
    brackets: isRows && look.isSorted ? uncertain(shown) : [], flat: isFlat ? flatWords(data.total) : null,
    xTicks: isRows ? [] : ticksUnder(attribute, groups),
    axisNote: [attribute.unit, attribute.unequal ? "bins of unequal width" : ""].filter(Boolean).join("; "),
  };
  return { ...model, axis: axisOf(model, shown, look.isLog, top) };
}

/** True if a total is so small that its distribution would be mostly noise. */
const isNothing = ({ estimate, lower, upper }) => lower <= 0 && estimate <= NOTHING * upper;

function flatWords({ estimate, lower, upper }) {
  const [count, , most] = rounded(estimate, lower, upper);
  return upper <= 0 ? "no records" : `${count}, at most ${most}`;
}

function axisOf({ kind, overall, flat }, bars, isLog, top = 0) {
  const known = bars.filter(({ value }) => value !== null);
  const values = [...known.map(({ value }) => value), ...bars.map(({ other }) => other ?? 0)];
  const unit = kind === "percent" || kind === "rate" ? "%" : "";
  if (kind === "mean") {
    const clear = known.some(({ isFaint }) => !isFaint) ? known.filter(({ isFaint }) => !isFaint) : known;
    const ends = [
      ...clear.flatMap(({ lower, upper }) => [lower, upper]), ...bars.map(({ other }) => other), overall,
    ].filter((end) => typeof end === "number");
    const [from, to] = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
    const room = 0.05 * (to - from) || 1;
    return { from: from - room, to: to + room, isLog: false, unit };
  }
  const uppers = known.map(({ upper }) => upper);
  const most = flat && !top ? 0 : Math.max(topOf([...values, overall ?? 0], uppers), top);
  return { from: 0, to: unit === "%" ? Math.min(100, most) : most, isLog, unit };
}

/** True if the filter on its own attribute excludes a bar. */
function isOff(attribute, { first, last }, filter) {
  if (!filter) return false;
  if (filter.missing && attribute.nullable && first === attribute.labels.length - 1) return false;
  if (filter.range) return last < filter.range[0] || first > filter.range[1];
  return filter.missing ? true : !filter.codes.includes(first);
}

/** The first and last bar that a range of codes overlaps, and the ends of the range in units of bars. */
function brushed(groups, [first, last]) {
  const start = groups.findIndex((group) => group.last >= first);
  const end = groups.findLastIndex((group) => group.first <= last);
  const place = (i, code) => i + (code - groups[i].first) / (groups[i].last + 1 - groups[i].first);
  return { bars: [start, end], from: place(start, first), to: place(end, last + 1) };
}

/** Runs [first, last] of neighbours in a sorted chart whose order is uncertain. */
function uncertain(bars) {
  const runs = [];
  for (let i = 0; i + 1 < bars.length; i++) {
    const [one, next] = [bars[i], bars[i + 1]];
    if (next.isMissing || next.value === null || one.lower > next.upper) continue;
    if (runs.at(-1)?.[1] === i) runs.at(-1)[1] = i + 1;
    else runs.push([i, i + 1]);
  }
  return runs;
}

const isNumeric = ({ kind }) => kind === "integer" || kind === "real";

/** Abbreviate ticks of large numbers: 2K, 7.5K, 100K+. */
function shortened(ticks) {
  const parsed = ticks.map(({ text }) => /^(-?[\d.]+)(\+?)$/.exec(text));
  const texts = parsed.map((parts, i) => (parts ? short(Number(parts[1])) + parts[2] : ticks[i].text));
  const isLarge = parsed.some((parts) => parts && Math.abs(Number(parts[1])) >= LARGE);
  if (!isLarge || new Set(texts).size < ticks.length) return ticks;
  return ticks.map((tick, i) => ({ ...tick, text: texts[i] }));
}

/** Ticks of an ordered attribute: all bars if they are few, else round numbers or dates, and the last bar. */
function ticksUnder(attribute, groups) {
  const { kind, edges, unequal } = attribute;
  const n = groups.filter(({ first }) => first < edges.length - 1).length;
  const none = ({ first }) => ({ place: n + 0.5, text: "?", code: first, rank: 3 });
  const missing = groups.slice(n).map(none);
  const at = (i, text, rank = 0) => ({ place: i + 0.5, text, code: groups[i].first, rank });
  if (n <= 8 && groups.map(({ label }) => label).join("").length <= MOST_NAMES)
    return [...groups.slice(0, n).map(({ label }, i) => at(i, label)), ...missing];
  const isNumber = isNumeric(attribute);
  const name = (i) => (isNumber ? bound(groups[i].label, false) : groups[i].label);
  const last = at(n - 1, name(n - 1).replace(" or more", "+"), 2);
  if (!isNumber || unequal) {
    const every = Math.max(1, Math.ceil(n / 4));
    const some = Array.from({ length: Math.ceil(n / every) }, (_, k) => k * every).filter((i) => i < n - 1);
    return shortened([...some.map((i) => at(i, name(i))), last, ...missing]);
  }
  const starts = groups.slice(0, n).map(({ first }) => edges[first]);
  const isSingle = kind === "integer" && groups.every(({ label }) => !/ to /.test(label));
  const round = ticksBetween(starts[0], starts.at(-1), 5).flatMap((value) => {
    const i = starts.findLastIndex((start) => start <= value + 1e-9);
    if (i < 0 || i === n - 1) return [];
    const next = starts[i + 1] ?? value + 1;
    const inside = isSingle ? 0.5 : (value - starts[i]) / (next - starts[i]);
    return [{ place: i + inside, text: String(value), code: groups[i].first, rank: value === 0 ? 1 : 0 }];
  });
  return shortened([...round, last, ...missing]);
}

/** A bar in words, line by line: the value, its interval, and what it is compared with. */
export function wordsOf(model, bar, { data, other, difference, names, measure, attributeOf }) {
  const i = bar.index;
  const counted = about(data.estimate[i], data.lower[i], data.upper[i]);
  const isNoise = data.lower[i] <= 0 && data.estimate[i] > 0;
  const lines = [bar.label];
  if (isMeasured(model)) {
    const [low, high] = [bar.lower, bar.upper];
    const what = nameOf(measure, attributeOf);
    const value =
      model.kind === "rate" && bar.value !== null
        ? percentWords(bar.value / 100, low / 100, high / 100)
        : bar.value === null
          ? "not known"
          : about(bar.value, low, high, 0).replace("about ", "");
    lines.push(`${what}: ${value}${bar.isFaint && bar.value !== null ? ", could be almost anything" : ""}`);
  }
  lines.push(isMeasured(model) ? `among ${counted} records` : counted);
  if (isNoise) lines.push("not distinguishable from 0");
  const total = sum(data.estimate);
  const ends = ({ estimate, lower, upper }, times = 1) =>
    [estimate[i], lower[i], upper[i]].map((end) => end * times);
  if (data.share && data.share.estimate[i] !== null)
    lines.push(`${percentWords(...ends(data.share))} of these records`);
  else if (total > 0 && model.kind === "records")
    lines.push(`${percents(...ends(data, 1 / total))[0]} of these records`);
  if (bar.other !== null && other) lines.push(`among ${other.name}: ${otherWords(model, bar, total)}`);
  if (typeof difference?.estimate[i] === "number") lines.push(differenceWords(difference, i, names));
  return lines;
}

function otherWords({ kind }, { other }, total) {
  if (kind === "mean") return rounded(other, other, other, 0.1)[0];
  const share = kind === "records" ? (total > 0 ? other / total : 0) : other / 100;
  return `${Number((100 * share).toPrecision(2))}%`;
}

/** "A − B: 3.2 points (likely 1.1 to 5.3)". */
function differenceWords({ estimate, lower, upper }, i, names) {
  const [points, low, high] = rounded(100 * estimate[i], 100 * lower[i], 100 * upper[i], 0.01);
  return `${names.join(" − ")}: ${points} points (likely ${low} to ${high})`;
}

/** The title of a chart: "Records by age (Age at admission, years)". */
export function titleOf(measure, model, attributeOf) {
  const { name } = model.attribute;
  const about = describing(model.attribute);
  const isPercent = model.kind === "percent";
  const kind = isPercent ? "percent of records" : nameOf({ ...measure, kind: model.kind }, attributeOf);
  return `${kind[0].toUpperCase()}${kind.slice(1)} by ${name}${about ? ` (${about})` : ""}`;
}
