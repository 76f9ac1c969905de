// Results as tables: on the page, and as files to take away.

import { element, inFull, plain, rounded, shown } from "./parts.js";
import { save } from "./picture.js";
import { facts } from "./transport.js";

/** The value of an aggregate in a row and its ends, rounded as the interval allows. */
function spanOf(row, column) {
  const ends = [row[column], row[`${column}_lower`], row[`${column}_upper`]];
  if (!ends.every((end) => typeof end === "number")) return ends.map(textOf);
  return column === "share"
    ? rounded(...ends.map((end) => 100 * end), 0.1).map((end, i) => (i === 1 ? end : `${end} %`))
    : rounded(...ends, column === "n" ? 1 : 0);
}

const textOf = (value) => (typeof value === "number" ? shown(value) : String(value ?? "—"));

/**
 * A result as a table, whose first columns name the rows: each aggregate with its interval in one cell; rows
 * that may be nothing but noise say so.
 */
export function asTable({ columns, rows, aggregates = [] }, nNames) {
  const ends = new Set(aggregates.flatMap((name) => [`${name}_lower`, `${name}_upper`]));
  const seen = columns.filter((column) => !ends.has(column));
  const names = seen.slice(0, nNames);
  const kindOf = (column) => (rows.some((row) => typeof row[column] === "number") ? "number" : null);
  const cells = (row, column) => {
    if (names.includes(column)) {
      const name = plain(String(row[column] ?? "(missing)"));
      return [element("th", { class: kindOf(column), scope: "row" }, name)];
    }
    if (!aggregates.includes(column)) return [element("td", { class: kindOf(column) }, textOf(row[column]))];
    const [value, ...interval] = spanOf(row, column);
    return [
      element("td", { class: kindOf(column) }, value),
      element("td", { class: "quiet interval" }, interval.join(" to ")),
    ];
  };
  const heads = seen.flatMap((column) => [
    element("th", { class: kindOf(column), scope: "col" }, column === "n" ? "records" : column),
    ...(aggregates.includes(column) ? [element("th", { scope: "col", class: "quiet" }, "likely")] : []),
  ]);
  const worth = element("span", { class: "hidden" }, "What it is worth");
  const mayBeNoise = (row) => {
    const lower = row[`${aggregates[0]}_lower`];
    return typeof lower === "number" && lower <= 0;
  };
  const rowOf = (row) =>
    element(
      "tr",
      { class: mayBeNoise(row) ? "faint" : null },
      ...seen.flatMap((column) => cells(row, column)),
      element("td", { class: "worth" }, mayBeNoise(row) ? "not distinguishable from 0" : ""),
    );
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads, element("th", { scope: "col", class: "worth" }, worth))),
    element("tbody", {}, ...rows.map(rowOf)),
  );
}

/** Save a result as CSV, rounded, below a line on where it comes from. names: columns that name rows. */
export function saveCsv(page, name, answer, names) {
  if (!answer) return;
  const { columns, rows, aggregates } = answer;
  const where = page.state.where();
  const own = facts();
  const isEnd = (column) =>
    aggregates.find((each) => column === each || column === `${each}_lower` || column === `${each}_upper`);
  const number = (row, column) => {
    const key = isEnd(column);
    const [low, high] = key ? [row[`${key}_lower`], row[`${key}_upper`]] : [];
    if (typeof low !== "number" || typeof high !== "number") return String(row[column]);
    return rounded(row[column], low, high, key === "n" ? 1 : 0)[0].replaceAll(",", "");
  };
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const cell = (row, column) =>
    typeof row[column] === "number" && !names.includes(column)
      ? number(row, column)
      : quoted(row[column] === null || row[column] === undefined ? "" : String(row[column]));
  const origin = [
    `# ${page.view}${own ? `, checksum ${own.checksum}` : ""}`,
    where ?? "all records",
    "95 % typical intervals",
    page.spent(),
    ...(page.schema.private ? [] : ["NOT PRIVATE"]),
    ...(answer.cut_off ? [`the first ${inFull(rows.length)} rows`] : []),
  ].join("; ");
  save(
    name,
    [
      origin.replace(/\s+/g, " "),
      columns.map(quoted).join(","),
      ...rows.map((row) => columns.map((column) => cell(row, column)).join(",")),
    ].join("\n") + "\n",
    "text/csv",
  );
}
