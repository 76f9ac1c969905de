// Answers to the page's questions, computed from the released numbers alone. Answers are of the form that the
// server gives.

import { cellOf, clip, deltaVariance, isPossible, ratioOf, times, without } from "./boxes.js";
import { Blocks, Mixture } from "./components.js";
import { Refusal, notes, reachingBins, read, shares } from "./conditions.js";
import { dense } from "./moments.js";
import { codesAround, quantileOf, valuesOf } from "./numbers.js";

export class Engine {
  /** content: what publish.py put into the page, with its arrays unpacked. */
  constructor(content) {
    this.schema = content.schema;
    this.tail = content.tail;
    this.confidence = content.confidence;
    this.attributes = content.axes.map((axis, a) => ({
      ...content.schema.attributes[a],
      ...axis,
      size: axis.nValues + Number(content.schema.attributes[a].nullable),
    }));
    this.sizes = this.attributes.map(({ size }) => size);
    this.parts = content.parts.map((part) =>
      part.bounds ? new Blocks(part) : new Mixture(part, this.sizes),
    );
  }

  answer(path, body) {
    const answers = {
      "/api/views": () => [this.schema],
      "/api/schema": () => this.schema,
      "/api/count": () => this.count(body.where),
      "/api/histograms": () => this.histograms(body),
      "/api/pairs": () => this.pairs(body),
      "/api/compare": () => this.compare(body),
      "/api/rates": () => this.rates(body),
      "/api/shares": () => this.shares(body),
      "/api/statistics": () => this.statistics(body),
    };
    if (!answers[path]) throw new Refusal("This page does not answer that. hdpview explore does.");
    return answers[path]();
  }

