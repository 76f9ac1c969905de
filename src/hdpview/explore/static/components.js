// The released numbers of a view, the counts that follow from them, and the expected errors of these counts.
// The mathematics is that of kernels.py, closed.py, codes.py and blocks.py of hdpview/query/errors, with the
// error model that publish.py writes; docs/intervals.md derives it.
// moments.js defines boxes and functions of codes.

import {
  averaged, binning, contracted, covariance, dense, energy, insideBins, isPoint, meanByNoise, sum, unlike,
} from "./moments.js";

const N_ORDERS = 4;
const LEAST_SHARE = 1e-12;

const keyOf = (attributes) => [...attributes].sort((x, y) => x - y).join();

export class Mixture {
  /** part: see publish.py. sizes: number of codes of each attribute. */
  constructor(part, sizes) {
    Object.assign(this, part);
    this.n = part.weight.length;
    this.total = Math.max(sum(part.weight), 1);
    this.margins = sizes.map((_, a) => this.histogram(a, part.weight).map((count) => count / this.total));
    this.binnings = part.bins.map((bins, i) => binning(bins, this.margins[part.attributeOfBins[i]]));
    // Classes of recurring codes, such as weekdays, and the noise that their codes lost; none for missing.
    this.classes = this.margins.map((margin, a) =>
      part.cycles[a].map(([bins, lost]) => {
        const classOf = Int32Array.from(margin, (_, code) => bins[code] ?? lost.length);
        return { ...binning(classOf, margin), lost };
      }),
    );
    // Weights of covariances, as in codes.py: of codes, of bins, and of codes in bins.
    this.unlikeCodes = this.margins.map((margin) => unlike(margin, this.rareShare));
    this.unlikeBins = this.binnings.map(({ ofBin }) => unlike(ofBin, this.rareShare));
    this.scatter = part.bins.map((bins, i) =>
      bins.every((bin, code) => !code || bin >= bins[code - 1]) ? 1 / this.unlikeBins[i].length : 1,
    );
    this.unlikeInBins = this.binnings.map(({ share, binOfCode }, i) =>
      share.map((own, code) => this.scatter[i] * own * this.unlikeBins[i][binOfCode[code]]),
    );
    // Binnings in a list of all; null for single codes.
    const numberOf = (a, n) => (n ? part.attributeOfBins.indexOf(a) + n - 1 : null);
    const numbered = ({ attributes, binnings, ...rest }) => ({
      ...rest, attributes, bins: binnings.map((n, i) => numberOf(attributes[i], n)),
    });
    const columns = Object.entries(part.pieces);
    const piece = (i) => Object.fromEntries(columns.map(([name, values]) => [name, values[i]]));
    this.pieceOf = new Map(part.pieces.attributes.map((some, i) => [keyOf(some), numbered(piece(i))]));
    this.residuals = part.residuals.map(numbered);
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
    return this.#once(f, g, a, () => ({
      energy: energy(f, g, this.keptOfCodes[a]) + this.#ofClasses(a, f, g),
      covariance: covariance(f, g, this.#means(a, f, g), this.unlikeCodes[a]),
    }));
  }

  /** Noise in sums over recurring classes beyond that of their codes. */
  #ofClasses(a, f, g) {
    if (f === null || g === null) return 0;
    const [mean, otherMean] = [f, g].map((h) => meanByNoise(h, this.keptOfCodes[a]));
    return sum(
      this.classes[a].map((own) => {
        const [one, other] = [f, g].map((h) => averaged(dense(h, this.margins[a].length), own));
        const product = (i) => (one[i] - mean) * (other[i] - otherMean);
        return own.lost.reduce((total, each, i) => total + (each && each * product(i)), 0);
      }),
    );
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

  #means(a, f, g) {
    return [this.#mean(a, f), this.#mean(a, g)];
  }

  /** A function averaged over the bins of a binning; unchanged if the binning is null (single codes). */
  #overBins(a, f, i) {
    return i === null ? f : this.#once(f, f, `over ${a} ${i}`, () => averaged(f, this.binnings[i]));
  }

  /** Difference between a function's mean weighted by the noise of bins and its mean over records. */
  #shift(a, f, i) {
    if (f === null) return 0;
    return this.#once(f, f, `shift ${a} ${i}`, () => {
      const kept = i === null ? this.keptOfCodes[a] : this.keptOfBins[i];
      return meanByNoise(this.#overBins(a, f, i), kept) - this.#mean(a, f);
    });
  }

  #binned(a, f, g, i) {
    return this.#once(f, g, `${a} ${i}`, () => {
      if (f === null || g === null) return { energy: 0, ofBins: 0, scatter: 0 };
      const [one, means] = [this.#overBins(a, f, i), this.#means(a, f, g)];
      const other = f === g ? one : this.#overBins(a, g, i);
      const ofBins = covariance(one, other, means, this.unlikeBins[i]);
      return {
        energy: energy(one, other, this.keptOfBins[i]), ofBins,
        scatter: (1 - this.scatter[i]) * ofBins + covariance(f, g, means, this.unlikeInBins[i]),
      };
    });
  }

  #once(f, g, key, compute) {
    if (f !== g || f === null) return compute();
    if (!this.known.has(f)) this.known.set(f, new Map());
    const kept = this.known.get(f);
    if (!kept.has(key)) kept.set(key, compute());
    return kept.get(key);
  }

  /**
   * Expected products of the errors of two boxes: from noise in tables, from the model per unknown squared
   * correlation, and from cut bins.
   */
  errors(left, right) {
    const asked = [...new Set([...left.keys(), ...right.keys()])];
    const pair = new Map(asked.map((a) => [a, [left.get(a) ?? null, right.get(a) ?? null]]));
    const moments = new Map(asked.map((a) => [a, this.#moments(a, ...pair.get(a))]));
    const means = new Map(asked.map((a) => [a, pair.get(a).reduce((mean, f) => mean * this.#mean(a, f), 1)]));
    const meansWithout = (some) =>
      asked.reduce((product, a) => (some.includes(a) ? product : product * means.get(a)), 1);
    const weight = (some) =>
      asked.reduce(
        (product, a) => (some.includes(a) ? product : product * this.#weight(a, pair.get(a), some)),
        1,
      );
    let noise = this.totalVariance * weight([]);
    for (const a of asked) noise += this.codeVariance[a] * moments.get(a).energy * weight([a]);
    const model = this.#byOrder(
      asked.map((a) => ({ means: means.get(a), covariance: moments.get(a).covariance })),
    );
    for (const some of asked.flatMap((a, i) => asked.slice(i + 1).map((b) => [a, b]))) {
      const piece = this.pieceOf.get(keyOf(some));
      if (!piece) continue;
      const { attributes, bins } = piece;
      const found = attributes.map((a, i) => this.#binned(a, ...pair.get(a), bins[i]));
      const rest = meansWithout(attributes);
      noise += piece.noise * found.reduce((product, { energy }) => product * energy, 1) * rest;
      let [explained, whole, scattered] = [1, 1, 1];
      attributes.forEach((a, i) => {
        explained *= found[i].ofBins;
        whole *= moments.get(a).covariance;
        scattered *= found[i].scatter;
      });
      model[1] += (scattered - explained - whole) * rest;
    }
    const inside = asked.reduce(
      (total, a) => total + this.#insideBins(a, ...pair.get(a)) * meansWithout([a]),
      0,
    );
    return {
      noise,
      model: model.map((value) => value * this.total ** 2),
      inside: inside * this.total ** 2,
    };
  }

  /**
   * The factor of another attribute for counts of an attribute, or of all records: the product of the means
   * of two functions over records, or over bins if a released table counts both attributes together.
   */
  #weight(a, pair, some) {
    const piece = this.pieceOf.get(keyOf([...some, a]));
    return pair.reduce((product, f) => {
      if (!some.length) return product * (this.#mean(a, f) + this.#shift(a, f, null));
      if (!piece) return product * this.#mean(a, f);
      const bins = piece.bins[piece.attributes.indexOf(a)];
      return product * (this.#mean(a, f) + piece.kept * this.#shift(a, f, bins));
    }, 1);
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

  /** Ratio of the records in a box to those under independence, at least 1. */
  #lift(box, estimate) {
    let independent = this.total;
    for (const [a, f] of box) independent *= this.#mean(a, f);
    return independent > 0 ? Math.max(estimate / independent, 1) : 1;
  }

  /** The same for the records of a box, computed once. */
  #liftOf(records) {
    return this.#once(records, records, "lift", () =>
      this.#lift(records, this.estimate(records)),
    );
  }

  /** The squared error of a box; its model error and its noise grow with the lift. */
  #size({ noise, model, inside }, lift) {
    const ofModel = sum(model.map((value, order) => value * this.levels[order]));
    return (noise + ofModel) * lift + inside * lift ** 2;
  }

  /**
   * The expected squared error of the count of a box. records: the box of the underlying records, if their
   * contributions may be negative.
   */
  variance(box, estimate, records = null) {
    const lift = records ? this.#liftOf(records) : this.#lift(box, estimate);
    return Math.max(this.#size(this.errors(box, box), lift), 0) + this.#common(box, box);
  }

  /** Product of the errors that all sums have in common: a few records, and residuals of tables. */
  #common(one, other) {
    const [few, missed] = [one, other].map((box) => [this.#minError(box), this.#missed(box)])
      .reduce(([a, b], [c, d]) => [a * c, b * d]);
    return few + missed;
  }

  /** What the sum over a box misses because the fit misses released tables. */
  #missed(box) {
    const own = this.residuals.filter(({ attributes }) => attributes.every((a) => box.has(a)));
    return own.reduce((total, { attributes, bins, cells }) => {
      const overAxis = (left, a, i) =>
        contracted(left, this.#overBins(a, box.get(a), bins[i]), this.#nBins(a, bins[i]));
      const [missed] = attributes.reduce(overAxis, cells);
      const others = [...box].filter(([a]) => !attributes.includes(a));
      return total + others.reduce((product, [a, f]) => product * this.#mean(a, f), missed);
    }, 0);
  }

  #nBins(a, i) {
    return i === null ? this.margins[a].length : this.binnings[i].ofBin.length;
  }

  /** The error of a sum if there are a few more records than the model predicts. */
  #minError(box) {
    const most = (f) => (isPoint(f) ? Math.abs(f.value) : f.reduce((x, y) => Math.max(x, Math.abs(y)), 0));
    if (box.size < 2) return 0;
    return [...box.values()].reduce((product, f) => product * most(f), this.minErrorRecords);
  }

  /**
   * Expected products of the errors of sums with each other and with themselves. isCount: per sum, whether a
   * record adds between 0 and 1; sums of other values get the lift of the largest count.
   */
  covariances(boxes, isCount = boxes.map(() => true)) {
    const estimates = boxes.map((box, i) =>
      isCount[i] ? this.#once(box, box, "estimate", () => this.estimate(box)) : -Infinity,
    );
    const largest = estimates.indexOf(Math.max(...estimates));
    const lift = boxes.map((_, i) => {
      const own = isCount[i] ? i : largest;
      return this.#lift(boxes[own], estimates[own]);
    });
    const shared = (i, j) =>
      this.#size(this.errors(boxes[i], boxes[j]), Math.sqrt(lift[i] * lift[j])) +
      this.#common(boxes[i], boxes[j]);
    const own = (i) =>
      isCount[i] ? this.#once(boxes[i], boxes[i], "own", () => shared(i, i)) : shared(i, i);
    const below = boxes.map((_, i) => boxes.slice(0, i).map((__, j) => shared(i, j)));
    return boxes.map((_, i) =>
      boxes.map((__, j) => (i === j ? own(i) : below[Math.max(i, j)][Math.min(i, j)])),
    );
  }

  /** Whether the attributes of a box were counted together, and it cuts no bin. */
  rests(box) {
    const attributes = [...box.keys()];
    const whole = [...box.values()].every((f) => f.every((value) => value === 0 || value === 1));
    return (
      whole &&
      (!attributes.length ||
        this.tables.some((table) => attributes.every((a) => table.includes(a))))
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
   * The expected squared error of the count of a box: noise, uneven records inside blocks, and corrections
   * for consistency.
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
