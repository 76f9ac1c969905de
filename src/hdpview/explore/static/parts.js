// Shared helpers: DOM elements, and numbers and words as people read them.

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["svg", "rect", "line", "g", "text", "path", "circle", "title"]);

export function element(tag, attributes = {}, ...children) {
  const made = SHAPES.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Set an attribute only if its value changes, which avoids needless layout and paint. */
export function set(node, key, value) {
  if (node.getAttribute(key) !== value) node.setAttribute(key, value);
}

/** Set an element's text only if it changes. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const PATIENCE = 300; // milliseconds before an outdated element is dimmed

/** Await some work. If it takes long, dim the element meanwhile, because its content is outdated. */
export async function dimmed(node, work) {
  node.waits = (node.waits ?? 0) + 1;
  const late = setTimeout(() => node.classList.add("waiting"), PATIENCE);
  try {
    return await work;
  } finally {
    clearTimeout(late);
    node.waits -= 1;
    if (!node.waits) node.classList.remove("waiting");
  }
}

/** Names of the columns for a value and the ends of its interval. */
export const three = (head) => [head, `${head}_lower`, `${head}_upper`];

/** A table of texts. */
export function tableOf(heads, rows) {
  const row = (tag, cells) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));
  return element(
    "table", {}, element("thead", {}, row("th", heads)),
    element("tbody", {}, ...rows.map((cells) => row("td", cells))),
  );
}

/** A <select> element. options: [value, text] pairs, or values that are also the texts. */
export function selectOf(label, options, chosen, onchange) {
  const made = element(
    "select", { "aria-label": label, ...(onchange && { onchange }) },
    ...options.map((each) => element("option", { value: [each].flat()[0] }, [each].flat().at(-1))),
  );
  if (chosen !== undefined) made.value = chosen;
  return made;
}

/** Select a value if the list has it. */
export function choose(list, value) {
  if ([...list.options].some((option) => option.value === value)) list.value = value;
}

// Formatters are created once: creating one per number would dominate the time of a redraw.
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** Abbreviated numbers for axes: 950, 3.2K, 1.5M. */
export const short = (x) => compact.format(x);

export const shown = (x) =>
  Math.abs(x) >= 100 || Number.isInteger(x) ? whole.format(Math.round(x)) : tenths.format(x);

/** A count as a whole number. */
export const inFull = (x) => whole.format(Math.round(x) || 0);

/** The rounding step for a number whose interval has this half width: keeps two digits of the width. */
export const grain = (half, least = 1) =>
  Math.max(half > 0 ? 10 ** (Math.floor(Math.log10(half)) - 1) : 0.1, least);

const decimals = Array.from(
  { length: 7 },
  (_, n) => new Intl.NumberFormat("en", { minimumFractionDigits: n, maximumFractionDigits: n }),
);

/** A value and the ends of its interval as texts, rounded by the interval's width. least: minimum step. */
export function rounded(value, lower, upper, least = 1) {
  const step = grain((upper - lower) / 2, least);
  const format = decimals[Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))];
  const [middle, low, high] = [value, lower, upper].map((x) =>
    format.format(Math.sign(x) * Math.round(Math.abs(x) / step) * step || 0).replace("-", "−"),
  );
  return [middle, lower > 0 && step >= 1 && lower < step / 2 ? format.format(step) : low, high];
}

/** "about 4,200 (likely 3,800 to 4,600)". */
export function about(value, lower, upper, least = 1) {
  const [middle, low, high] = rounded(value, lower, upper, least);
  return `about ${middle} (likely ${low} to ${high})`;
}

/** How useful an answer is, as in query/errors/ends.py. unit: all records for counts, 1 for shares. */
export function usefulness({ usefulness: [ten, point] }, { estimate, lower, upper }, unit) {
  const reach = Math.max(upper - estimate, estimate - lower);
  const size = Math.abs(estimate);
  if (reach <= Math.max(ten * size, point * unit)) return "useful";
  return reach <= Math.max(size, 10 * point * unit) ? "rough" : "unknown";
}

const LEAST_PERCENT = 0.01; // minimum rounding step of percentages

/** A share and the ends of its interval in percent, rounded by the interval's width. */
export const percents = (share, lower, upper) =>
  rounded(100 * share, 100 * lower, 100 * upper, LEAST_PERCENT).map((text) => `${text}%`);

/** "12.3% (likely 11% to 14%)", or "12%" for a share without an interval. */
export function percentWords(share, lower, upper) {
  if (typeof lower !== "number" || typeof upper !== "number") return percent(share);
  const [middle, low, high] = percents(share, lower, upper);
  return lower === upper ? middle : `${middle} (likely ${low} to ${high})`;
}

/** A share without an interval, in percent. */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "<0.1%";
  return `${share >= 0.0995 ? Math.round(100 * share) : Math.round(1000 * share) / 10}%`;
}

/** "1 block", "2,234 blocks". */
export const counted = (n, what) => `${whole.format(n)} ${what}${n === 1 ? "" : "s"}`;

