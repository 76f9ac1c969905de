// Parser of simple SQL conditions, equivalent to hdpview/query/question/conditions.py.
//
// The condition on one attribute is { ranges, codes, null }: half-open ranges on an ordered axis or a set of
// codes, and whether missing values satisfy it.

const MAX_NAMED = 3; // bins that a note names
const SLIVER = 1e-9; // share of a bin; a value closer to an edge counts as the edge
const GRAIN = 2 ** 36; // shares of cut bins are rounded to multiples of 1 / GRAIN, as in Python
export const LEAST = 2 ** -20; // smallest share of a cut bin, and smallest distance from 1
// Tokens: a quoted name, a string, a number, a word, or an operator.
const KINDS = [
  /("(?:[^"]|"")*")/, /('(?:[^']|'')*')/, /(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)/,
  /([\p{L}_][\p{L}\p{N}_]*)/u, /(<=|>=|<>|!=|[=<>(),+-])/,
];
const TOKEN = new RegExp(`\\s*(?:${KINDS.map((kind) => kind.source).join("|")})`, "iuy");
const WORDS = new Set([
  "AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "TRUE", "FALSE", "DATE", "TIMESTAMP",
]);

export class Refusal extends Error {}

const fail = (words) => {
  throw new Refusal(words);
};

function tokens(text) {
  const all = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.trimEnd().length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) fail(`Cannot read the condition from here on: ${text.slice(at, at + 40)}`);
    const [, quoted, string, number, word, sign] = match;
    if (quoted) all.push({ name: quoted.slice(1, -1).replaceAll('""', '"') });
    else if (string) all.push({ value: string.slice(1, -1).replaceAll("''", "'") });
    else if (number) all.push({ value: Number(number) });
    else if (word) all.push(WORDS.has(word.toUpperCase()) ? { word: word.toUpperCase() } : { name: word });
    else all.push({ word: sign });
  }
  return all;
}

/** Parse a condition into a Map from attribute number to its condition; empty if it accepts all records. */
export function read(text, attributes) {
  return text === null || text === undefined || !text.trim()
    ? new Map()
    : new Reader(text, attributes).whole();
}

class Reader {
  constructor(text, attributes) {
    this.tokens = tokens(text);
    this.at = 0;
    this.attributes = attributes;
  }

  whole() {
    const conditions = this.either();
    if (this.at < this.tokens.length)
      fail(
        `Syntax error ${this.#shown()}. This page supports comparisons, BETWEEN, IN and IS NULL, joined ` +
          "by AND.",
      );
    return conditions;
  }

  either() {
    let one = this.both();
    while (this.#took("OR")) {
      const other = this.both();
      if (one.size !== 1 || other.size !== 1 || [...one.keys()][0] !== [...other.keys()][0])
        fail("On this page, OR joins conditions on one attribute only. Use hdpview explore for others.");
      const [a] = one.keys();
      one = new Map([[a, union(one.get(a), other.get(a))]]);
    }
    return one;
  }

