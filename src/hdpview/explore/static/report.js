// The report on the current filter and charts: one self-contained HTML file to keep or print.

import { origin, paperStyle, pictureOf } from "./exhibit.js";
import { about, element, rounded, tableOf } from "./parts.js";
import { inWords } from "./state.js";
import { spent } from "./trust.js";

const STYLE = `body { font: 15px/1.5 system-ui, Arial, sans-serif; color: #1d2733; }
body { max-width: 860px; margin: 2rem auto; padding: 0 1rem; }
code { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .2rem .7rem; border-bottom: 1px solid #d9dee5; }
svg { max-width: 100%; height: auto; }
figure { margin: 1rem 0; break-inside: avoid; }
.warning { color: #a32d2d; font-weight: 600; }`;
const MOST_ROWS = 500; // rows of the open panel's table
const READING =
  "Ranges are 95% typical intervals: about 95 of 100 such ranges contain the true number. Pale bars cannot " +
  "be distinguished from 0. An arrow marks an interval that continues beyond the picture.";

const text = (tag, content, more = {}) => element(tag, more, content);

/** The whole file as text. */
export function report(page) {
  const { schema, state, view, visited } = page;
  const where = state.where();
  const count = visited.at(-1)?.count;
  const filters = schema.attributes
    .filter((a) => state.filters[a.name])
    .map((a) => inWords(a, state.filters[a.name]));
  const name = view.replace(/\.pview$/, "");
  const notes = [...document.querySelectorAll("#notes li")].map((note) => note.textContent);
  const charts = page.arrangement.visible().map((each) => page.charts.get(each).exhibit());
  const panel = page.closer.exhibit();
  const body = element(
    "body",
    {},
    text("h1", `Report on ${name}`),
    ...(schema.private ? [] : [text("p", "This view is NOT PRIVATE.", { class: "warning" })]),
    text(
      "p",
      `${new Date().toISOString().slice(0, 10)}. ${spent(schema)}; ${schema.neighbours}; made ` +
        `${schema.created.slice(0, 10)} with hdpview ${schema.library_version}.`,
    ),
    text("h2", "Filter"),
    text("p", filters.join("; ") || (where ? "custom SQL" : "all records")),
    ...(where ? [element("p", {}, text("code", where))] : []),
    text("p", count ? `Records: ${about(count.estimate, count.lower, count.upper)}.` : ""),
    ...(notes.length ? [element("ul", {}, ...notes.map((note) => text("li", note)))] : []),
    text("h2", "Charts"),
    ...charts.filter(Boolean).map((exhibit) => figure(page, exhibit)),
    ...(panel ? [text("h2", page.closer.title), ...panelOf(page, panel)] : []),
    text("h2", "Filters used"),
    tableOf(["filter", "records, about", "likely"], visited.map((visit) => visitRow(visit))),
    text("p", READING),
  );
  const style = `${STYLE}\n${paperStyle()}`;
  const head = element("head", {}, element("meta", { charset: "utf-8" }), text("title", `Report on ${name}`));
  head.append(text("style", style));
  return `<!doctype html>\n${element("html", { lang: "en" }, head, body).outerHTML}\n`;
}

function figure(page, exhibit) {
  const caption = origin(page, exhibit).slice(0, -1).join(". ");
  return element(
    "figure", {}, text("h3", exhibit.title), pictureOf(page, exhibit, false), text("figcaption", caption),
  );
}

/** The open panel: its picture, and its numbers as a table. */
function panelOf(page, exhibit) {
  const picture = exhibit.isTable ? [text("h3", exhibit.title)] : [figure(page, exhibit)];
  const more = exhibit.rows.length > MOST_ROWS ? [text("p", `The first ${MOST_ROWS} rows.`)] : [];
  return [...picture, tableOf(exhibit.columns, exhibit.rows.slice(0, MOST_ROWS)), ...more];
}

function visitRow({ where, count }) {
  const [estimate, low, high] = rounded(count.estimate, count.lower, count.upper);
  return [where, estimate, `${low} to ${high}`];
}
