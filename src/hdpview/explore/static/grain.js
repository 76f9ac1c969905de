// How many bins one bar of a chart gathers: 1, 5 or 10 years of age, a month, a quarter or a year of time.

const MOST_BARS = 120; // more cannot be told apart in a card
const LEAST_BARS = 4;
const MOST_CHOICES = 6;
const CALENDAR = {
  month: (day) => `${day.getUTCFullYear()}-${String(day.getUTCMonth() + 1).padStart(2, "0")}`,
  quarter: (day) => `${day.getUTCFullYear()} Q${Math.floor(day.getUTCMonth() / 3) + 1}`,
  year: (day) => String(day.getUTCFullYear()),
};

const dayOf = (end) => new Date(`${/'(.+)'/.exec(end)[1].replace(" ", "T")}Z`);

/** One group for each bin: [first, last] code, label. */
export const singles = ({ labels }) => labels.map((label, code) => ({ first: code, last: code, label }));

/** Gather neighbouring bins with the same key. */
function gathered(attribute, keyOf, labelOf) {
  const groups = [];
  const nValues = attribute.labels.length - Number(attribute.nullable);
  for (let code = 0; code < nValues; code++) {
    const key = keyOf(code);
    if (groups.at(-1)?.key === key) groups.at(-1).last = code;
    else groups.push({ key, first: code, last: code });
  }
  for (const group of groups) group.label = labelOf(group);
  if (attribute.nullable) groups.push({ first: nValues, last: nValues, label: attribute.labels.at(-1) });
  return groups;
}

function byWidth(attribute, width) {
  const edges = attribute.ends.map(Number);
  const label = ({ first, last }) => {
    const isLast = last === edges.length - 2;
    const whole = Number(attribute.kind === "integer");
    if (first === last && !isLast) return attribute.labels[first];
    return isLast ? `${edges[first]} or more` : `${edges[first]} to ${edges[last + 1] - whole}`;
  };
  return gathered(attribute, (code) => Math.floor(edges[code] / width + 1e-9), label);
}

const byCalendar = (attribute, unit) =>
  gathered(attribute, (code) => CALENDAR[unit](dayOf(attribute.ends[code])), ({ key }) => key);

/** The grains of an attribute's chart, the finest first, each { value, name, groups }. */
export function grainsOf(attribute) {
  const finest = { value: "", name: "each bin", groups: singles(attribute) };
  if (!attribute.ends || attribute.unequal) return [finest];
  let choices = [];
  if (attribute.kind === "datetime")
    choices = Object.keys(CALENDAR).map((unit) => ({
      value: unit, name: `by ${unit}`, groups: byCalendar(attribute, unit),
    }));
  else {
    // The last bin may be narrower than the others.
    const width = Number(attribute.ends[1]) - Number(attribute.ends[0]);
    const powers = Array.from({ length: 12 }, (_, i) => 10 ** (Math.floor(Math.log10(width)) + i));
    choices = powers
      .flatMap((power) => [power, 2 * power, 5 * power])
      .filter((step) => step > width * 1.5 && Math.abs(step / width - Math.round(step / width)) < 1e-6)
      .map((step) => ({ value: String(step), name: `by ${step}`, groups: byWidth(attribute, step) }));
  }
  const useful = choices.filter(
    ({ groups }) => groups.length < finest.groups.length && groups.length >= LEAST_BARS,
  );
  const all = [finest, ...useful];
  const start = Math.max(0, all.findIndex(({ groups }) => groups.length <= MOST_BARS));
  return all.slice(start, start + MOST_CHOICES);
}
