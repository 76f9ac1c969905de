// Answers the page's requests from the released numbers alone, in the format of the server's answers.

import { cellOf, clip, deltaVariance, isPossible, ratioOf, times, without } from "./boxes.js";
import { Blocks, Mixture } from "./components.js";
import { Refusal, notes, reaching, read, shares } from "./conditions.js";
import { dense } from "./moments.js";
import { codesAround, quantileOf, valuesOf } from "./numbers.js";

const EXACT_CELLS = 3_000; // cells whose shares get exact intervals; these take about 0.3 s
const WIDENED = 1.5; // widens 95% intervals to 99.7%, because the clearest of many differences is selected

export class Engine {
  /** content: the data written by publish.py, with unpacked arrays. */
  constructor(content) {
    this.schema = content.schema;
    this.tail = content.tail;
    this.confidence = content.confidence;
    this.attributes = content.axes.map((axis, a) => ({
      ...content.schema.attributes[a], ...axis,
      size: axis.nValues + Number(content.schema.attributes[a].nullable),
    }));
    this.sizes = this.attributes.map(({ size }) => size);
    this.parts = content.parts.map((part) =>
      part.bounds ? new Blocks(part) : new Mixture(part, this.sizes),
    );
  }

  answer(path, body) {
    const answers = {
      "/api/views": () => [this.schema], "/api/schema": () => this.schema,
      "/api/count": () => this.count(body.where), "/api/histograms": () => this.histograms(body),
      "/api/pairs": () => this.pairs(body), "/api/compare": () => this.compare(body),
      "/api/shares": () => this.shares(body), "/api/statistics": () => this.statistics(body),
      "/api/association": () => this.association(body),
    };
    if (!answers[path]) throw new Refusal("This page cannot answer that. Use hdpview explore.");
    return answers[path]();
  }

