// The SQL statements equivalent to charts and tables.

const conditions = (...parts) => {
  const all = parts.filter(Boolean);
  const apart = (part) => (all.length > 1 && / OR /i.test(part) ? `(${part})` : part);
  return all.length ? ` WHERE ${all.map(apart).join(" AND ")}` : "";
};

/** The SQL aggregate of a measure, and the condition that excludes missing outcomes. */
function aggregateOf({ kind, attribute, code, missing }, attributeOf) {
  if (kind === "percent") return ["COUNT(*) * 1.0 / SUM(COUNT(*)) OVER ()", null];
  if (kind === "records") return ["COUNT(*)", null];
  const outcome = attributeOf(attribute);
  if (kind === "mean") return [`AVG(${outcome.sql})`, null];
  const rate = `AVG(CASE WHEN ${outcome.sql} = ${outcome.literals[code]} THEN 1.0 ELSE 0.0 END)`;
  return [rate, missing !== "no" && outcome.nullable ? `${outcome.sql} IS NOT NULL` : null];
}

/** by: attribute, list of attributes, or null for all records; grain: width or unit of bars. */
export function statementOf(by, measure, where, attributeOf, grain = null) {
  const all = [by].flat().filter(Boolean);
  const isItself = all.some(({ name }) => name === measure.attribute);
  const [aggregate, known] = aggregateOf(isItself ? { kind: "percent" } : measure, attributeOf);
  const keys = all.map((each) => keyOf(each, grain));
  const selected = all.map(({ sql }, i) => (keys[i] === sql ? sql : `${keys[i]} AS ${sql}`));
  const name = measure.kind === "records" ? "records" : "value";
  const columns = [...selected, `${aggregate} AS ${name}`].join(", ");
  const group = keys.length ? ` GROUP BY ${keys.join(", ")}` : "";
  return `SELECT ${columns} FROM view${conditions(where, known)}${group}`;
}

function keyOf({ sql, kind }, grain) {
  if (!grain) return sql;
  if (kind === "datetime") return `DATE_TRUNC('${grain}', ${sql})`;
  return `FLOOR(${sql} / ${grain}) * ${grain}`;
}