  both() {
    const all = this.not();
    while (this.#took("AND"))
      for (const [a, condition] of this.not())
        all.set(a, all.has(a) ? common(all.get(a), condition) : condition);
    return all;
  }

  not() {
    if (!this.#took("NOT")) return this.simple();
    const negated = this.not();
    if (negated.size !== 1)
      fail("On this page, NOT negates a condition on one attribute only. Use hdpview explore for others.");
    const [[a, condition]] = negated;
    const isNull = condition.null && !condition.ranges.length && !condition.codes.size;
    const attribute = this.attributes[a];
    return new Map([[a, isNull ? everything(attribute) : complement(attribute, condition)]]);
  }

  simple() {
    if (this.#took("(")) {
      const inner = this.either();
      this.#need(")");
      return inner;
    }
    const a = this.#attribute();
    const attribute = this.attributes[a];
    if (this.#took("IS")) {
      const not = this.#took("NOT");
      this.#need("NULL");
      const none = { ranges: [], codes: new Set(), null: attribute.nullable };
      return new Map([[a, not ? everything(attribute) : none]]);
    }
    const not = this.#took("NOT");
    let condition = null;
    if (this.#took("BETWEEN")) {
      const low = this.#literal();
      this.#need("AND");
      condition = common(compare(attribute, ">=", low), compare(attribute, "<=", this.#literal()));
    } else if (this.#took("IN")) {
      this.#need("(");
      condition = compare(attribute, "=", this.#literal());
      while (this.#took(",")) condition = union(condition, compare(attribute, "=", this.#literal()));
      this.#need(")");
    } else {
      const sign = ["=", "!=", "<>", "<", "<=", ">", ">="].find((each) => this.#took(each));
      if (!sign && attribute.kind === "boolean") return new Map([[a, compare(attribute, "=", true)]]);
      if (!sign) fail(`Write a comparison after ${attribute.name}, such as = or BETWEEN.`);
      condition = compare(attribute, sign === "<>" ? "!=" : sign, this.#literal());
    }
    return new Map([[a, not ? complement(attribute, condition) : condition]]);
  }

  #attribute() {
    const { name } = this.tokens[this.at] ?? {};
    if (name === undefined) fail(`Expected an attribute's name ${this.#shown()}.`);
    const names = this.attributes.map((each) => each.name);
    const exact = names.indexOf(name);
    const a = exact >= 0 ? exact : names.findIndex((each) => each.toLowerCase() === name.toLowerCase());
    if (a < 0) fail(`Unknown attribute '${name}'. This view has: ${names.join(", ")}.`);
    this.at += 1;
    return a;
  }

  #literal() {
    const minus = this.#took("-");
    if (!minus) this.#took("+");
    if (this.#took("TRUE")) return true;
    if (this.#took("FALSE")) return false;
    if (!this.#took("DATE")) this.#took("TIMESTAMP");
    const { value } = this.tokens[this.at] ?? {};
    if (value === undefined) fail(`Expected a value ${this.#shown()}.`);
    this.at += 1;
    return minus ? -value : value;
  }

  #took(word) {
    const is = this.tokens[this.at]?.word === word;
    this.at += Number(is);
    return is;
  }
  #need(word) {
    if (!this.#took(word)) fail(`Expected ${word} ${this.#shown()}.`);
  }
  #shown() {
    const token = this.tokens[this.at];
    return token ? `at “${token.word ?? token.name ?? token.value}”` : "at the end";
  }
}

const everything = (attribute) => ({
  ranges: attribute.edges ? [[-Infinity, Infinity]] : [],
  codes: new Set(attribute.edges ? [] : Array.from({ length: attribute.nValues }, (_, i) => i)), null: false,
});

function complement(attribute, condition) {
  const ends = [-Infinity, ...condition.ranges.flat(), Infinity];
  const ranges = [];
  if (attribute.edges)
    for (let i = 0; i < ends.length; i += 2) if (ends[i] < ends[i + 1]) ranges.push([ends[i], ends[i + 1]]);
  return {
    ranges, codes: new Set([...everything(attribute).codes].filter((code) => !condition.codes.has(code))),
    null: false,
  };
}

/** Ranges in order, without empty ones, merged where they meet. */
function tidy(ranges) {
  const merged = [];
  for (const [low, high] of ranges.filter((range) => range[0] < range[1]).sort((x, y) => x[0] - y[0])) {
    if (merged.length && low <= merged.at(-1)[1]) merged.at(-1)[1] = Math.max(high, merged.at(-1)[1]);
    else merged.push([low, high]);
  }
  return merged;
}

const union = (one, other) => ({
  ranges: tidy([...one.ranges, ...other.ranges]), codes: new Set([...one.codes, ...other.codes]),
  null: one.null || other.null, midnight: one.midnight ?? other.midnight,
});
const common = (one, other) => ({
  ranges: tidy(
    one.ranges.flatMap(([low, high]) =>
      other.ranges.map((range) => [Math.max(low, range[0]), Math.min(high, range[1])]),
    ),
  ),
  codes: new Set([...one.codes].filter((code) => other.codes.has(code))),
  null: one.null && other.null,
  midnight: one.midnight ?? other.midnight,
});

function compare(attribute, sign, value) {
  if (!attribute.edges) {
    if (!["=", "!="].includes(sign))
      fail(
        `'${attribute.name}' has no order, so ${sign} has no meaning for it. Use = or IN with its values.`,
      );
    const condition = { ranges: [], codes: new Set([codeOf(attribute, value)]), null: false };
    return sign === "=" ? condition : complement(attribute, condition);
  }
  const [at, after] = places(attribute, value);
  const range = {
    "=": [at, after], "<": [-Infinity, at], "<=": [-Infinity, after], ">": [after, Infinity],
    ">=": [at, Infinity],
  }[sign];
  if (attribute.kind === "real" && ["=", "!="].includes(sign))
    fail(
      `'${attribute.name}' is a real number counted in bins, so a single value cannot be counted. Use a ` +
        "range, with BETWEEN.",
    );
  const apart = [[-Infinity, at], [after, Infinity]];
  return {
    ranges: tidy(sign === "!=" ? apart : [range]), codes: new Set(), null: false,
    // With these signs a reader may expect the whole day, so a note explains that a date means midnight.
    midnight: ["=", "<=", ">"].includes(sign) && isDate(attribute, value) ? String(value) : undefined,
  };
}

function codeOf(attribute, value) {
  if (attribute.kind === "boolean") {
    const code = [false, true].indexOf(
      typeof value === "string" ? { false: false, true: true }[value.toLowerCase()] : value,
    );
    return code >= 0 ? code : fail(`'${attribute.name}' is true or false, not ${value}.`);
  }
  const code = attribute.labels.slice(0, attribute.nValues).indexOf(String(value));
  return code >= 0 ? code : fail(`Unknown value '${value}' of '${attribute.name}'.`);
}

/** Start of the values >= a literal, and start of the values > it, on the axis of the attribute. */
function places(attribute, value) {
  const at = attribute.kind === "datetime" ? microseconds(attribute, value) : value;
  if (typeof at !== "number") fail(`'${attribute.name}' is compared with a number, not with '${value}'.`);
  if (attribute.kind !== "real") return [Math.ceil(at), Math.floor(at) + 1];
  return [at === attribute.edges.at(-1) ? next(at, -1) : at, next(at, 1)];
}

const isDate = ({ kind }, value) => kind === "datetime" && /^\d{4}-\d\d-\d\d$/.test(value);

function microseconds(attribute, value) {
  const parts = /^(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?$/.exec(value);
  if (!parts)
    fail(`'${attribute.name}' is compared with a date such as DATE '2024-01-31', not with '${value}'.`);
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map((part) => Number(part ?? 0));
  return (
    Date.UTC(year, month - 1, day, hour, minute, second) * 1000 + Number((parts[7] ?? "").padEnd(6, "0"))
  );
}

/** The neighbouring double above or below. */
function next(x, direction) {
  if (x === 0) return direction * Number.MIN_VALUE;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  view.setBigInt64(0, view.getBigInt64(0) + (x > 0 === direction > 0 ? 1n : -1n));
  return view.getFloat64(0);
}

/** Share of each code that satisfies a condition: 1, 0, or the fraction of a bin that it cuts. */
export function shares(attribute, condition) {
  const share = new Float64Array(attribute.size + 1);
  const cut = new Set();
  for (const code of condition.codes) share[code] = 1;
  for (const [start, end] of condition.ranges) {
    const [i, belowStart, cutsStart] = binOf(attribute, start);
    const [j, belowEnd, cutsEnd] = binOf(attribute, end);
    for (let code = i; code < j; code++) share[code] += 1;
    share[i] -= belowStart;
    share[j] += belowEnd;
    if (cutsStart) cut.add(i);
    if (cutsEnd) cut.add(j);
  }
  for (const i of cut)
    if (i < attribute.size)
      share[i] = Math.round(Math.min(Math.max(share[i], LEAST), 1 - LEAST) * GRAIN) / GRAIN;
  if (condition.null && attribute.nullable) share[attribute.nValues] = 1;
  const whole = share.slice(0, attribute.size);
  whole.condition = JSON.stringify([condition.ranges.flat().map(String), condition.null]);
  return whole;
}

/** The bin of a value, the share of the bin below the value, and whether the value cuts the bin. */
function binOf({ edges, nValues }, place) {
  let low = 0;
  let high = edges.length; // the first edge above the value lies in [low, high]
  while (low < high) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= place) low = middle + 1;
    else high = middle;
  }
  const i = low - 1;
  return i < 0 || i >= nValues
    ? [Math.max(i, 0), 0, false]
    : [i, (place - edges[i]) / (edges[i + 1] - edges[i]), place > edges[i]];
}

/**
 * The widest (isUpper) or narrowest conditions that records in the same bins can satisfy. Values beyond the
 * bounds lie in the outer bins, so the widest condition includes a bin that a range touches.
 */
export function reaching(asked, attributes, isUpper) {
  return new Map([...asked].map(([a, condition]) => {
    const ranges = condition.ranges.map((each) => reached(attributes[a], each, isUpper));
    return [a, { ...condition, ranges: attributes[a].edges ? tidy(ranges) : [] }];
  }));
}

function reached(attribute, [start, end], isUpper) {
  const { edges, nValues } = attribute;
  const [low, high] = [edges[0], edges.at(-1)];
  const [[i, below, cutsStart], [j, belowEnd, cutsEnd]] = [binOf(attribute, start), binOf(attribute, end)];
  if (start >= high) return isUpper ? edges.slice(-2) : [start, end];
  if (end <= low) return isUpper ? edges.slice(0, 2) : [start, end];
  if (i === j && i < nValues && (cutsStart || cutsEnd)) return isUpper ? [edges[i], edges[i + 1]] : [0, 0];
  const besideEdge = (cuts, share) => cuts && Math.min(share, 1 - share) < SLIVER;
  const least = besideEdge(cutsStart, below) ? edges[isUpper ? i : i + 1] : start;
  return [least, besideEdge(cutsEnd, belowEnd) ? edges[isUpper ? j + 1 : j] : end];
}

/** Notes on conditions that ask for values beyond the bounds or “other”, cut bins or name midnight. */
export function notes(asked, attributes) {
  return [...asked].flatMap(([a, { ranges, codes, midnight }]) => {
    const { name, edges, note, other, labels } = attributes[a];
    const meets = edges
      ? ranges.some(([start, end]) => start >= edges.at(-1) || end <= edges[0])
      : other !== null && codes.size === 1 && codes.has(other);
    const cut = edges ? [...new Set(ranges.flat().map((place) => cutBin(attributes[a], place)))] : [];
    const bins = cut.filter((bin) => bin !== null).sort((x, y) => x - y);
    const more = bins.length > MAX_NAMED ? ` and ${bins.length - MAX_NAMED} more` : "";
    const shown = bins.slice(0, MAX_NAMED).map((bin) => labels[bin]).join(", ");
    return [
      meets ? note : null,
      bins.length
        ? `The condition cuts bins of ${name} (${shown}${more}); the view has one count per bin, so the ` +
          "interval allows for uneven halves. Whole bins have narrower intervals."
        : null,
      midnight ? `'${midnight}' means midnight at the start of that day.` : null,
    ].filter(Boolean);
  });
}

/** The bin that a value cuts, or null. */
function cutBin(attribute, place) {
  if (!Number.isFinite(place) || place >= attribute.edges.at(-1)) return null;
  const [bin, , isInside] = binOf(attribute, place);
  return isInside ? bin : null;
}