  /** The box of some conditions; those that all records satisfy are left out. */
  #box(asked) {
    return new Map(
      [...asked]
        .map(([a, condition]) => [a, shares(this.attributes[a], condition)])
        .filter(([, f]) => f.some((value) => value !== 1)),
    );
  }

  /** The box of a condition, and its widest and narrowest boxes given that values are binned. */
  #boxes(where) {
    const asked = read(where, this.attributes);
    const ranges = (each) => String([...each.values()]);
    const box = this.#box(asked);
    const [sure, wide] = [false, true].map((isUpper) => {
      const other = reaching(asked, this.attributes, isUpper);
      return ranges(asked) === ranges(other) ? box : this.#box(other);
    });
    return { asked, box, wide, sure };
  }

  #number(name) {
    const a = this.attributes.findIndex((attribute) => attribute.name === name);
    if (a < 0) throw new Refusal(`Unknown attribute '${name}'.`);
    return a;
  }

  #ends(estimate, variance) {
    const width = this.tail * Math.sqrt(variance);
    return {
      estimate, lower: Math.min(Math.max(estimate - width, 0), estimate),
      upper: Math.max(Math.max(estimate + width, 0), estimate),
    };
  }

  #added(compute) {
    return this.parts.reduce((total, part) => total + compute(part), 0);
  }

  count(where) {
    const under = this.#boxes(where);
    const basis = this.parts.every((part) => part.rests(under.box)) ? "measured" : "model";
    return { ...this.#typical(under), basis, notes: notes(under.asked, this.attributes) };
  }

  #typical({ box, wide = box, sure = box }) {
    const span = (each) => this.#spanOfCount(each, this.parts.map((part) => part.estimate(each)));
    const own = span(box);
    const lower = sure === box ? own.lower : span(sure).lower;
    return { ...own, lower, upper: wide === box ? own.upper : span(wide).upper };
  }

  /** A count with its typical interval, from its estimates in the parts of the view. */
  #spanOfCount(box, estimates) {
    const variance = this.parts.reduce((total, part, i) => total + part.variance(box, estimates[i]), 0);
    return this.#ends(estimates.reduce((x, y) => x + y, 0), variance);
  }

  /**
   * Histograms with totals; for a rate or a mean also its values by bar and overall.
   * own: conditions that replace `where` for some attributes; groups: [first, last] code of each bar, for
   * some attributes; measure: { kind: "percent" }, { kind: "rate", attribute, code, missing: "out" or "no" }
   * or { kind: "mean", attribute }.
   */
  histograms({ where, own = {}, attributes = null, groups = {}, measure: asked = null }) {
    const histograms = {};
    const boxes = new Map();
    this.attributes.forEach(({ name }, a) => {
      if (attributes && !attributes.includes(name)) return;
      const text = Object.hasOwn(own, name) ? own[name] : where;
      if (!boxes.has(text)) boxes.set(text, this.#boxes(text));
      const bars = groups[name] ?? null;
      const under = boxes.get(text);
      histograms[name] = { ...this.#histogram(a, under, bars), total: this.#total(under) };
      if (asked) Object.assign(histograms[name], this.#measured(a, under, bars, asked));
    });
    if (!boxes.has(where)) boxes.set(where, this.#boxes(where));
    return {
      count: this.count(where), histograms,
      ...(asked?.attribute && this.#overall(boxes.get(where), asked)),
      filtered: [...read(where, this.attributes).keys()]
        .sort((x, y) => x - y)
        .map((a) => this.attributes[a].name),
      confidence: this.confidence,
    };
  }

  /** The count under a condition, computed once for all charts. */
  #total(under) {
    under.total ??= this.#typical(under);
    return under.total;
  }

  /** A measure by an attribute and overall; shares if the attribute is itself the measured one. */
  #measured(a, under, groups, { kind, attribute, code, missing }) {
    if (kind === "records") return {};
    if (kind === "percent") this.#needMixture();
    const m = kind === "percent" ? a : this.#number(attribute);
    if (m === a) return { share: this.#valueShares(a, under, groups) };
    const cells = this.#cells(a, under.box, groups);
    const rest = without(under.box, a);
    const boxes = cells.map(({ f }) => new Map([...rest, [a, f]]));
    const spans = boxes.map(this.#spanOf({ kind, attribute, code, missing }));
    const column = (end) => spans.map((each) => each?.[end] ?? null);
    return {
      value: { estimate: column("estimate"), lower: column("lower"), upper: column("upper") },
      ...this.#overall(under, { kind, attribute, code, missing }),
    };
  }

  /** A function that computes a rate or a mean of the records in a box. */
  #spanOf({ kind, attribute, code, missing }) {
    this.#needMixture();
    const m = this.#number(attribute);
    return kind === "mean" ? this.#meanIn(m) : this.#rateIn(m, code, missing === "no");
  }

  /** A rate or a mean under a condition, and the count of records without a value, computed once. */
  #overall(under, measure) {
    under.overall ??= {
      overall: this.#spanOf(measure)(under.box),
      leftOut: measure.missing === "no" ? null : this.#missing(this.#number(measure.attribute), under.box),
    };
    return under.overall;
  }

  /** Count of records in a box in which an attribute is missing; null if it cannot be missing. */
  #missing(m, box) {
    if (!this.attributes[m].nullable) return null;
    const f = new Float64Array(this.sizes[m]);
    f[this.attributes[m].nValues] = 1;
    f.condition = "missing";
    const missing = times(box, new Map([[m, f]]));
    return isPossible(missing) ? this.#typical({ box: missing }) : null;
  }

  /** A function that computes the rate of a value among all records of a box or those with a known value. */
  #rateIn(m, code, ofAll) {
    const value = Float64Array.from({ length: this.sizes[m] }, (_, each) => Number(each === code));
    const known = Float64Array.from(value, (_, each) => Number(ofAll || each < this.attributes[m].nValues));
    value.condition = "value";
    known.condition = "known";
    return (box) => {
      const all = known.every((each) => each === 1) ? box : times(box, new Map([[m, known]]));
      const { ratio, off } = this.#ratio([times(box, new Map([[m, value]])), all]);
      if (ratio === null) return null;
      return { estimate: ratio, lower: Math.max(ratio - off, 0), upper: Math.min(ratio + off, 1) };
    };
  }

  #meanIn(m) {
    const values = valuesOf(this.attributes[m]);
    return (box) => this.#mean(m, values.known ? times(box, new Map([[m, values.known]])) : box, values);
  }

  /** One point per code of an attribute, with the values of the box. */
  #points(a, box) {
    return Array.from({ length: this.sizes[a] }, (_, code) => ({
      code, value: box.get(a)?.[code] ?? 1, condition: box.get(a)?.condition,
    }));
  }

  /** The bars of a chart, each with its function and codes. groups: [first, last] code of each bar. */
  #cells(a, box, groups) {
    const points = this.#points(a, box);
    if (!groups) return points.map((f) => ({ f, codes: [f.code] }));
    return groups.map(([first, last]) => {
      if (first === last) return { f: points[first], codes: [first] };
      const codes = Array.from({ length: last - first + 1 }, (_, i) => first + i);
      const f = new Float64Array(this.sizes[a]);
      for (const code of codes) f[code] = points[code].value;
      f.condition = `${box.get(a)?.condition ?? "all"} at ${first} to ${last}`;
      return { f, codes };
    });
  }

  #histogram(a, { box, wide, sure }, groups = null) {
    const columns = this.#column(a, box, wide, groups);
    for (const [other, key] of [[sure, "lower"], [wide, "upper"]])
      if (other !== box) columns[key] = this.#column(a, other, wide, groups)[key];
    return columns;
  }

  /** The share of each bar in the records of a box. */
  #valueShares(a, { box, wide }, groups = null) {
    const columns = { estimate: [], lower: [], upper: [] };
    const reach = this.#points(a, wide);
    const cells = this.#cells(a, box, groups);
    const isReached = ({ codes }) => codes.some((code) => reach[code].value > 0);
    const nPossible = isPossible(without(wide, a)) ? cells.filter(isReached).length : 0;
    for (const cell of cells) {
      const f = cell.f instanceof Float64Array ? cell.f : cellOf(cell.f, box.get(a));
      const own = new Map([...without(box, a), [a, f]]);
      const { ratio, off } =
        nPossible && isReached(cell)
          ? this.#ratio([own, box], nPossible === 1)
          : { ratio: 0, off: 0 };
      columns.estimate.push(ratio);
      columns.lower.push(ratio === null ? null : Math.max(ratio - off, 0));
      columns.upper.push(ratio === null ? null : Math.min(ratio + off, 1));
    }
    return columns;
  }

  /** A histogram under a box; 0 for values that are impossible even under the wider box. */
  #column(a, box, wide, groups) {
    const rest = without(box, a);
    const columns = { estimate: [], lower: [], upper: [] };
    const reach = this.#points(a, wide);
    const points = this.#points(a, box);
    const known = this.parts.map((part) => part.estimates(a, rest, this.sizes[a]));
    const possible = isPossible(without(wide, a));
    for (const { f, codes } of this.#cells(a, box, groups))
      this.#put(
        columns, possible && codes.some((code) => reach[code].value > 0), new Map([...rest, [a, f]]),
        known.map((own) => codes.reduce((total, code) => total + own[code] * points[code].value, 0)),
      );
    return columns;
  }

  #put(columns, possible, box, estimates) {
    const span = possible ? this.#spanOfCount(box, estimates) : { estimate: 0, lower: 0, upper: 0 };
    for (const key of Object.keys(columns)) columns[key].push(span[key]);
  }

  /** Counts of a grid, rows by `first`. whole: "row", "column" or "all" adds shares of that whole. */
  pairs({ where, first, second, whole = null }) {
    const [a, b] = [this.#number(first), this.#number(second)];
    const { asked, box, wide, sure } = this.#boxes(where);
    if (a === b) throw new Refusal("Name two different attributes.");
    const grid = this.#grid(a, b, box, wide);
    for (const [other, key] of [[sure, "lower"], [wide, "upper"]])
      if (other !== box) grid[key] = this.#grid(a, b, other, wide)[key];
    if (!whole) return { ...grid, notes: notes(asked, this.attributes) };
    const under = { box, wide, sure };
    const [rows, columns] = [a, b].map((each) => this.#histogram(each, under));
    // A part's lower end never exceeds that of its whole.
    const { lower: least } = this.#total(under);
    grid.lower = grid.lower.map((row, i) =>
      row.map((low, j) => Math.min(low, rows.lower[i], columns.lower[j], least)),
    );
    const share = whole === "records" || this.#cellShares(a, b, under, grid, whole, rows, columns);
    return { ...grid, ...(share !== true && { share }), notes: notes(asked, this.attributes) };
  }

  /**
   * Shares of cells in their row, their column or all. In large grids the intervals follow from those of the
   * cell and its whole, which is fast and conservative.
   */
  #cellShares(a, b, under, grid, whole, rows, columns) {
    const wholes = { row: (i) => [rows, i], column: (_, j) => [columns, j], all: () => [null, 0] }[whole];
    const all = this.#total(under);
    const isQuick = this.sizes[a] * this.sizes[b] > EXACT_CELLS || this.hasBlocks;
    const [down, across] = [a, b].map((each) => this.#points(each, under.box));
    const part = (i, j) => {
      const rest = without(under.box, a, b);
      const box = new Map([...rest, [a, down[i]], [b, across[j]]]);
      const around = { row: [[a, down[i]]], column: [[b, across[j]]], all: [] }[whole];
      return [box, new Map([...under.box, ...around])];
    };
    const one = (i, j) => {
      const [column, k] = wholes(i, j);
      const of = column
        ? { estimate: column.estimate[k], upper: column.upper[k], lower: column.lower[k] }
        : all;
      const isEmpty = !(of.estimate > 1e-9);
      if (isEmpty || grid.upper[i][j] <= 0) return [0, 0, Number(isEmpty)];
      const estimate = Math.min(1, Math.max(0, grid.estimate[i][j]) / of.estimate);
      if (isQuick)
        return [
          estimate, Math.min(estimate, Math.max(0, grid.lower[i][j] / Math.max(of.upper, 1e-9))),
          Math.max(estimate, of.lower > 0 ? Math.min(1, grid.upper[i][j] / of.lower) : 1),
        ];
      const { off } = this.#ratio(part(i, j));
      return [estimate, Math.max(0, estimate - off), Math.min(1, estimate + off)];
    };
    const spans = grid.estimate.map((row, i) => row.map((_, j) => one(i, j)));
    const side = (k) => spans.map((row) => row.map((span) => span[k]));
    return { estimate: side(0), lower: side(1), upper: side(2) };
  }

  #grid(a, b, box, wide) {
    const rest = without(box, a, b);
    const possible = isPossible(without(wide, a, b));
    const reach = [a, b].map((each) => this.#points(each, wide));
    const ofParts = this.parts.map((part) => part.grid(a, b, rest, this.sizes));
    const across = this.#points(b, box);
    const grid = { estimate: [], lower: [], upper: [] };
    for (const down of this.#points(a, box)) {
      const columns = { estimate: [], lower: [], upper: [] };
      for (const point of across) {
        const value = down.value * point.value;
        this.#put(
          columns, reach[0][down.code].value * reach[1][point.code].value > 0 && possible,
          new Map([...rest, [a, down], [b, point]]), ofParts.map((own) => own[down.code][point.code] * value),
        );
      }
      for (const key of Object.keys(columns)) grid[key].push(columns[key]);
    }
    return grid;
  }

  /**
   * Statistics of a numeric attribute. measures: "mean", or a quantile's share such as 0.5 for the median.
   * Each result is a span, or null if there are no records.
   */
  statistics({ where, attribute, measures }) {
    this.#needMixture();
    const a = this.#number(attribute);
    if (!["integer", "real"].includes(this.attributes[a].kind))
      throw new Refusal(`'${attribute}' is not a number. Count its values instead.`);
    const { asked, box } = this.#boxes(where);
    const values = valuesOf(this.attributes[a]);
    const records = values.known ? times(box, new Map([[a, values.known]])) : box;
    const spanOf = (measure) =>
      measure === "mean" ? this.#mean(a, records, values) : this.#quantile(a, records, measure);
    return { spans: measures.map(spanOf), notes: notes(asked, this.attributes) };
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
      estimate, lower: Math.min(Math.max(estimate - off, values.least), estimate),
      upper: Math.max(Math.min(estimate + off, values.greatest), estimate),
    };
  }

  /** A sum over a box and its interval's half width. records: their box, if values can be negative. */
  #linear(box, estimates = this.parts.map((part) => part.estimate(box)), records = null) {
    const add = (total, part, i) => total + part.variance(box, estimates[i], records);
    const variance = this.parts.reduce(add, 0);
    return { estimate: estimates.reduce((x, y) => x + y, 0), half: this.tail * Math.sqrt(variance) };
  }

  #quantile(a, records, share) {
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
    // Records up to a code, minus the quantile's share of all records: 0 at the quantile.
    const ends = (last) => {
      const step = Float64Array.from({ length: this.sizes[a] }, (_, code) =>
        code >= attribute.nValues ? 0 : code <= last ? 1 - share : -share,
      );
      const f = kept ? step.map((value, code) => value * kept[code]) : step;
      f.open = null;
      const estimates = histograms.map((counted) =>
        counted.reduce((total, count, code) => total + count * step[code], 0),
      );
      const { estimate: middle, half } = this.#linear(new Map([...rest, [a, f]]), estimates, records);
      return [middle + half, middle - half];
    };
    const [first, last] = codesAround(attribute.nValues, ends);
    const { edges, kind } = attribute;
    return {
      estimate, lower: Math.min(edges[first], estimate),
      upper: Math.max(edges[last + 1] - Number(kind !== "real"), estimate),
    };
  }

  get hasBlocks() {
    return this.parts.some((part) => part instanceof Blocks);
  }

  #needMixture() {
    if (this.hasBlocks)
      throw new Refusal(
        "This page can compute this only for views built by the default method. Use hdpview explore.",
      );
  }

  /**
   * The ratio of two counts, its interval's half width, and whether the second count may be 0.
   * isCertain: both count the same records.
   */
  #ratio(boxes, isCertain = false) {
    const sums = boxes.map((box) => this.#added((part) => part.estimate(box)));
    const ratio = sums[1] > 1e-9 ? sums[0] / sums[1] : null;
    if (isCertain && ratio !== null) return { ratio, off: 0, unsafe: false };
    const covariances = this.#covariances(boxes);
    const off =
      ratio === null ? 0 : this.tail * Math.sqrt(deltaVariance(([x, y]) => x / y, sums, covariances));
    return {
      ratio, off, unsafe: ratio === null || sums[1] <= this.tail * Math.sqrt(Math.max(covariances[1][1], 0)),
    };
  }

  #covariances(boxes, isCount) {
    const products = this.parts.map((part) => part.covariances(boxes, isCount));
    return boxes.map((_, i) => boxes.map((__, j) => products.reduce((total, own) => total + own[i][j], 0)));
  }

  /** Two counts, their difference and their ratio. Errors shared by both counts cancel. */
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
      first: sides[0], second: sides[1], difference, difference_interval: interval, ratio,
      ratio_interval: unsafe ? [0, null] : [Math.max(ratio - off, 0), ratio + off],
      is_real: interval[0] > 0 || interval[1] < 0,
    };
  }

  /**
   * Breakdown of two conditions' records by an attribute, and the differences. With two possible values, the
   * second mirrors the first.
   */
  shares({ first, second, attribute, groups = null }) {
    this.#needMixture();
    const a = this.#number(attribute);
    const boxes = [first, second].map((where) => this.#box(read(where, this.attributes)));
    if (boxes.some((box) => box.has(a)))
      return {
        reason:
          `One of the two conditions already restricts '${attribute}', so its shares are not compared. ` +
          "Choose another attribute.",
      };
    const answer = Object.fromEntries(
      ["first", "second", "difference"].map((side) => [side, { estimate: [], lower: [], upper: [] }]),
    );
    const cells = this.#cells(a, new Map(), groups);
    const mirrored = cells.length === 2;
    for (const { f } of mirrored ? cells.slice(0, 1) : cells)
      for (const [side, span] of Object.entries(this.#contrast(boxes, a, f)))
        ["estimate", "lower", "upper"].forEach((end, i) => answer[side][end].push(span[i]));
    if (mirrored)
      for (const [side, { estimate, lower, upper }] of Object.entries(answer)) {
        const mirror = (end) => (end === null ? null : side === "difference" ? -end : 1 - end);
        const [middle, low, high] = [mirror(estimate[0]), mirror(upper[0]), mirror(lower[0])];
        estimate.push(middle);
        lower.push(low);
        upper.push(high);
      }
    return answer;
  }

  /** A value's share in each of two boxes, and the difference, each as [estimate, lower, upper]. */
  #contrast(boxes, a, f) {
    const four = boxes.flatMap((box) => [new Map([...box, [a, f]]), box]);
    const sums = four.map((box) => this.#added((part) => part.estimate(box)));
    const products = this.#covariances(four);
    const span = (value, least) => {
      const estimate = value(sums);
      const half = this.tail * Math.sqrt(deltaVariance(value, sums, products));
      const ends = [estimate - half, estimate + half].map((end) => clip(end, least));
      return [Number.isFinite(estimate) ? estimate : null, ...ends];
    };
    return {
      first: span((s) => ratioOf(s.slice(0, 2)), 0), second: span((s) => ratioOf(s.slice(2)), 0),
      difference: span((s) => ratioOf(s.slice(0, 2)) - ratioOf(s.slice(2)), -1),
    };
  }

  /**
   * Total variation distance between an attribute's distributions in two groups: the share of records that
   * would have to change their value. The lower end counts only clear differences; intervals are widened
   * because the clearest of many values are selected.
   */
  association({ first, second, attribute, groups = null }) {
    const { reason, difference } = this.shares({ first, second, attribute, groups });
    if (reason) return { reason };
    const spans = difference.estimate.map((estimate, i) => ({
      estimate: estimate ?? 0,
      low: (estimate ?? 0) - WIDENED * ((estimate ?? 0) - (difference.lower[i] ?? -1)),
      high: (estimate ?? 0) + WIDENED * ((difference.upper[i] ?? 1) - (estimate ?? 0)),
    }));
    const added = (value) => spans.reduce((total, span) => total + Math.max(0, value(span)), 0);
    const largest = spans.reduce((best, span, i) =>
      Math.abs(span.estimate) > Math.abs(spans[best].estimate) ? i : best, 0);
    return {
      estimate: added(({ estimate }) => Math.abs(estimate)) / 2,
      lower: Math.max(added(({ low }) => low), added(({ high }) => -high)),
      upper: Math.min(1, Math.max(added(({ high }) => high), added(({ low }) => -low))), largest,
    };
  }
}
