// Conditions written as simple SQL, read into what they ask of each attribute. As
// hdpview/query/question/conditions.py has it.
//
// A condition on one attribute has half-open ranges on an ordered axis, or a set of codes; and whether
// missing values satisfy it.

const GRAIN = 2 ** 36;
const LEAST = 2 ** -20;
// A quoted name, a string, a number, a word, or a sign.
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
  const found = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.trimEnd().length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) fail(`Not understood from here on: ${text.slice(at, at + 40)}`);
    const [, quoted, string, number, word, sign] = match;
    if (quoted) found.push({ name: quoted.slice(1, -1).replaceAll('""', '"') });
    else if (string) found.push({ value: string.slice(1, -1).replaceAll("''", "'") });
    else if (number) found.push({ value: Number(number) });
    else if (word) found.push(WORDS.has(word.toUpperCase()) ? { word: word.toUpperCase() } : { name: word });
    else found.push({ word: sign });
  }
  return found;
}

/**
 * What a condition asks, as a Map from the numbers of attributes to conditions; an empty one for everything.
 */
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
    const found = this.either();
    if (this.at < this.tokens.length)
      fail(
        `This page does not understand ${this.#shown()} here. It reads comparisons, BETWEEN, IN and IS ` +
          `NULL, joined by AND.`,
      );
    return found;
  }

  either() {
    let found = this.both();
    while (this.#took("OR")) {
      const other = this.both();
      if (found.size !== 1 || other.size !== 1 || [...found.keys()][0] !== [...other.keys()][0])
        fail("In this page OR joins conditions on one attribute only. hdpview explore answers all others.");
      const [a] = found.keys();
      found = new Map([[a, union(found.get(a), other.get(a))]]);
    }
    return found;
  }

  both() {
    const found = this.not();
    while (this.#took("AND"))
      for (const [a, condition] of this.not())
        found.set(a, found.has(a) ? common(found.get(a), condition) : condition);
    return found;
  }

  not() {
    if (!this.#took("NOT")) return this.simple();
    const found = this.not();
    if (found.size !== 1)
      fail(
        "In this page NOT stands before a condition on one attribute only. hdpview explore answers all " +
          "others.",
      );
    return this.#turned(found);
  }

  #turned(found) {
    const [[a, condition]] = found;
    const all = everything(this.attributes[a]);
    const isNull = condition.null && !condition.ranges.length && !condition.codes.size;
    return new Map([[a, isNull ? all : complement(this.attributes[a], condition)]]);
  }

  simple() {
    if (this.#took("(")) {
      const found = this.either();
      this.#need(")");
      return found;
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
      if (!sign) fail(`After ${attribute.name} a comparison is expected, such as = or BETWEEN.`);
      condition = compare(attribute, sign === "<>" ? "!=" : sign, this.#literal());
    }
    return new Map([[a, not ? complement(attribute, condition) : condition]]);
  }

  #attribute() {
    const { name } = this.tokens[this.at] ?? {};
    if (name === undefined) fail(`The name of an attribute is expected ${this.#shown()}.`);
    const names = this.attributes.map((each) => each.name);
    const exact = names.indexOf(name);
    const found = exact >= 0 ? exact : names.findIndex((each) => each.toLowerCase() === name.toLowerCase());
    if (found < 0) fail(`Unknown attribute '${name}'. This view has: ${names.join(", ")}.`);
    this.at += 1;
    return found;
  }

  #literal() {
    const minus = this.#took("-");
    if (!minus) this.#took("+");
    if (this.#took("TRUE")) return true;
    if (this.#took("FALSE")) return false;
    if (!this.#took("DATE")) this.#took("TIMESTAMP");
    const { value } = this.tokens[this.at] ?? {};
    if (value === undefined) fail(`A value is expected ${this.#shown()}.`);
    this.at += 1;
    return minus ? -value : value;
  }

  #took(word) {
    const is = this.tokens[this.at]?.word === word;
    this.at += Number(is);
    return is;
  }
  #need(word) {
    if (!this.#took(word)) fail(`${word} is expected ${this.#shown()}.`);
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

function tidy(ranges) {
  const found = [];
  for (const [low, high] of ranges.filter((range) => range[0] < range[1]).sort((x, y) => x[0] - y[0])) {
    if (found.length && low <= found.at(-1)[1]) found.at(-1)[1] = Math.max(high, found.at(-1)[1]);
    else found.push([low, high]);
  }
  return found;
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
      `'${attribute.name}' is a real number counted in bins; a single value has no width. Ask for a ` +
        `range, with BETWEEN.`,
    );
  const apart = [[-Infinity, at], [after, Infinity]];
  return {
    ranges: tidy(sign === "!=" ? apart : [range]), codes: new Set(), null: false,
    // These would mean the whole day if a date were not its first instant.
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

/** Where on the axis values ≥ and values > a literal begin. */
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

/** Share of each code that satisfies a condition: 1, 0, or the fraction of a bin that is cut through. */
export function shares(attribute, condition) {
  const found = new Float64Array(attribute.size + 1);
  const cut = new Set();
  for (const code of condition.codes) found[code] = 1;
  for (const [start, end] of condition.ranges) {
    const [i, belowStart, cutsStart] = binOf(attribute, start);
    const [j, belowEnd, cutsEnd] = binOf(attribute, end);
    for (let code = i; code < j; code++) found[code] += 1;
    found[i] -= belowStart;
    found[j] += belowEnd;
    if (cutsStart) cut.add(i);
    if (cutsEnd) cut.add(j);
  }
  for (const i of cut)
    if (i < attribute.size)
      found[i] = Math.round(Math.min(Math.max(found[i], LEAST), 1 - LEAST) * GRAIN) / GRAIN;
  if (condition.null && attribute.nullable) found[attribute.nValues] = 1;
  const whole = found.slice(0, attribute.size);
  whole.condition = JSON.stringify([condition.ranges.flat().map(String), condition.null]);
  return whole;
}

function binOf({ edges, nValues }, place) {
  let low = 0;
  let high = edges.length; // the first edge beyond the place lies between
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
 * What a condition asks, with ranges beyond the schema's bounds moved to the bins that such values are
 * counted in.
 */
export function reachingBins(asked, attributes) {
  return new Map(
    [...asked].map(([a, condition]) => {
      const { edges } = attributes[a];
      const moved = edges
        ? condition.ranges.map(([start, end]) =>
            start >= edges.at(-1) ? edges.slice(-2) : end <= edges[0] ? edges.slice(0, 2) : [start, end],
          )
        : [];
      return [a, { ...condition, ranges: tidy(moved) }];
    }),
  );
}

/** Sentences on conditions that meet gathered values, cut through a bin or name midnight. */
export function notes(asked, attributes) {
  return [...asked].flatMap(([a, { ranges, codes, midnight }]) => {
    const { name, edges, note, other, labels } = attributes[a];
    const meets = edges
      ? ranges.some(([start, end]) => start >= edges.at(-1) || end <= edges[0])
      : other !== null && codes.size === 1 && codes.has(other);
    const cut = edges ? [...new Set(ranges.flat().map((place) => cutBin(attributes[a], place)))] : [];
    return [
      meets ? note : null,
      ...cut
        .filter((bin) => bin !== null)
        .map((bin) => `The condition on ${name} cuts the bin ${labels[bin]}: its records are assumed to be ` +
          `spread evenly inside it.`),
      midnight ? `'${midnight}' means midnight at the start of that day.` : null,
    ].filter(Boolean);
  });
}

/** The bin that a place lies inside of, or null. */
function cutBin(attribute, place) {
  if (!Number.isFinite(place) || place >= attribute.edges.at(-1)) return null;
  const [bin, share, isInside] = binOf(attribute, place);
  return isInside && share > 1e-9 && share < 1 - 1e-9 ? bin : null;
}