/** Large numbers: 400, 48,000, 1.1 × 10¹³. */
export function huge(x) {
  if (x < 1e6) return whole.format(x);
  const [digits, power] = x.toExponential(1).split("e+");
  return `${digits} × 10${[...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
}

/** Start or end of a bin such as "500 to 1000"; other labels, such as "95 or more", stay unchanged. */
export const bound = (label, atEnd) => /^(.+) to (.+)$/.exec(label)?.[atEnd ? 2 : 1] ?? label;

/** A bin's label in plain notation: [500, 1000) and 10–19 become "500 to 1000" and "10 to 19". */
const plain = (label) =>
  label.replace(/^(?:\[(.+), (.+)[)\]]|(-?\d+)–(-?\d+))$/, (_, a, b, c, d) => `${a ?? c} to ${b ?? d}`);

/** The same for the bins in a sentence. */
export const plainNote = (text) => text.replace(/\[([-\d.]+), ([-\d.]+)[)\]]/g, "$1 to $2");

/** Readable labels. The outer bins of a number are open, because they also count values beyond the bounds. */
function plainLabels({ labels, kind, nullable, edges }) {
  const readable = labels.map(plain);
  if (!["integer", "real"].includes(kind)) return readable;
  const last = labels.length - 1 - Number(nullable);
  readable[last] = `${bound(readable[last], false)} or more`;
  if (last > 0 && edges[0] !== 0) readable[0] = `${bound(readable[0], true)} or less`;
  return readable;
}

/** Replace the labels of a schema by readable ones, and keep the raw ones for SQL. */
export function makeReadable({ attributes }) {
  for (const attribute of attributes) {
    attribute.rawLabels = attribute.labels;
    attribute.labels = plainLabels(attribute);
  }
}

/** The label and the unit that the schema gives an attribute: "Age at admission, years". */
export const describing = ({ label, unit }) => [label, unit].filter(Boolean).join(", ");

export const FONT = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const widths = new Map();
let pen = null;

/** Width of a text in pixels. */
export function widthOf(text, size = 12) {
  const key = `${size} ${text}`;
  if (!widths.has(key)) {
    pen ??= document.createElement("canvas").getContext("2d");
    pen.font = `${size}px ${FONT}`;
    if (widths.size > 20_000) widths.clear();
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

function fitting(text, width, size) {
  if (widthOf(text, size) <= width) return text;
  const cut = (n) => `${text.slice(0, n - 1)}…`;
  let n = Math.max(2, Math.floor((text.length * width) / widthOf(text, size)));
  while (n > 2 && widthOf(cut(n), size) > width) n -= 1;
  return cut(n);
}

/** Shorten labels to a width in pixels but keep them distinct: similar labels keep the part that differs. */
export function shortened(labels, width, size = 12) {
  const cuts = labels.map((label) => fitting(label, width, size));
  return cuts.map((text, i) => {
    const alike = labels.filter((label, j) => cuts[j] === text && label !== labels[i]);
    if (!alike.length) return text;
    let same = 0;
    while (alike.some((label) => label[same] === labels[i][same]) && same < labels[i].length) same += 1;
    const from = Math.max(0, same - 2);
    const tail = (label) => {
      const joined = (n) => `${label.slice(0, n)}…${label.slice(from)}`;
      let n = from;
      while (n > 2 && widthOf(joined(n), size) > width) n -= 1;
      return fitting(joined(n), width, size);
    };
    const distinct = tail(labels[i]);
    const isDistinct = !alike.map(tail).includes(distinct);
    return isDistinct ? distinct : `${i + 1}: ${fitting(labels[i], width - 18, size)}`;
  });
}

/** The filtered attributes that were not counted together with this one: their relationship is modelled. */
export function inferred({ made_of: kind, merged, quality }, name, filtered) {
  const together = (other) =>
    quality.known.some(({ attributes }) => attributes.includes(name) && attributes.includes(other));
  if (kind !== "component" || merged) return [];
  return filtered.filter((other) => other !== name && !together(other));
}

const MOST_PAIRS = 6; // pairs that a note names
const MODELLED = "modelled: it may look weaker than it is, or even reversed";

/** A note on the pairs among some attributes whose relationship is modelled; empty if there are none. */
export function inferredNote(schema, names) {
  const pairs = names.flatMap((name, i) =>
    inferred(schema, name, names.slice(i + 1)).map((other) => `${name} and ${other}`),
  );
  if (!pairs.length) return [];
  if (pairs.length === 1)
    return [`${pairs[0]} were not counted together; their relationship is ${MODELLED}.`];
  const more = pairs.length > MOST_PAIRS ? ` and ${pairs.length - MOST_PAIRS} more pairs` : "";
  const first = pairs.slice(0, MOST_PAIRS).join(", ");
  return [`These were not counted together, and their relationships are ${MODELLED}: ${first}${more}.`];
}

/** Round numbers between two ends, for ticks. */
export function ticksBetween(from, to, most = 4) {
  if (!(to > from)) return [];
  const power = 10 ** Math.floor(Math.log10((to - from) / most));
  const step = power * [1, 2, 5, 10].find((times) => (to - from) / (times * power) <= most);
  const first = Math.ceil(from / step - 1e-9);
  const n = Math.floor(to / step + 1e-9) - first + 1;
  return Array.from({ length: n }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