  /** What is asked as a box; conditions that all records satisfy are left out. */
  #box(asked) {
    return new Map(
      [...asked]
        .map(([a, condition]) => [a, shares(this.attributes[a], condition)])
        .filter(([, f]) => f.some((value) => value !== 1)),
    );
  }

  /**
   * The box of a condition, and the one over all records that may be meant where it lies beyond the schema's
   * bounds.
   */
  #boxes(where) {
    const asked = read(where, this.attributes);
    const wide = reachingBins(asked, this.attributes);
    const ranges = (each) =>
      JSON.stringify([...each.values()].map((condition) => condition.ranges.flat().map(String)));
    const box = this.#box(asked);
    return { asked, box, wide: ranges(asked) === ranges(wide) ? box : this.#box(wide) };
  }

  #number(name) {
    const found = this.attributes.findIndex((attribute) => attribute.name === name);
    if (found < 0) throw new Refusal(`Unknown attribute '${name}'.`);
    return found;
  }

  #ends(estimate, variance) {
    const width = this.tail * Math.sqrt(variance);
    return {
      estimate,
      lower: Math.min(Math.max(estimate - width, 0), estimate),
      upper: Math.max(Math.max(estimate + width, 0), estimate),
    };
  }

  #added(compute) {
    return this.parts.reduce((total, part) => total + compute(part), 0);
  }

  count(where) {
    const { asked, box, wide } = this.#boxes(where);
    const basis = this.parts.every((part) => part.rests(box)) ? "measured" : "model";
    const found = this.#typical(box);
    const upper = wide === box ? found.upper : Math.max(found.upper, this.#typical(wide).upper);
    return { ...found, upper, basis, notes: notes(asked, this.attributes) };
  }

  #typical(box) {
    const estimates = this.parts.map((part) => part.estimate(box));
    const variance = this.parts.reduce((total, part, i) => total + part.variance(box, estimates[i]), 0);
    return this.#ends(
      estimates.reduce((x, y) => x + y, 0),
      variance,
    );
  }

  /** shares: whether to tell, beside counts, what share of what a chart counts each value has. */
  histograms({ where, own = {}, attributes = null, shares: inShares = false }) {
    const found = {};
    const boxes = new Map();
    this.attributes.forEach(({ name }, a) => {
      if (attributes && !attributes.includes(name)) return;
      const text = Object.hasOwn(own, name) ? own[name] : where;
      if (!boxes.has(text)) boxes.set(text, this.#boxes(text));
      found[name] = this.#histogram(a, boxes.get(text));
      if (inShares && !this.hasBlocks) found[name].share = this.#valueShares(a, boxes.get(text));
    });
    return {
      count: this.count(where),
      histograms: found,
      filtered: [...read(where, this.attributes).keys()]
        .sort((x, y) => x - y)
        .map((a) => this.attributes[a].name),
      confidence: this.confidence,
    };
  }

  /** A point per code of an attribute, as far as a box has it. */
  #points(a, box) {
    return Array.from({ length: this.sizes[a] }, (_, code) => ({
      code,
      value: box.get(a)?.[code] ?? 1,
      condition: box.get(a)?.condition,
    }));
  }

  #histogram(a, { box, wide }) {
    const columns = this.#column(a, box, wide);
    if (wide !== box)
      this.#column(a, wide, wide).upper.forEach((end, code) => {
        columns.upper[code] = Math.max(columns.upper[code], end);
      });
    return columns;
  }

  /** Of the records under a box, the share with each value of an attribute. */
  #valueShares(a, { box, wide }) {
    const columns = { estimate: [], lower: [], upper: [] };
    const reach = this.#points(a, wide);
    const nPossible = isPossible(without(wide, a)) ? reach.filter(({ value }) => value > 0).length : 0;
    const total = this.parts.map((part) => part.productOf(box));
    for (const point of this.#points(a, box)) {
      const cell = new Map([...without(box, a), [a, cellOf(point, box.get(a))]]);
      const { ratio, off } =
        nPossible && reach[point.code].value > 0
          ? this.#ratioOf(
              this.parts.map((part, i) => part.withTotal(cell, total[i])),
              nPossible === 1,
            )
          : { ratio: 0, off: 0 };
      columns.estimate.push(ratio);
      columns.lower.push(ratio === null ? null : Math.max(ratio - off, 0));
      columns.upper.push(ratio === null ? null : Math.min(ratio + off, 1));
    }
    return columns;
  }

  /** A histogram under a box; of values that are possible under the wider one. */
  #column(a, box, wide) {
    const rest = without(box, a);
    const columns = { estimate: [], lower: [], upper: [] };
    const reach = this.#points(a, wide);
    const known = this.parts.map((part) => part.estimates(a, rest, this.sizes[a]));
    const possible = isPossible(without(wide, a));
    for (const point of this.#points(a, box))
      this.#put(
        columns,
        reach[point.code].value > 0 && possible,
        new Map([...rest, [a, point]]),
        known.map((own) => own[point.code] * point.value),
      );
    return columns;
  }

  #put(columns, possible, box, estimates) {
    let variance = 0;
    if (possible)
      this.parts.forEach((part, i) => {
        variance += part.variance(box, estimates[i]);
      });
    const found = possible
      ? this.#ends(
          estimates.reduce((x, y) => x + y, 0),
          variance,
        )
      : { estimate: 0, lower: 0, upper: 0 };
    for (const key of Object.keys(columns)) columns[key].push(found[key]);
  }

  pairs({ where, first, second }) {
    const [a, b] = [this.#number(first), this.#number(second)];
    const { asked, box, wide } = this.#boxes(where);
    if (a === b) throw new Refusal("Name two different attributes.");
    const found = this.#grid(a, b, box, wide);
    if (wide !== box)
      this.#grid(a, b, wide, wide).upper.forEach((row, i) =>
        row.forEach((end, j) => {
          found.upper[i][j] = Math.max(found.upper[i][j], end);
        }),
      );
    return { ...found, notes: notes(asked, this.attributes) };
  }

  #grid(a, b, box, wide) {
    const rest = without(box, a, b);
    const possible = isPossible(without(wide, a, b));
    const reach = [a, b].map((each) => this.#points(each, wide));
    const known = this.parts.map((part) => part.grid(a, b, rest, this.sizes));
    const across = this.#points(b, box);
    const found = { estimate: [], lower: [], upper: [] };
    for (const down of this.#points(a, box)) {
      const columns = { estimate: [], lower: [], upper: [] };
      for (const point of across) {
        const value = down.value * point.value;
        this.#put(
          columns,
          reach[0][down.code].value * reach[1][point.code].value > 0 && possible,
          new Map([...rest, [a, down], [b, point]]),
          known.map((grid) => grid[down.code][point.code] * value),
        );
      }
      for (const key of Object.keys(columns)) found[key].push(columns[key]);
    }
    return found;
  }

  /** Of the records with each value of an attribute, the share that satisfies a condition. */
  rates({ where, outcome, attribute }) {
    this.#needMixture();
    const also = this.#box(read(outcome, this.attributes));
    const { codes, boxes, notes: told } = this.#groups(where, attribute);
    const found = { codes, estimate: [], lower: [], upper: [], notes: told };
    for (const group of boxes) {
      const { ratio, off } = this.#ratio([times(group, also), group]);
      found.estimate.push(ratio);
      found.lower.push(ratio === null ? null : Math.max(ratio - off, 0));
      found.upper.push(ratio === null ? null : Math.min(ratio + off, 1));
    }
    return found;
  }

  /** The values of an attribute that are possible under a condition, and the box of each; of null, all. */
  #groups(where, attribute) {
    const { asked, box, wide } = this.#boxes(where);
    const told = notes(asked, this.attributes);
    if (attribute === null) return { codes: [], boxes: [box], notes: told };
    const a = this.#number(attribute);
    const rest = without(box, a);
    const reach = this.#points(a, wide);
    const points = isPossible(without(wide, a))
      ? this.#points(a, box).filter(({ code }) => reach[code].value > 0)
      : [];
    const codes = points.map(({ code }) => code);
    return { codes, boxes: points.map((point) => new Map([...rest, [a, point]])), notes: told };
  }

  /**
   * Statistics of a number: of all records under a condition, or by the values of another attribute.
   * measures: "mean", "sum", or the share of records that a quantile has below it. Answers a list for each.
   */
  statistics({ where, attribute, by = null, measures }) {
    this.#needMixture();
    const a = this.#number(attribute);
    if (!["integer", "real"].includes(this.attributes[a].kind))
      throw new Refusal(`'${attribute}' is not a number. Count its values instead.`);
    const { codes, boxes, notes: told } = this.#groups(where, by);
    const values = valuesOf(this.attributes[a]);
    const records = boxes.map((box) => (values.known ? times(box, new Map([[a, values.known]])) : box));
    const one = (box, measure) => {
      if (measure === "mean") return this.#mean(a, box, values);
      if (measure === "sum") return this.#sum(a, box, values);
      return this.#quantile(a, box, measure, boxes.length);
    };
    const found = measures.map((measure) => {
      const spans = records.map((box) => one(box, measure));
      const column = (key) => spans.map((span) => (Number.isFinite(span?.[key]) ? span[key] : null));
      return { estimate: column("estimate"), lower: column("lower"), upper: column("upper") };
    });
    return { codes, found, notes: told };
  }

  #mean(a, records, values) {
    const boxes = [new Map([...records, [a, values.times(records.get(a))]]), records];
    const sums = boxes.map((box) => this.#added((part) => part.estimate(box)));
    const value = ([x, n]) => (Math.abs(n) > 1e-9 ? x / n : NaN);
    const estimate = value(sums);
    if (Number.isNaN(estimate)) return null;
    const covariances = this.#covariances(boxes, [values.isCount, true]);
    const off = this.tail * Math.sqrt(deltaVariance(value, sums, covariances));
    return {
      estimate,
      lower: Math.min(Math.max(estimate - off, values.least), estimate),
      upper: Math.max(Math.min(estimate + off, values.greatest), estimate),
    };
  }

  #sum(a, records, values) {
    if (!(this.#added((part) => part.estimate(records)) > 1e-9)) return null;
    const { estimate, half } = this.#linear(new Map([...records, [a, values.times(records.get(a))]]));
    const floor = values.least >= 0 ? 0 : -Infinity;
    return {
      estimate,
      lower: Math.min(Math.max(estimate - half, floor), estimate),
      upper: Math.max(estimate + half, estimate),
    };
  }

  /**
   * A sum over a box, and half the width of its interval. records: the box of the records that it is about,
   * where what they add may be negative.
   */
  #linear(box, estimates = this.parts.map((part) => part.estimate(box)), records = null) {
    const variance = this.parts.reduce(
      (total, part, i) => total + part.variance(box, estimates[i], records),
      0,
    );
    return { estimate: estimates.reduce((x, y) => x + y, 0), half: this.tail * Math.sqrt(variance) };
  }

  /** nGroups: how many quantiles are looked for together. */
  #quantile(a, records, share, nGroups) {
    const attribute = this.attributes[a];
    const own = records.get(a);
    const kept = own === undefined ? null : dense(own, this.sizes[a]);
    const rest = without(records, a);
    const histograms = this.parts.map((part) => {
      const counts = part.estimates(a, rest, this.sizes[a]);
      return kept ? counts.map((count, code) => count * kept[code]) : counts;
    });
    const counts = histograms.reduce((total, counted) => total.map((count, code) => count + counted[code]));
    const estimate = quantileOf(counts.slice(0, attribute.nValues), attribute, share);
    if (Number.isNaN(estimate)) return null;
    // Records up to a code, less the quantile's share of all: 0 where the quantile lies.
    const ends = (last) => {
      const step = Float64Array.from({ length: this.sizes[a] }, (_, code) =>
        code >= attribute.nValues ? 0 : code <= last ? 1 - share : -share,
      );
      const f = kept ? step.map((value, code) => value * kept[code]) : step;
      f.open = null;
      const estimates = histograms.map((counted) =>
        counted.reduce((total, count, code) => total + count * step[code], 0),
      );
      const found = this.#linear(new Map([...rest, [a, f]]), estimates, records);
      return [found.estimate + found.half, found.estimate - found.half];
    };
    const [first, last] = codesAround(attribute.nValues, nGroups, ends);
    const { edges, kind } = attribute;
    return {
      estimate,
      lower: Math.min(edges[first], estimate),
      upper: Math.max(edges[last + 1] - Number(kind !== "real"), estimate),
    };
  }

  get hasBlocks() {
    return this.parts.some((part) => part instanceof Blocks);
  }

  #needMixture() {
    if (this.hasBlocks)
      throw new Refusal(
        "This page computes that of views made by the default method only. hdpview explore knows it of all.",
      );
  }

  /** The ratio of two counts, half the width of its interval, and whether the second may be 0. */
  #ratio(boxes) {
    return this.#ratioOf(
      this.parts.map((part) => ({
        sums: boxes.map((box) => part.estimate(box)),
        covariances: part.covariances(boxes),
      })),
    );
  }

  /**
   * The same from the two sums of every part, and the expected products of their errors. isCertain: whether
   * both are sums over the same records.
   */
  #ratioOf(parts, isCertain = false) {
    const add = (value) => parts.reduce((total, part) => total + value(part), 0);
    const sums = [0, 1].map((i) => add((part) => part.sums[i]));
    const covariances = [0, 1].map((i) => [0, 1].map((j) => add((part) => part.covariances[i][j])));
    const ratio = sums[1] > 1e-9 ? sums[0] / sums[1] : null;
    if (isCertain && ratio !== null) return { ratio, off: 0, unsafe: false };
    const off =
      ratio === null ? 0 : this.tail * Math.sqrt(deltaVariance(([x, y]) => x / y, sums, covariances));
    return {
      ratio,
      off,
      unsafe: ratio === null || sums[1] <= this.tail * Math.sqrt(Math.max(covariances[1][1], 0)),
    };
  }

  #covariances(boxes, isCount) {
    const products = this.parts.map((part) => part.covariances(boxes, isCount));
    return boxes.map((_, i) => boxes.map((__, j) => products.reduce((total, own) => total + own[i][j], 0)));
  }

  /** Two counts, their difference and their ratio; errors that both have in common cancel. */
  compare({ first, second }) {
    this.#needMixture();
    const sides = [this.count(first), this.count(second)];
    const boxes = [first, second].map((where) => this.#box(read(where, this.attributes)));
    const sums = sides.map(({ estimate }) => estimate);
    const difference = sums[0] - sums[1];
    const { ratio, off, unsafe } = this.#ratio(boxes);
    const apart = this.tail * Math.sqrt(deltaVariance(([x, y]) => x - y, sums, this.#covariances(boxes)));
    const interval = [Math.min(difference - apart, difference), Math.max(difference + apart, difference)];
    return {
      first: sides[0],
      second: sides[1],
      difference,
      difference_interval: interval,
      ratio,
      ratio_interval: unsafe ? [0, null] : [Math.max(ratio - off, 0), ratio + off],
      is_real: interval[0] > 0 || interval[1] < 0,
    };
  }

  /** How the records of two conditions share out over an attribute's values, and the differences. */
  shares({ first, second, attribute }) {
    this.#needMixture();
    const a = this.#number(attribute);
    const boxes = [first, second].map((where) => this.#box(read(where, this.attributes)));
    if (boxes.some((box) => box.has(a)))
      return {
        reason:
          `One of the two conditions is about '${attribute}' itself, so its shares say nothing ` +
          `new. Choose another attribute.`,
      };
    const found = Object.fromEntries(
      ["first", "second", "difference"].map((side) => [side, { estimate: [], lower: [], upper: [] }]),
    );
    for (const point of this.#points(a, new Map())) {
      const four = boxes.flatMap((box) => [new Map([...box, [a, point]]), box]);
      const sums = four.map((box) => this.#added((part) => part.estimate(box)));
      const products = this.#covariances(four);
      const put = (side, value, least) => {
        const estimate = value(sums);
        const half = this.tail * Math.sqrt(deltaVariance(value, sums, products));
        [estimate, estimate - half, estimate + half].forEach((end, i) =>
          found[side][["estimate", "lower", "upper"][i]].push(
            i ? clip(end, least) : Number.isFinite(end) ? end : null,
          ),
        );
      };
      put("first", (s) => ratioOf(s.slice(0, 2)), 0);
      put("second", (s) => ratioOf(s.slice(2)), 0);
      put("difference", (s) => ratioOf(s.slice(0, 2)) - ratioOf(s.slice(2)), -1);
    }
    return found;
  }
}
