// Functions of an attribute's codes, and their moments under a margin: the share of records at each code.
//
// A function of an attribute's codes is a Float64Array with a number per code, or a point: 0 but at one code.
// Its property `condition` is a text that only functions of the same condition share. Functions that weight
// records by values have a property `open`: the share of each bin that counts, the value of a record there,
// and the spread of values inside the bin; null if there is no uncertainty inside bins.
// A box is a Map from attributes to functions; attributes that it does not name are free.

import { LEAST } from "./conditions.js";

const EDGE_VARIANCE = 0.18; // of the share of a bin's records that lies exactly at its edge, as in codes.py
export const isPoint = (f) => !(f instanceof Float64Array);
export const sum = (values) => values.reduce((total, value) => total + value, 0);

/** The mean of a function by weights of noise at each code or bin. */
export function meanByNoise(f, kept) {
  const all = Math.max(sum(kept), 1e-300);
  if (isPoint(f)) return (kept[f.code] * f.value) / all;
  return f.reduce((total, value, i) => total + kept[i] * value, 0) / all;
}

/**
 * Energy of two functions, as in codes.py; null stands for the constant 1. kept: weights of noise at each
 * code or bin.
 */
export function energy(f, g, kept) {
  if (f === null || g === null) return 0;
  if (f === g && isPoint(f)) return f.value * kept[f.code] * (f.value - meanByNoise(f, kept));
  const [one, other] = [f, g].map((h) => dense(h, kept.length));
  const [mean, otherMean] = [one, other].map((h) => meanByNoise(h, kept));
  return kept.reduce((total, weight, i) => total + weight * (one[i] - mean) * (other[i] - otherMean), 0);
}

/** The weighted sum of products of two functions' deviations from their means over records. */
export function covariance(f, g, means, weight) {
  if (f === null || g === null) return 0;
  const square = sum(weight) * means[0] ** 2;
  if (f === g && isPoint(f)) return weight[f.code] * f.value * (f.value - 2 * means[0]) + square;
  const [one, other] = [f, g].map((h) => dense(h, weight.length));
  return weight.reduce((total, own, i) => total + own * (one[i] - means[0]) * (other[i] - means[1]), 0);
}

/** How much groups may depart from independence, by their shares of the records, as in codes.py. */
export function unlike(shares, rareShare) {
  const found = shares.map((share) => share ** 2 / (share + rareShare));
  const largest = shares.indexOf(shares.reduce((most, share) => Math.max(most, share), 0));
  const without = (values) => sum(values.filter((_, i) => i !== largest));
  const [left, apart, own] = [without(shares), without(found), shares[largest] ** 2];
  if (left > 0) found[largest] += own * Math.max(1 / (left + rareShare) - apart / left ** 2, 0);
  return found;
}

export function dense(f, size) {
  if (!isPoint(f)) return f;
  const found = new Float64Array(size);
  found[f.code] = f.value;
  return found;
}

/** A binning: each code's bin and its share of the bin, and each bin's share of the records. */
export function binning(binOfCode, margin) {
  const nBins = Math.max(...binOfCode) + 1;
  const ofBin = new Float64Array(nBins);
  const nCodes = new Float64Array(nBins);
  binOfCode.forEach((bin, code) => {
    ofBin[bin] += margin[code];
    nCodes[bin] += 1;
  });
  // In a bin without records, all codes have equal weight.
  const share = margin.map((value, code) =>
    ofBin[binOfCode[code]] > 0 ? value / ofBin[binOfCode[code]] : 1 / nCodes[binOfCode[code]],
  );
  return { binOfCode, share, ofBin };
}

/** A function averaged over bins, weighted by the margin. */
export function averaged(f, { binOfCode, share, ofBin }) {
  if (isPoint(f)) return { code: binOfCode[f.code], value: f.value * share[f.code] };
  const found = new Float64Array(ofBin.length);
  f.forEach((value, code) => {
    found[binOfCode[code]] += value * share[code];
  });
  return found;
}

/** A tensor summed over its first axis, which has n entries, with the weights of a function. */
export function contracted(cells, f, n) {
  const step = cells.length / n;
  if (isPoint(f)) return cells.slice(f.code * step, (f.code + 1) * step).map((value) => value * f.value);
  return Float64Array.from({ length: step }, (_, rest) =>
    f.reduce((total, weight, i) => total + weight * cells[i * step + rest], 0),
  );
}

/** The uncertainty of two functions inside bins, per squared total: from cut bins and unequal values. */
export function insideBins(f, g, margin) {
  if (f === null || g === null || f.open === null || g.open === null) return 0;
  const shared = (x, y) =>
    ((f.condition === g.condition ? Math.min(x, y) : Math.max(x + y - 1, 0)) - x * y) * atEdge(x) * atEdge(y);
  if (f.open || g.open) return insideBinsOfValues(f, g, margin, shared);
  if (isPoint(f)) return isPoint(g) && f.code === g.code ? shared(f.value, g.value) * margin[f.code] ** 2 : 0;
  return f.reduce((total, x, i) => total + shared(x, g[i]) * margin[i] ** 2, 0);
}

function insideBinsOfValues(f, g, margin, shared) {
  const points = [f, g].filter(isPoint);
  if (points.length === 2 && f.code !== g.code) return 0;
  const codes = points.length ? [points[0].code] : margin.keys();
  let cut = 0;
  const spreads = [0, 0];
  for (const code of codes) {
    const [one, other] = [openAt(f, code), openAt(g, code)];
    cut += shared(one.share, other.share) * one.value * other.value * margin[code] ** 2;
    // Records of all bins may lie on the same side, for example if values are rounded.
    spreads[0] += one.share * one.spread * margin[code];
    spreads[1] += other.share * other.spread * margin[code];
  }
  return cut + spreads[0] * spreads[1];
}

/** The factor on the error of a cut: all records of a bin may lie at an edge, as 0 does in `x > 0`. */
const atEdge = (share, variance = share * (1 - share)) =>
  variance > 0 && variance <= LEAST ? Math.sqrt(EDGE_VARIANCE / variance) : 1;

/** The uncertainty of a function at a code: the share that counts, the value there, and its spread. */
function openAt(f, code) {
  if (!f.open) return { share: isPoint(f) ? f.value : f[code], value: 1, spread: 0 };
  if (isPoint(f)) return f.open;
  return { share: f.open.share[code], value: f.open.value[code], spread: f.open.spread[code] };
}
