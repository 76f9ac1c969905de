// The released numbers of a view, and what follows from them: counts under conditions, and the errors to
// expect of them.
// The same mathematics as mixture.py, codes.py, errors.py and blocks.py of hdpview/query/interval;
// docs/intervals.md derives it.
// moments.js says what functions of codes are, and boxes.

import { averaged, binning, dense, gram, insideBins, isPoint, sum } from "./moments.js";

const DEPENDENCE = 0.1;
const MISFIT = 0.25;
const FINER = 0.9;
const OF_THE_FIT = 1.25;
const COINCIDE = 0.4;
const RARE = 0.02;
const UNEVEN = 0.5;
const FEW = 2;
const N_ORDERS = 4;
const LEAST_SHARE = 1e-12;

/** All proper subsets of some attributes. */
function subsets(attributes) {
  const all = attributes.reduce((found, a) => [...found, ...found.map((some) => [...some, a])], [[]]);
  return all.slice(0, -1);
}

const keyOf = (attributes) => [...attributes].sort((x, y) => x - y).join();

export class Mixture {
  /** part: see publish.py. sizes: number of codes of each attribute. */
  constructor(part, sizes) {
    Object.assign(this, part);
    this.n = part.weight.length;
    this.total = Math.max(sum(part.weight), 1);
    this.margins = sizes.map((_, a) => this.histogram(a, part.weight).map((count) => count / this.total));
    this.binnings = part.bins.map((bins, i) => binning(bins, this.margins[part.attributeOfBins[i]]));
    const best = new Map();
    for (const table of part.tables) {
      const key = keyOf(table.attributes);
      if (table.attributes.length > 1 && !(best.get(key)?.variance <= table.variance)) best.set(key, table);
    }
    // Of each table, the share that the fit has kept; those of most attributes first.
    const signal = (DEPENDENCE * this.total) ** 2;
    this.joint = [...best.values()]
      .map((table) => ({ ...table, kept: signal / (signal + table.variance * table.cells) }))
      .sort((one, other) => other.attributes.length - one.attributes.length);
    this.known = new WeakMap();
  }

  /** Records at each code of an attribute, for some records of each component. */
  histogram(a, weight) {
    const { share, binOfCode, shape } = this.shares[a];
    const ofBin = new Float64Array(share.length / weight.length);
    for (let bin = 0; bin < ofBin.length; bin++) {
      let total = 0;
      for (let z = 0, at = bin * weight.length; z < weight.length; z++, at++) total += weight[z] * share[at];
      ofBin[bin] = total;
    }
    return Float64Array.from(binOfCode, (bin, code) => ofBin[bin] * shape[code]);
  }

  /** Records of each component in a box. */
  inside(box) {
    const weight = Float64Array.from(this.weight);
    for (const [a, f] of box) {
      const { share, binOfCode, shape } = this.shares[a];
      const ofBin = new Float64Array(share.length / this.n);
      const factor = new Float64Array(this.n);
      dense(f, binOfCode.length).forEach((value, code) => {
        ofBin[binOfCode[code]] += value * shape[code];
      });
      ofBin.forEach((value, bin) => {
        if (value) for (let z = 0; z < this.n; z++) factor[z] += value * share[bin * this.n + z];
      });
      for (let z = 0; z < this.n; z++) weight[z] *= factor[z];
    }
    return weight;
  }

  estimate(box) {
    return sum(this.inside(box));
  }

