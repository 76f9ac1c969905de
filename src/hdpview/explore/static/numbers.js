// Values of numbers and their quantiles, as hdpview/query/question/quantities.py and
// hdpview/query/interval/spans.py have them.

import { isPoint } from "./moments.js";

const NOTHING = 1e-9; // an estimated count below this is 0, but for rounding
const N_PLACES = 12; // looked at together in a search for quantiles, as in Python

/** What the codes of a number stand for: a bin for its middle, a missing value for nothing. */
export function valuesOf(attribute) {
  const { edges, kind, nValues, size, single } = attribute;
  const whole = Number(kind !== "real");
  const value = new Float64Array(size);
  const spread = new Float64Array(size);
  for (let code = 0; code < nValues; code++) {
    const [least, greatest] = [edges[code], edges[code + 1] - whole];
    value[code] = single ? least : (least + greatest) / 2;
    spread[code] = (greatest - least) / Math.sqrt(12);
  }
  let known = null;
  if (size > nValues) {
    known = Float64Array.from({ length: size }, (_, code) => Number(code < nValues));
    known.condition = "known";
  }
  return {
    known,
    isCount: value.every((x) => x >= 0 && x <= 1),
    least: edges[0],
    greatest: edges[nValues] - whole,
    times: (f) => valued(f, value, spread),
  };
}

/** A function of an attribute's codes, none for the constant 1, that counts records with their values. */
function valued(f, value, spread) {
  if (f !== undefined && isPoint(f)) {
    const { code, condition } = f;
    const open = { share: f.value, value: value[code], spread: spread[code] };
    return { code, condition, value: f.value * value[code], open };
  }
  const share = f ?? new Float64Array(value.length).fill(1);
  const found = share.map((own, code) => own * value[code]);
  found.condition = f?.condition ?? "all";
  found.open = { share, value, spread };
  return found;
}

/** The first place of rising numbers that is at least, or with `beyond` above, a number. */
function firstReaching(numbers, least, beyond = false) {
  const found = numbers.findIndex((number) => (beyond ? number > least : number >= least));
  return found < 0 ? numbers.length : found;
}

/**
 * The quantile of a histogram, NaN of an empty one. Between single whole numbers as databases compute it,
 * inside bins by proportion.
 */
export function quantileOf(counts, { edges, kind, single }, share) {
  const running = [];
  for (const count of counts) running.push((running.at(-1) ?? 0) + count);
  const total = running.at(-1);
  if (total <= NOTHING) return NaN;
  const last = counts.length - 1;
  if (single) {
    const rank = Math.max(share * (total - 1), 0);
    const [below, above] = [Math.floor(rank + 1e-9), Math.ceil(rank - 1e-9)]
      .map((place) => Math.min(place, total - 1e-6))
      .map((place) => edges[Math.min(firstReaching(running, place + 1e-7, true), last)]);
    return below + (above - below) * (rank - Math.floor(rank + 1e-9));
  }
  const code = Math.min(firstReaching(running, share * total), last);
  const inside = counts[code] > 0 ? (share * total - (running[code] - counts[code])) / counts[code] : 0.5;
  const [start, end] = [edges[code], edges[code + 1]];
  const place = start + (end - start) * Math.min(Math.max(inside, 0), 1);
  return kind === "integer" ? Math.min(place, end - 1) : place;
}

/**
 * First and last code that may hold a quantile: where the share of records up to there may, and must, reach
 * it. ends(code): upper and lower end of records up to a code, less the quantile's share of all.
 */
export function codesAround(nCodes, ends) {
  const known = new Map();
  const reaches = (code, side) => {
    if (!known.has(code)) known.set(code, ends(code));
    return known.get(code)[side] >= 0;
  };
  return [0, 1].map((side) => firstCode(nCodes, (code) => reaches(code, side)));
}

/** The first code that reaches something, looked for at several places at a time. */
function firstCode(nCodes, reaches) {
  let low = 0;
  let high = nCodes - 1;
  while (low < high) {
    const middle = Array.from(
      { length: N_PLACES },
      (_, i) => low + Math.floor((high - low) * ((i + 1) / (N_PLACES + 1))),
    );
    const found = middle.findIndex(reaches);
    const first = found < 0 ? N_PLACES : found;
    const places = [low - 1, ...middle, high];
    high = places[first + 1];
    low = Math.min(places[first] + 1, high);
  }
  return low;
}
