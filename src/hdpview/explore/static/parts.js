// What every part of the page uses: elements, and numbers and words for people.

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["svg", "rect", "line", "g", "text", "path", "circle"]);

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

/**
 * Set an attribute only if that changes it: the browser then has nothing to lay out or paint for the rest.
 */
export function set(node, key, value) {
  if (node.getAttribute(key) !== value) node.setAttribute(key, value);
}

/** The same for an element's text. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const PATIENCE = 300; // milliseconds after which an element is dimmed

/**
 * What the work gives. While it takes long the element is dimmed: what it shows is no longer, or not yet,
 * true.
 */
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

// Made once: a format made for every number would take most of the time of a redraw.
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** Short numbers for scales: 950, 3.2k, 1.5M. */
export const short = (x) => compact.format(x);

export const shown = (x) =>
  Math.abs(x) >= 100 || Number.isInteger(x) ? whole.format(Math.round(x)) : tenths.format(x);

/** A count of records with nothing after the point. */
export const inFull = (x) => whole.format(Math.round(x) || 0);

/** To what a number is rounded whose interval has this half width: two digits of the width are left. */
export const grain = (half, least = 1) =>
  Math.max(half > 0 ? 10 ** (Math.floor(Math.log10(half)) - 1) : 0.1, least);

const decimals = Array.from(
  { length: 7 },
  (_, n) => new Intl.NumberFormat("en", { minimumFractionDigits: n, maximumFractionDigits: n }),
);

/** A value and the ends of its interval as text, rounded as the interval allows; `least` is 1 for counts. */
export function rounded(value, lower, upper, least = 1) {
  const step = grain((upper - lower) / 2, least);
  const format = decimals[Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))];
  const [told, low, high] = [value, lower, upper].map((x) => format.format(Math.round(x / step) * step || 0));
  return [told, lower > 0 && step >= 1 && lower < step / 2 ? format.format(step) : low, high];
}

/** "about 4,200 (likely 3,800 to 4,600)". */
export function about(value, lower, upper, least = 1) {
  const [told, low, high] = rounded(value, lower, upper, least);
  return `about ${told} (likely ${low} to ${high})`;
}

/** A share in percent, without a digit that says nothing. */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "<0.1 %";
  return `${share >= 0.0995 ? Math.round(100 * share) : Math.round(1000 * share) / 10} %`;
}

/** A share in percent with one digit, and a true minus sign. */
export const inPercent = (share) => (100 * share).toFixed(1).replace("-", "−");

/** "1 block", "2,234 blocks". */
export const counted = (n, what) => `${whole.format(n)} ${what}${n === 1 ? "" : "s"}`;

/** Numbers beyond imagination: 400, 48,000, 1.1 × 10¹³. */
export function huge(x) {
  if (x < 1e6) return whole.format(x);
  const [digits, power] = x.toExponential(1).split("e+");
  return `${digits} × 10${[...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
}

/** Of a bin such as "500 to 1000" the beginning or the end; other labels as they are. */
export const bound = (label, atEnd) => /^(.+) to (.+)$/.exec(label)?.[atEnd ? 2 : 1] ?? label;

/** Labels of bins in one notation: [500, 1000) and 10–19 are "500 to 1000" and "10 to 19". */
export const plain = (label) =>
  label.replace(/^(?:\[(.+), (.+)[)\]]|(-?\d+)–(-?\d+))$/, (_, a, b, c, d) => `${a ?? c} to ${b ?? d}`);

/** A label of at most n characters that keeps its beginning and its end, by which long ones differ. */
export const brief = (label, n) =>
  label.length > n
    ? `${label.slice(0, Math.ceil((n - 1) / 2))}…${label.slice(-Math.floor((n - 1) / 2))}`
    : label;

/**
 * Of the attributes that are filtered by, those that were not counted together with this one: the view
 * infers how they go together.
 */
export function inferred({ made_of: kind, merged, quality }, name, filtered) {
  const together = (other) =>
    quality.known.some(({ attributes }) => attributes.includes(name) && attributes.includes(other));
  return kind === "component" && !merged
    ? filtered.filter((other) => other !== name && !together(other))
    : [];
}

const MOST_PAIRS = 6; // that are named

/** The same in words, for all pairs of some attributes. */
export function inferredNote(schema, names) {
  const pairs = names.flatMap((name, i) =>
    inferred(schema, name, names.slice(i + 1)).map((other) => `${name} with ${other}`),
  );
  if (!pairs.length) return [];
  const first = pairs.slice(0, MOST_PAIRS).join(", ");
  const more = pairs.length > MOST_PAIRS ? ` and ${pairs.length - MOST_PAIRS} more pairs` : "";
  return [`Not counted together, so inferred, and perhaps flatter than it is: ${first}${more}.`];
}

/** Words for one value: its count, its interval, and whether it means anything. */
export function words(label, estimate, lower, upper) {
  const faint = lower <= 0 && estimate > 0 ? ", not distinguishable from 0" : "";
  return `${label}: ${about(estimate, lower, upper)}${faint}`;
}

/** Round numbers from above 0 to at most `high`: one to four of them. */
export function ticks(high) {
  if (!(high > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(high / 2));
  const step = power * [5, 2, 1].find((times) => times * power <= high / 2);
  return Array.from({ length: Math.min(4, Math.floor(high / step)) }, (_, i) => (i + 1) * step);
}