  /** Moments of a pair of functions of an attribute; of a function with itself, computed once. */
  #moments(a, f, g) {
    return this.#once(f, g, a, () => gram(f, g, this.margins[a]));
  }

  #insideBins(a, f, g) {
    return this.#once(f, g, `inside ${a}`, () => insideBins(f, g, this.margins[a]));
  }

  /** Mean of a function over records; 1 for none. */
  #mean(a, f) {
    if (f === null) return 1;
    if (isPoint(f)) return f.value * this.margins[a][f.code];
    return this.#once(f, f, `mean ${a}`, () =>
      f.reduce((mean, value, i) => mean + value * this.margins[a][i], 0),
    );
  }

  /** A function averaged over the bins of a binning, or as it is for the codes themselves, given by null. */
  #overBins(a, f, i) {
    return i === null ? f : this.#once(f, f, `over ${a} ${i}`, () => averaged(f, this.binnings[i]));
  }

  /** How much larger the plain mean of a function over bins is than that over records. */
  #shift(a, f, i) {
    if (f === null) return 0;
    return this.#once(f, f, `shift ${a} ${i}`, () => {
      const n = i === null ? this.margins[a].length : this.binnings[i].ofBin.length;
      const own = this.#overBins(a, f, i);
      return (isPoint(own) ? own.value : sum(own)) / n - this.#mean(a, f);
    });
  }

  #binned(a, f, g, i) {
    return this.#once(f, g, `${a} ${i}`, () =>
      gram(
        f === null ? null : this.#overBins(a, f, i),
        g === null ? null : this.#overBins(a, g, i),
        this.binnings[i].ofBin,
      ),
    );
  }

  #once(f, g, key, compute) {
    if (f !== g || f === null) return compute();
    if (!this.known.has(f)) this.known.set(f, new Map());
    const kept = this.known.get(f);
    if (!kept.has(key)) kept.set(key, compute());
    return kept.get(key);
  }

  /**
   * Expected products of the errors of two boxes: by noise, by the model per squared factor of its quality,
   * by dependence inside the bins of tables, and by bins that are cut through.
   */
  errors(left, right) {
    const asked = [...new Set([...left.keys(), ...right.keys()])];
    const pair = new Map(asked.map((a) => [a, [left.get(a) ?? null, right.get(a) ?? null]]));
    const moments = new Map(asked.map((a) => [a, this.#moments(a, ...pair.get(a))]));
    const means = new Map(asked.map((a) => [a, pair.get(a).reduce((mean, f) => mean * this.#mean(a, f), 1)]));
    const meansWithout = (some) =>
      asked.reduce((product, a) => (some.includes(a) ? product : product * means.get(a)), 1);
    const joint = this.joint.filter(({ attributes }) => attributes.every((a) => pair.has(a)));
    const weights = this.#weights(left, asked, joint);
    const others = left === right ? weights : this.#weights(right, asked, joint);
    const weight = (attributes) => weights.get(keyOf(attributes)) * others.get(keyOf(attributes));
    let noise = this.totalVariance * weight([]);
    for (const a of asked) noise += this.codeVariance[a] * moments.get(a).energy * weight([a]);
    const hidden = (a) => (Math.sqrt(this.codeVariance[a]) / this.total) * moments.get(a).fourth;
    const model = this.#byOrder(
      asked.map((a) => ({ means: means.get(a), covariance: moments.get(a).covariance + hidden(a) })),
    );
    let finer = 0;
    for (const { attributes, variance, moved, bins, dependence, kept } of joint) {
      const found = attributes.map((a, i) => this.#binned(a, ...pair.get(a), bins[i]));
      const rest = meansWithout(attributes);
      const energy = found.reduce((product, { energy }) => product * energy, 1);
      noise += (OF_THE_FIT * kept * variance + moved) * energy * weight(attributes);
      const explained = found.reduce((product, { covariance }) => product * covariance, 1) * rest;
      model[attributes.length - 1] -= (1 - MISFIT ** 2) * explained;
      finer +=
        (FINER * dependence ** 2) ** 2 *
        (attributes.reduce((product, a) => product * moments.get(a).covariance, 1) * rest - explained);
    }
    const inside = asked.reduce(
      (total, a) => total + this.#insideBins(a, ...pair.get(a)) * meansWithout([a]),
      0,
    );
    const rare = this.#inCommon(left, asked, joint) * this.#inCommon(right, asked, joint);
    return {
      noise,
      model: model.map((value) => value * this.total ** 2),
      finer: finer * this.total ** 2,
      inside: inside * (UNEVEN * this.total) ** 2,
      rare: rare * this.total ** 2,
    };
  }

  /**
   * What the counts of released tables are multiplied with, in an estimate of a box that has as little noise
   * as they allow, by the key of their attributes.
   */
  #weights(box, asked, joint) {
    const f = (a) => box.get(a) ?? null;
    const meansWithout = (some) =>
      asked.reduce((product, a) => (some.includes(a) ? product : product * this.#mean(a, f(a))), 1);
    const found = new Map();
    const add = (attributes, value) => {
      const key = keyOf(attributes);
      found.set(key, (found.get(key) ?? 0) + value);
    };
    add([], meansWithout([]));
    for (const a of asked) {
      add([a], meansWithout([a]));
      add([], this.#shift(a, f(a), null) * meansWithout([a]));
    }
    for (const { attributes, bins, kept } of joint) {
      const rest = meansWithout(attributes);
      const shifts = new Map(attributes.map((a, i) => [a, this.#shift(a, f(a), bins[i])]));
      add(attributes, rest);
      for (const some of subsets(attributes)) {
        const moved = attributes.filter((a) => !some.includes(a));
        add(some, kept * moved.reduce((product, a) => product * shifts.get(a), rest));
      }
    }
    return found;
  }

  /** Of a condition that most records satisfy, the share of those that do not. */
  #exceptions(a, f) {
    const mean = this.#mean(a, f);
    if (f === null || mean <= 0.5) return 0;
    const values = isPoint(f) ? [f.value] : f;
    return values.every((value) => value >= 0 && value <= 1) ? Math.min(Math.max(1 - mean, 0), RARE) : 0;
  }

  /**
   * Records that may be exceptions in two attributes that were not counted together, beyond independence, as
   * a share of all.
   */
  #inCommon(box, asked, joint) {
    const measured = new Set(joint.map(({ attributes }) => keyOf(attributes)));
    const f = (a) => box.get(a) ?? null;
    let found = 0;
    asked.forEach((a, i) => {
      for (const b of asked.slice(i + 1)) {
        if (measured.has(keyOf([a, b]))) continue;
        const both = Math.min(this.#exceptions(a, f(a)), this.#exceptions(b, f(b)));
        found += asked.reduce(
          (product, c) => (c === a || c === b ? product : product * this.#mean(c, f(c))),
          both,
        );
      }
    });
    return COINCIDE * found;
  }

  /**
   * Sums over sets of 1, 2, 3, and 4 or more attributes of their covariances times the means of the others.
   */
  #byOrder(moments) {
    const found = [1, ...new Array(N_ORDERS).fill(0)];
    for (const { means, covariance } of moments) {
      const last = found[N_ORDERS] * (means + covariance) + found[N_ORDERS - 1] * covariance;
      for (let order = N_ORDERS - 1; order > 0; order--)
        found[order] = found[order] * means + found[order - 1] * covariance;
      found[0] *= means;
      found[N_ORDERS] = last;
    }
    return found.slice(1);
  }

  /** How many times more records lie in a box than if attributes were independent, at least 1. */
  #beyondIndependence(box, estimate) {
    let independent = this.total;
    for (const [a, f] of box) independent *= this.#mean(a, f);
    return independent > 0 ? Math.max(estimate / independent, 1) : 1;
  }

  /** The same of the records of a box, computed once. */
  #moreOf(records) {
    return this.#once(records, records, "more", () =>
      this.#beyondIndependence(records, this.estimate(records)),
    );
  }

  /** What lies where more records are than if attributes were independent errs by as much more. */
  #size({ noise, model, finer, inside, rare }, more) {
    const chance = sum(model.slice(1)) / this.total;
    const [ofOne, ...ofMore] = model.map((value, order) => value * this.factors[order] ** 2);
    return { noise, rest: ofOne + (sum(ofMore) + chance + finer) * more + inside * more ** 2 + rare };
  }

  /**
   * The squared error to expect of the count of a box. records: the box of the records that it is about,
   * where what they add may be negative.
   */
  variance(box, estimate, records = null) {
    const more = records ? this.#moreOf(records) : this.#beyondIndependence(box, estimate);
    const { noise, rest } = this.#size(this.errors(box, box), more);
    return Math.max(Math.max(noise, 0) + rest, 0) + this.#ofAFew(box) ** 2;
  }

  /** The error of a sum if a few records more than the model sees add as much as any may. */
  #ofAFew(box) {
    return box.size > 1 ? FEW * this.#largest(box) : 0;
  }

  /** The most that one record may add to the count of a box. */
  #largest(box) {
    const size = (most, value) => Math.max(most, Math.abs(value));
    const largest = (f) => (isPoint(f) ? Math.abs(f.value) : f.reduce(size, 0));
    return [...box.values()].reduce((product, f) => product * largest(f), 1);
  }

  /**
   * Expected products of the errors of sums with each other and with themselves. isCount: of each, whether a
   * record adds between 0 and 1; sums of other values err by as much more as the largest count does.
   */
  covariances(boxes, isCount = boxes.map(() => true)) {
    const estimates = boxes.map((box, i) => (isCount[i] ? this.estimate(box) : -Infinity));
    const largest = estimates.indexOf(Math.max(...estimates));
    const more = boxes.map((_, i) => {
      const own = isCount[i] ? i : largest;
      return this.#beyondIndependence(boxes[own], estimates[own]);
    });
    return boxes.map((one, i) =>
      boxes.map((other, j) => {
        const { noise, rest } = this.#size(this.errors(one, other), Math.sqrt(more[i] * more[j]));
        return noise + rest + this.#ofAFew(one) * this.#ofAFew(other);
      }),
    );
  }

  /** What `withTotal` needs to know of the records that shares are of. */
  productOf(box) {
    const estimate = this.estimate(box);
    const more = this.#beyondIndependence(box, estimate);
    const { noise, rest } = this.#size(this.errors(box, box), more);
    const few = this.#ofAFew(box);
    return { box, estimate, more, few, variance: noise + rest + few ** 2 };
  }

  /** The sums of a box and of one around it, wider in an attribute, and expected products of their errors. */
  withTotal(box, total) {
    const estimate = this.estimate(box);
    const more = this.#beyondIndependence(box, estimate);
    const own = this.#size(this.errors(box, box), more);
    const shared = this.#size(this.errors(box, total.box), Math.sqrt(more * total.more));
    const few = this.#ofAFew(box);
    const covariance = shared.noise + shared.rest + few * total.few;
    return {
      sums: [estimate, total.estimate],
      covariances: [
        [own.noise + own.rest + few ** 2, covariance],
        [covariance, total.variance],
      ],
    };
  }

  /** Whether the attributes of a box were counted together, and it cuts through no bin. */
  rests(box) {
    const attributes = [...box.keys()];
    const whole = [...box.values()].every((f) => f.every((value) => value === 0 || value === 1));
    return (
      whole &&
      (!attributes.length ||
        this.tables.some((table) => attributes.every((a) => table.attributes.includes(a))))
    );
  }

  /** Estimates of a histogram under a box that does not name the attribute. */
  estimates(a, box) {
    return this.histogram(a, this.inside(box));
  }

  /**
   * Estimates of all combinations of codes of two attributes under a box that names neither: a row per code
   * of the first.
   */
  grid(a, b, box) {
    const weight = this.inside(box);
    const { share, binOfCode, shape } = this.shares[a];
    const rows = new Map();
    return Array.from(binOfCode, (bin, code) => {
      if (!rows.has(bin))
        rows.set(
          bin,
          this.histogram(
            b,
            weight.map((value, z) => value * share[bin * this.n + z]),
          ),
        );
      return rows.get(bin).map((value) => value * shape[code]);
    });
  }
}

export class Blocks {
  /** part: see publish.py. */
  constructor(part) {
    Object.assign(this, part);
    this.n = part.weight.length;
  }

  /** Share of each block's cells in a box. */
  #shares(box) {
    const found = new Float64Array(this.n).fill(1);
    for (const [a, f] of box) {
      const { lower, upper } = this.bounds[a];
      const running = isPoint(f)
        ? null
        : f.reduce(
            (sums, value) => {
              sums.push(sums.at(-1) + value);
              return sums;
            },
            [0],
          );
      for (let b = 0; b < this.n; b++) {
        const inside = running
          ? running[upper[b]] - running[lower[b]]
          : lower[b] <= f.code && f.code < upper[b]
            ? f.value
            : 0;
        found[b] *= inside / (upper[b] - lower[b]);
      }
    }
    return found;
  }

  estimate(box) {
    return this.#shares(box).reduce((total, share, b) => total + share * this.weight[b], 0);
  }

  /**
   * The squared error to expect of the count of a box: noise, records that lie unevenly in blocks, and
   * counts moved to be consistent.
   */
  variance(box, estimate) {
    let squares = 0;
    let spread = 0;
    let raw = 0;
    let most = 0;
    this.#shares(box).forEach((share, b) => {
      const rest = share - share * share;
      squares += share * share;
      raw += share * this.noisy[b];
      if (!(rest > 1e-12 * share)) return;
      const deviation = Math.sqrt(rest) * Math.max(rest, LEAST_SHARE) ** -0.375;
      spread += deviation * this.weight[b];
      most = Math.max(most, deviation);
    });
    spread += Math.sqrt(this.noiseVariance) * most;
    const factor = this.factors[Math.min(Math.max(box.size, 1), N_ORDERS) - 1];
    return this.noiseVariance * squares + (factor * spread) ** 2 + (raw - estimate) ** 2;
  }

  rests() {
    return false;
  }

  estimates(a, box, size) {
    return Float64Array.from({ length: size }, (_, code) =>
      this.estimate(new Map([...box, [a, { code, value: 1 }]])),
    );
  }

  grid(a, b, box, sizes) {
    return Array.from({ length: sizes[a] }, (_, code) =>
      this.estimates(b, new Map([...box, [a, { code, value: 1 }]]), sizes[b]),
    );
  }
}
