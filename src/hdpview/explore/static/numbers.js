// Values and quantiles of binned numbers, equivalent to hdpview/query/question/quantities.py and
// hdpview/query/interval/statistics.py.

import { isPoint } from "./moments.js";

const NOTHING = 1e-9; // estimated counts below this are 0 up to rounding
const POINTS_PER_BIN = 60; // points that represent a bin, as in the SQL evaluator
const MAX_WHOLE_POINTS = 64; // points of a bin of whole numbers
const MAX_POINTS = 100_000; // points of all bins together
const SLACK = 1e-7; // ranks that differ by less are equal
const PLACES = 11; // codes that one step of the search for a quantile's interval looks at

/** The values that an attribute's codes represent: midpoints of bins; missing values have none. */
export function valuesOf(attribute) {
  const { edges, kind, nValues, size, single } = attribute;
  const whole = Number(kind !== "real");
  const value = new Float64Array(size);
  const spread = new Float64Array(size);
  for (let code = 0; code < nValues; code++) {
    const [least, greatest] = [edges[code], edges[code + 1] - whole];
    value[code] = single ? least : (least + greatest) / 2;
    spread[code] = (greatest - least) / Math.sqrt(48);
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

/** Multiply a function of an attribute's codes (undefined: the constant 1) by the values. */
function valued(f, value, spread) {
  if (f !== undefined && isPoint(f)) {
    const { code, condition } = f;
    const open = { share: f.value, value: value[code], spread: spread[code] };
    return { code, condition, value: f.value * value[code], open };
  }
  const share = f ?? new Float64Array(value.length).fill(1);
  const product = share.map((own, code) => own * value[code]);
  product.condition = f?.condition ?? "all";
  product.open = { share, value, spread };
  return product;
}

/** Values assumed for the records of a bin: evenly spaced, or every whole number of a narrow bin. */
function pointsOf({ edges, kind }, code) {
  const [low, width, n] = [edges[code], edges[code + 1] - edges[code], edges.length - 1];
  const few = Math.min(Math.max(Math.floor(MAX_POINTS / n), 4), POINTS_PER_BIN);
  if (kind !== "integer") return Array.from({ length: few }, (_, i) => low + (width * (i + 0.5)) / few);
  const most = Math.min(width, n <= Math.floor(MAX_POINTS / MAX_WHOLE_POINTS) ? MAX_WHOLE_POINTS : few);
  return Array.from({ length: most }, (_, i) =>
    low + (most === width ? i : Math.floor((i * (width - 1)) / (most - 1))),
  );
}

/** The quantile of a histogram as SQL computes it; NaN for an empty one. */
export function quantileOf(counts, attribute, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= NOTHING) return NaN;
  const at = (place) => {
    const reached = Math.min(place, total - 1e-6) + SLACK;
    let [code, below] = [0, 0];
    while (code < counts.length - 1 && below + counts[code] <= reached) below += counts[code++];
    const points = pointsOf(attribute, code);
    return points.at(points.findIndex((_, i) => below + (counts[code] * (i + 1)) / points.length > reached));
  };
  const rank = Math.max(share * (total - 1), 0);
  const first = Math.floor(rank + SLACK);
  const [below, above] = [at(first), at(Math.ceil(rank - SLACK))];
  return below + (above - below) * Math.min(Math.max(rank - first, 0), 1);
}

/**
 * The first and last code that may contain a quantile. ends(code): upper and lower end of the records up to a
 * code, minus the quantile's share of all records. The ends may turn back, so the places are those of Python.
 */
export function codesAround(nCodes, ends) {
  return [0, 1].map((side) => {
    let [low, high] = [0, nCodes - 1];
    while (low < high) {
      const step = (high - low) / PLACES;
      const places = new Set(Array.from({ length: PLACES }, (_, k) => Math.trunc(k * step + low)));
      const reached = [...places].find((code) => ends(code)[side] >= 0) ?? high;
      low = Math.max(low, ...[...places].filter((code) => code < reached).map((code) => code + 1));
      high = reached;
    }
    return low;
  });
}
