// Pictures to take away: SVG that stands on its own, and PNG drawn from it.

import { brief, element, shown, ticks } from "./parts.js";

const INK = "#1d2733";
const PAPER = "#ffffff";
const HEAD = 46;
const LEAST_WIDTH = 640;

export function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}

/**
 * A button that opens to things to do, each [text, name for screen readers, what it does]. Not a list: in
 * those, an arrow key alone would already do it.
 */
export function menu(label, face, items) {
  const opener = element("summary", { "aria-label": label, title: label }, face);
  const shut = () => {
    made.open = false;
    opener.focus();
  };
  const pick = ([text, name, act]) =>
    element(
      "button",
      {
        "aria-label": name,
        onclick: () => {
          shut();
          act();
        },
      },
      text,
    );
  const made = element(
    "details",
    { class: "save" },
    opener,
    element("div", { tabindex: -1 }, ...items.map(pick)),
  );
  made.addEventListener("focusout", (event) => {
    if (!made.contains(event.relatedTarget)) made.open = false;
  });
  made.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && made.open) shut();
  });
  return made;
}

/** The same for kinds of files. */
export function saveMenu(what, kinds, callback) {
  return menu(
    `Save ${what}`,
    "Save",
    kinds.map((kind) => [kind, `Save ${what} as ${kind}`, () => callback(kind)]),
  );
}

const write = (x, y, content, more = {}) =>
  element("text", { x, y, "font-size": 11, fill: "currentColor", ...more }, content);

/**
 * Save an SVG element on white, below its title and what it shows, as SVG or PNG: it stands on its own
 * wherever it goes.
 */
export async function savePicture(picture, [title, caption], name, kind) {
  const wide = Math.max(Number(picture.getAttribute("width")), LEAST_WIDTH);
  const height = Number(picture.getAttribute("height")) + HEAD;
  const style = `color:${INK};font-family:system-ui,Arial,sans-serif`;
  const copy = element(
    "svg",
    { width: wide, height, viewBox: `0 0 ${wide} ${height}`, style },
    element("rect", { width: wide, height, fill: PAPER }),
    write(12, 20, title, { "font-size": 15, "font-weight": 600 }),
    write(12, 36, caption),
    element("g", { transform: `translate(0 ${HEAD})` }, ...picture.cloneNode(true).children),
  );
  const text = new XMLSerializer().serializeToString(copy);
  if (kind === "SVG") {
    save(`${name}.svg`, text, "image/svg+xml");
    return;
  }
  const image = new Image();
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    await new Promise((resolve, reject) => {
      image.onload = resolve;
      image.onerror = () => reject(new Error("The picture could not be drawn."));
      image.src = address;
    });
    const canvas = element("canvas", { width: wide * 2, height: height * 2 });
    canvas.getContext("2d").drawImage(image, 0, 0, wide * 2, height * 2);
    save(`${name}.png`, await new Promise((resolve) => canvas.toBlob(resolve, "image/png")));
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** A histogram with axes, for paper. */
export function histogramPicture(attribute, { estimate, lower, upper }) {
  const width = 760;
  const left = 62;
  const right = 12;
  const top = 4;
  const inner = 250;
  const n = estimate.length;
  const step = (width - left - right) / n;
  const most = Math.max(...estimate, 1e-9);
  const high = Math.min(Math.max(...upper, 1e-9), 2.2 * most);
  const y = (value) => top + inner * (1 - Math.min(value, high) / high);
  const parts = [0, ...ticks(high)].flatMap((tick) => [
    element("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), stroke: "#d9dee5" }),
    write(left - 6, y(tick) + 4, shown(tick), { "text-anchor": "end" }),
  ]);
  estimate.forEach((value, i) => {
    const x = left + i * step;
    const middle = x + step * 0.45;
    parts.push(
      element("rect", {
        x,
        y: y(value),
        width: step * 0.9,
        height: top + inner - y(value),
        fill: "#3b76af",
        "fill-opacity": lower[i] <= 0 ? 0.4 : 1,
      }),
      element("line", {
        x1: middle,
        x2: middle,
        y1: y(lower[i]),
        y2: y(upper[i]),
        stroke: INK,
        "stroke-opacity": 0.55,
      }),
    );
  });
  const every = Math.ceil(n / 24);
  attribute.labels.forEach((label, i) => {
    if (i % every) return;
    const x = left + (i + 0.45) * step;
    const at = top + inner + 14;
    parts.push(write(x, at, brief(label, 20), { "text-anchor": "end", transform: `rotate(-38 ${x} ${at})` }));
  });
  const longest = Math.min(20, Math.max(...attribute.labels.map((label) => label.length)));
  return element("svg", { width, height: Math.ceil(top + inner + 26 + 4.2 * longest) }, ...parts);
}
