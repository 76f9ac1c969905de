// A report of what is looked at: one HTML file, to keep or to print. It stands on its own.

import { about, element, rounded } from "./parts.js";
import { histogramPicture } from "./picture.js";
import { inWords } from "./state.js";

const STYLE = [
  "body { font: 15px/1.5 system-ui, Arial, sans-serif; color: #1d2733; max-width: 860px; }",
  "body { margin: 2rem auto; padding: 0 1rem; }",
  "code { overflow-wrap: anywhere; }",
  "table { border-collapse: collapse; font-size: .9rem; }",
  "th, td { text-align: left; padding: .2rem .7rem; border-bottom: 1px solid #d9dee5; }",
  "svg { max-width: 100%; height: auto; }",
  "figure { margin: 1rem 0; break-inside: avoid; }",
  ".warning { color: #a32d2d; font-weight: 600; }",
  ".hidden, .controls { display: none; }",
].join("\n");

const text = (tag, content, more = {}) => element(tag, more, content);

/** The whole file as text. */
export function report(page) {
  const { schema, state, view, visited, charts } = page;
  const where = state.where();
  const count = visited.at(-1)?.count;
  const filters = schema.attributes
    .filter((a) => state.filters[a.name])
    .map((a) => inWords(a, state.filters[a.name]));
  const body = element(
    "body",
    {},
    text("h1", `What was looked at in ${view}`),
    ...(schema.private ? [] : [text("p", "This view is NOT PRIVATE.", { class: "warning" })]),
    text(
      "p",
      `${new Date().toISOString().slice(0, 10)}. ${page.spent()}; ${schema.neighbours}; ` +
        `made ${schema.created.slice(0, 10)} with hdpview ${schema.library_version}.`,
    ),
    text("h2", "Filter"),
    text("p", filters.join("; ") || (where ? "written as SQL" : "all records")),
    ...(where ? [element("p", {}, text("code", where))] : []),
    text("p", count ? `Records: ${about(count.estimate, count.lower, count.upper)}.` : ""),
    ...notes(),
    text("h2", "Charts"),
    ...page.arrangement.visible().map((name) => figure(charts.get(name), state)),
    ...panel(page.closer),
    text("h2", "Filters looked at"),
    visits(visited),
    text(
      "p",
      "Ranges are 95 % typical intervals: such a range holds the true number about 95 times in 100. Pale " +
        "bars and italics cannot be told from 0.",
    ),
  );
  const whole = element(
    "html",
    { lang: "en" },
    element(
      "head",
      {},
      element("meta", { charset: "utf-8" }),
      text("title", `Report on ${view}`),
      text("style", STYLE),
    ),
    body,
  );
  return `<!doctype html>\n${whole.outerHTML}\n`;
}

function notes() {
  const told = [...document.querySelectorAll("#notes li")].map((note) => note.textContent);
  return told.length ? [element("ul", {}, ...told.map((note) => text("li", note)))] : [];
}

function figure(chart, state) {
  if (!chart.shown) return element("figure");
  const under = state.where(chart.attribute.name);
  return element(
    "figure",
    {},
    text("h3", chart.attribute.name),
    histogramPicture(chart.attribute, chart.shown.data),
    text("figcaption", under ? `under ${under}` : "all records"),
  );
}

/** The open panel, as it stands. */
function panel(closer) {
  const open = closer.panel().querySelector(".result");
  if (!open?.childElementCount) return [];
  const copy = open.cloneNode(true);
  for (const control of copy.querySelectorAll("select, button, input, textarea")) control.remove();
  return [text("h2", closer.tabs[closer.current].textContent), copy];
}

function visits(visited) {
  const row = ({ where, count }) => {
    const [told, low, high] = rounded(count.estimate, count.lower, count.upper);
    return element(
      "tr",
      {},
      element("td", {}, text("code", where)),
      text("td", told),
      text("td", `${low} to ${high}`),
    );
  };
  const heads = ["filter", "records, about", "likely"].map((head) => text("th", head));
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...visited.map(row)),
  );
}
