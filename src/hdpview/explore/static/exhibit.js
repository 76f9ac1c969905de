// Saves what is shown. One object, the exhibit, makes the picture, the file and the section of a report, so
// that all three match the screen.
//
// An exhibit has a title, its filter (`where`), explanatory lines, a table of texts (columns, rows), the
// equivalent SQL, and picture(width), which returns SVG nodes and their height.

import { FONT, element, widthOf } from "./parts.js";
import { facts, file } from "./transport.js";
import { spent } from "./trust.js";

const WIDTH = 760; // of a picture, in pixels
const MARGIN = 14; // pixels
const INK = "#1d2733"; // the ink of light mode

export function download(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}

/** The CSS rules of charts, in the colours of light mode. */
export function paperStyle(prefixes = [".plot"]) {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const root = rules.find(({ selectorText }) => selectorText === ":root");
  const colour = (name) => /light-dark\(([^,]+),/.exec(root.style.getPropertyValue(name))?.[1] ?? INK;
  return rules
    .filter(({ selectorText }) => prefixes.some((prefix) => selectorText?.startsWith(prefix)))
    .map(({ cssText }) => cssText.replace(/var\((--[\w-]+)\)/g, (_, name) => colour(name)))
    .join("\n");
}

/** Wrap a text to a width in pixels, breaking words that are longer. */
export function wrapped(text, width, size) {
  const lines = [""];
  for (const word of text.split(/(?<=\s)/)) {
    if (widthOf(lines.at(-1) + word, size) > width && lines.at(-1)) lines.push("");
    for (const letter of word) {
      if (widthOf(lines.at(-1) + letter, size) > width) lines.push("");
      lines[lines.length - 1] += letter;
    }
  }
  return lines.map((line) => line.trim()).filter(Boolean);
}

/** The caption of an exhibit: filter, source and privacy budget. */
export function origin(page, { where, lines = [] }) {
  const published = facts();
  const checksum = published ? [`checksum ${published.checksum}`] : [];
  const source = [page.view, ...checksum, spent(page.schema)];
  return [
    `Filter: ${where ?? "all records"}`, ...lines,
    `${source.join("; ")}; 95% typical intervals${page.schema.private ? "" : "; NOT PRIVATE"}`,
  ];
}

/** The picture as a self-contained SVG element. */
export function pictureOf(page, exhibit, withHead = true) {
  const inner = WIDTH - 2 * MARGIN;
  const texts = [];
  let y = 0;
  const write = (text, size, weight = 400) => {
    for (const line of wrapped(text, inner, size)) {
      y += size + 6;
      texts.push(
        element("text", { x: MARGIN, y, "font-size": size, "font-weight": weight, fill: INK }, line),
      );
    }
  };
  if (withHead) {
    write(exhibit.title, 15, 600);
    for (const line of origin(page, exhibit)) write(line, 11);
    y += 10;
  }
  const { nodes, height, kind = {} } = exhibit.picture(inner);
  const drawing = element("g", { class: "plot", ...kind, transform: `translate(${MARGIN} ${y})` }, ...nodes);
  const high = Math.ceil(y + height + MARGIN);
  return element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg", width: WIDTH, height: high, viewBox: `0 0 ${WIDTH} ${high}`,
      "font-family": FONT.replaceAll('"', "'"),
    },
    ...(withHead ? [element("style", {}, paperStyle())] : []),
    element("rect", { width: WIDTH, height: high, fill: "#ffffff" }),
    ...texts,
    drawing,
  );
}

async function asPng(picture) {
  const text = new XMLSerializer().serializeToString(picture);
  const [width, height] = ["width", "height"].map((side) => Number(picture.getAttribute(side)));
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    await new Promise((resolve, reject) => {
      image.onload = resolve;
      image.onerror = () => reject(new Error("The picture could not be drawn."));
      image.src = address;
    });
    const canvas = element("canvas", { width: width * 2, height: height * 2 });
    canvas.getContext("2d").drawImage(image, 0, 0, width * 2, height * 2);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}

const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const isNumber = (text) => /^−?[\d,]+(\.\d+)?%?$/.test(text);
const bare = (text) => (isNumber(text) ? text.replaceAll(/[,%]/g, "").replace("−", "-") : text);

/** The table as CSV, preceded by its caption in comment lines. */
const asCsv = (page, exhibit) =>
  [
    ...[exhibit.title, ...origin(page, exhibit)].map((line) => `# ${line.replace(/\s+/g, " ")}`),
    exhibit.columns.map(quoted).join(","),
    ...exhibit.rows.map((row) =>
      row.map((cell, i) => quoted(i < exhibit.nNames ? cell : bare(cell))).join(","),
    ),
  ].join("\n") + "\n";

export async function saveExhibit(page, exhibit, kind) {
  const name = exhibit.file.replace(/[^\w-]+/g, "_");
  if (kind === "CSV") download(`${name}.csv`, asCsv(page, exhibit), "text/csv");
  else if (kind === "Parquet") {
    const request = { view: page.view, sql: exhibit.sql, format: "parquet" };
    download(`${name}.parquet`, await file("/api/table", request));
  } else if (kind === "PNG") download(`${name}.png`, await asPng(pictureOf(page, exhibit)));
  else {
    const text = new XMLSerializer().serializeToString(pictureOf(page, exhibit));
    download(`${name}.svg`, text, "image/svg+xml");
  }
}

const LINE = 20; // height of a row in the picture of a table, in pixels
const MOST_LINES = 60; // rows in the picture; a CSV file has all

/** A table as SVG nodes. */
export function tablePicture({ columns, rows, nNames }, width) {
  const shown = rows.slice(0, MOST_LINES);
  const cells = columns.map((head, i) => [head, ...shown.map((row) => row[i])]);
  const wide = cells.map((texts) => Math.max(...texts.map((text) => widthOf(text))));
  const scale = Math.min(1, width / (wide.reduce((total, each) => total + each + 18, 0) || 1));
  let left = 0;
  const nodes = columns.flatMap((_, i) => {
    const isName = i < nNames;
    const x = left + (isName ? 0 : wide[i]);
    left += wide[i] + 18;
    const anchor = isName ? "start" : "end";
    const kind = (line) => (line ? "cell" : "head");
    return cells[i].map((text, line) =>
      element("text", { class: kind(line), x, y: (line + 1) * LINE - 6, "text-anchor": anchor }, text),
    );
  });
  const more = rows.length - shown.length;
  if (more > 0)
    nodes.push(element("text", { class: "cell", x: 0, y: (shown.length + 2) * LINE }, `${more} more rows`));
  const height = (shown.length + (more > 0 ? 3 : 1)) * LINE * scale + 6;
  return { nodes: [element("g", { transform: `scale(${scale})` }, ...nodes)], height };
}
