// Grains: how many bins one bar of a chart combines, such as 5 years of age or a quarter of a year.

const MOST_BARS = 120; // bars that a card can show
const LEAST_BARS = 4; // bars of the coarsest grain
const MOST_CHOICES = 6; // grains offered
const CALENDAR = {
  month: (day) => `${day.getUTCFullYear()}-${String(day.getUTCMonth() + 1).padStart(2, "0")}`,
  quarter: (day) => `${day.getUTCFullYear()} Q${Math.floor(day.getUTCMonth() / 3) + 1}`,
  year: (day) => String(day.getUTCFullYear()),
};

/** One group per bin. */
export const singles = ({ labels }) => labels.map((label, code) => ({ first: code, last: code, label }));

/** Combine neighbouring bins with the same key into groups { first, last, label }, by code. */
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
  const { edges } = attribute;
  const label = ({ first, last }) => {
    const isLast = last === edges.length - 2;
    const whole = Number(attribute.kind === "integer");
    if (first === last && !isLast) return attribute.labels[first];
    return isLast ? `${edges[first]} or more` : `${edges[first]} to ${edges[last + 1] - whole}`;
  };
  return gathered(attribute, (code) => Math.floor(edges[code] / width + 1e-9), label);
}

const byCalendar = (attribute, unit) =>
  gathered(attribute, (code) => CALENDAR[unit](new Date(attribute.edges[code] / 1000)), ({ key }) => key);

/** The grains of an attribute's chart as { value, name, groups }, the finest first. */
export function grainsOf(attribute) {
  const finest = { value: "", name: "each bin", groups: singles(attribute) };
  if (!attribute.edges || attribute.unequal) return [finest];
  let choices = [];
  if (attribute.kind === "datetime")
    choices = Object.keys(CALENDAR).map((unit) => ({
      value: unit, name: `by ${unit}`, groups: byCalendar(attribute, unit),
    }));
  else {
    // The first width, because the last bin may be narrower.
    const width = attribute.edges[1] - attribute.edges[0];
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
