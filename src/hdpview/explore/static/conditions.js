// Parser of simple SQL conditions, equivalent to hdpview/query/question/conditions.py.
//
// The condition on one attribute is a list of half-open ranges of places. Code c takes the places from
// c * BIN to below (c + 1) * BIN, values beyond the bounds lie around all codes, missing ones below LOWEST.

const MAX_NAMED = 3; // bins that a note names
const BIN = 2 ** 36; // places per bin
const SLIVER = 2 ** 16; // places; smallest distance of a cut from the edges of its bin
export const LEAST = SLIVER / BIN; // the same as a share
const LOWEST = -Number.MAX_VALUE; // where values begin
const DAY = 86_400_000_000; // microseconds
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
    this.midnights = new Map(); // attribute -> a date that means midnight
  }

  whole() {
    const conditions = this.either();
    conditions.midnights = this.midnights;
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
    const isNull = condition.length === 1 && condition[0][1] <= LOWEST;
    return new Map([[a, isNull ? EVERYTHING : complement(condition)]]);
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
      const none = attribute.nullable ? [[-Infinity, LOWEST]] : [];
      return new Map([[a, not ? EVERYTHING : none]]);
    }
    const not = this.#took("NOT");
    let condition = null;
    if (this.#took("BETWEEN")) {
      const low = this.#literal();
      this.#need("AND");
      condition = common(this.#compare(a, ">=", low), this.#compare(a, "<=", this.#literal()));
    } else if (this.#took("IN")) {
      this.#need("(");
      condition = this.#compare(a, "=", this.#literal());
      while (this.#took(",")) condition = union(condition, this.#compare(a, "=", this.#literal()));
      this.#need(")");
    } else {
      const sign = ["=", "!=", "<>", "<", "<=", ">", ">="].find((each) => this.#took(each));
      if (!sign && attribute.kind === "boolean") return new Map([[a, this.#compare(a, "=", true)]]);
      if (!sign) fail(`Write a comparison after ${attribute.name}, such as = or BETWEEN.`);
      condition = this.#compare(a, sign === "<>" ? "!=" : sign, this.#literal());
    }
    return new Map([[a, not ? complement(condition) : condition]]);
  }

  #compare(a, sign, value) {
    const attribute = this.attributes[a];
    // With these signs a reader may expect the whole day, so a note explains that a date means midnight.
    const isMidnight = ["=", "<=", ">"].includes(sign) && isDate(attribute, value) && !countsDays(attribute);
    if (isMidnight) this.midnights.set(a, value);
    return compare(attribute, sign, value);
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

const EVERYTHING = [[LOWEST, Infinity]]; // all values that are not missing

/** All other values that are not missing. */
function complement(ranges) {
  const ends = [-Infinity, ...ranges.flat(), Infinity];
  const others = ends.flatMap((end, i) => (i % 2 ? [] : [[end, ends[i + 1]]]));
  return common(others, EVERYTHING);
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

const union = (one, other) => tidy([...one, ...other]);
const common = (one, other) =>
  tidy(
    one.flatMap(([low, high]) => other.map((range) => [Math.max(low, range[0]), Math.min(high, range[1])])),
  );

/** The range of one code. The outer bins also count all values beyond them. */
const ofCode = ({ nValues }, code) => [
  code ? code * BIN : LOWEST, code + 1 < nValues ? (code + 1) * BIN : Infinity,
];

function compare(attribute, sign, value) {
  const isSingle = ["=", "!="].includes(sign);
  if (!attribute.edges && !isSingle)
    fail(
      `'${attribute.name}' has no order, so ${sign} has no meaning for it. Use = or IN with its values.`,
    );
  const [at, after] = places(attribute, value);
  if (attribute.kind === "real" && isSingle)
    fail(
      `'${attribute.name}' is a real number counted in bins, so a single value cannot be counted. Use a ` +
        "range, with BETWEEN.",
    );
  const start = { ">": after, "<": LOWEST, "<=": LOWEST }[sign] ?? at;
  const ranges = tidy([[start, { "<": at, ">": Infinity, ">=": Infinity }[sign] ?? after]]);
  return sign === "!=" ? complement(ranges) : ranges;
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

/** The places from which values are >= a literal, and > it. */
function places(attribute, value) {
  if (!attribute.edges) return ofCode(attribute, codeOf(attribute, value));
  const at = attribute.kind === "datetime" ? microseconds(attribute, value) : value;
  if (typeof at !== "number") fail(`'${attribute.name}' is compared with a number, not with '${value}'.`);
  if (attribute.kind === "real") {
    const top = attribute.nValues * BIN;
    if (at === attribute.edges.at(-1)) return [top - SLIVER, top + 1];
    const place = placeOf(attribute, at);
    return [place, 0 <= place && place < top ? place + SLIVER : place];
  }
  const place = placeOf(attribute, Math.ceil(at));
  if (at !== Math.floor(at)) return [place, place];
  const step = countsDays(attribute) && at % DAY === 0 ? DAY : 1;
  return [place, Math.max(placeOf(attribute, at + step), place + 1)];
}

function placeOf({ edges, nValues }, position) {
  if (position < edges[0]) return position - edges[0];
  if (position >= edges.at(-1)) return nValues * BIN + (position - edges.at(-1));
  const i = edges.findLastIndex((edge) => edge <= position);
  const inside = Math.round(((position - edges[i]) / (edges[i + 1] - edges[i])) * BIN);
  const isCut = position > edges[i];
  return i * BIN + (isCut ? Math.min(Math.max(inside, SLIVER), BIN - 2 * SLIVER) : 0);
}

const countsDays = ({ kind, edges }) => kind === "datetime" && edges.every((edge) => edge % DAY === 0);
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

/** Share of each code that satisfies a condition: 1, 0, or the fraction of a bin that it cuts. */
export function shares({ nValues, size }, ranges) {
  const share = new Float64Array(nValues + 1);
  for (const range of ranges) {
    const [start, end] = range.map((place) => Math.min(Math.max(place, 0), nValues * BIN));
    const [i, j] = [Math.floor(start / BIN), Math.floor(end / BIN)];
    for (let code = i; code < j; code++) share[code] += 1;
    share[i] -= start / BIN - i;
    share[j] += end / BIN - j;
  }
  share[nValues] = Number(isMissing(ranges));
  const whole = share.slice(0, size);
  whole.condition = JSON.stringify(ranges.flat().map(String));
  return whole;
}

/** Whether missing values satisfy a condition. */
export const isMissing = (ranges) => ranges.length > 0 && ranges[0][0] < LOWEST;

/**
 * The widest (isUpper) or narrowest conditions that records in the same bins can satisfy. Values beyond the
 * bounds lie in the outer bins, so the widest condition includes a bin that a range touches.
 */
export function reaching(asked, attributes, isUpper) {
  return new Map([...asked].map(([a, ranges]) => [
    a, tidy(ranges.map((each) => reached(attributes[a].nValues, each, isUpper))),
  ]));
}

const isBeyond = (n, [start, end]) => start >= n * BIN || (LOWEST < end && end <= 0);

function reached(n, [start, end], isUpper) {
  if (end <= LOWEST) return [start, end];
  if (isBeyond(n, [start, end])) {
    const code = end <= 0 ? 0 : n - 1;
    return isUpper ? [Math.min(start, code * BIN), Math.max(end, (code + 1) * BIN)] : [start, end];
  }
  const [from, to] = [Math.max(start, 0), Math.min(end, n * BIN) - 1];
  const [first, last] = [Math.floor(from / BIN), Math.floor(to / BIN)];
  if (first === last && (from % BIN || to % BIN < BIN - 1))
    return isUpper ? [Math.min(start, first * BIN), Math.max(end, (first + 1) * BIN)] : [0, 0];
  const besideEdge = (place) => place % BIN && Math.min(place % BIN, BIN - (place % BIN)) <= 2 * SLIVER;
  return [
    besideEdge(from) ? (isUpper ? first : first + 1) * BIN : start,
    besideEdge(to + 1) ? (isUpper ? last + 1 : last) * BIN : end,
  ];
}

/** Notes on conditions that ask for values beyond the bounds or “other”, cut bins or name midnight. */
export function notes(asked, attributes) {
  return [...asked].flatMap(([a, ranges]) => {
    const { name, nValues, note, other, labels } = attributes[a];
    const isOther = other !== null && String(ranges) === String(ofCode(attributes[a], other));
    const bins = [...shares(attributes[a], ranges).entries()].filter(([, share]) => share % 1);
    const more = bins.length > MAX_NAMED ? ` and ${bins.length - MAX_NAMED} more` : "";
    const shown = bins.slice(0, MAX_NAMED).map(([bin]) => labels[bin]).join(", ");
    const midnight = asked.midnights?.get(a);
    return [
      isOther || ranges.some((each) => isBeyond(nValues, each)) ? note : null,
      bins.length
        ? `The condition cuts bins of ${name} (${shown}${more}); the view has one count per bin, so the ` +
          "interval allows for uneven halves. Whole bins have narrower intervals."
        : null,
      midnight ? `'${midnight}' means midnight at the start of that day.` : null,
    ].filter(Boolean);
  });
}
