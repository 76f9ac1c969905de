// A heatmap of two attributes. All cells of one shade form one path, so large grids stay fast. Pointing at a
// cell, or moving to it by arrow keys, reads it in words.

import {
  bound, about, element, inFull, percent, percentWords, percents, rounded, set, shortened, widthOf,
} from "./parts.js";
import { box, tidy } from "./plot.js";

const SHADES = 8; // shades of the style sheet; cells that cannot be distinguished from 0 are pale
const TOP = 4; // margin above the cells, in pixels
const SWATCH = 26; // width of a colour in the legend, in pixels
const LETTER = 6.6; // average width of a letter, in pixels
const MOST_LETTERS = 18; // letters shown of a name
const FINE = 4; // cells narrower than this many pixels are drawn without gaps
const text = (x, y, content, more = {}) =>
  element("text", { class: "tick", x, y, ...more }, content);

export class Heatmap {
  /**
   * a: attribute across; b: attribute down; answer: counts in rows by b; room: maximum width in pixels;
   * whole: "records", or "row", "column" or "all" for percentages of that whole.
   */
  constructor(a, b, answer, room, whole) {
    Object.assign(this, { a, b, whole: answer.share ? whole : "records" });
    this.answer = answer;
    this.data = this.whole === "records" ? answer : answer.share;
    this.values = this.data.estimate;
    const [across, down] = [a, b].map(({ labels }) => Math.max(...labels.map((label) => label.length)));
    this.left = 14 + Math.min(MOST_LETTERS, down) * 6;
    // Cells are as wide as their names if there is room.
    const most = Math.max(64, 12 + Math.min(MOST_LETTERS, across) * LETTER);
    this.width = Math.max(2.5, Math.min(most, (room - this.left - 12) / a.labels.length));
    this.height = Math.max(4, Math.min(30, 460 / b.labels.length));
    this.bottom = TOP + b.labels.length * this.height;
    this.most = Math.max(...this.values.map((row) => Math.max(...row)), 1e-9);
    this.mark = element("rect", {
      class: "mark", fill: "none", stroke: "#0b7fab", "stroke-width": 2, "pointer-events": "none",
      visibility: "hidden",
    });
    const label =
      `Records by ${a.name} and ${b.name}. Arrow keys move between cells, Enter filters by a cell. The tab ` +
      "“Group by” has the same numbers as a table.";
    this.picture = element(
      "svg",
      {
        width: Math.ceil(this.left + Math.max(a.labels.length * this.width, SHADES * SWATCH) + 8),
        height: Math.ceil(this.bottom + 80),
        class: "plot",
        role: "application",
        tabindex: 0,
        "aria-label": label,
      },
      this.#background(),
      ...this.#cells(),
      ...this.#numbers(),
      ...this.#names(),
      ...this.#legend(),
      this.mark,
    );
    this.cell = [0, 0];
  }

  /** The number in a cell, rounded according to its interval. */
  #number(i, j) {
    const ends = [this.data.estimate[j][i], this.data.lower[j][i], this.data.upper[j][i]];
    return (this.whole === "records" ? rounded(...ends) : percents(...ends))[0];
  }

  #tick(value) {
    return this.whole === "records" ? inFull(value) : percent(value);
  }

  /** A background like the card's, on which pale cells look pale, also while the page waits. */
  #background() {
    return element("rect", {
      class: "ground", x: this.left, y: TOP, width: this.a.labels.length * this.width,
      height: this.bottom - TOP,
    });
  }

  /** One path per shade. Where cells are fine, neighbours of one shade merge into one box. */
  #cells() {
    const { values: estimate } = this;
    const { lower } = this.data;
    const gap = this.width < FINE ? 0 : 0.4;
    const drawn = new Map();
    const shade = (i, j) => {
      const height = Math.sqrt(Math.max(0, estimate[j][i]) / this.most);
      const number = Math.min(SHADES - 1, Math.floor(height * SHADES));
      return `shade-${number}${lower[j][i] <= 0 ? " pale" : ""}`;
    };
    for (let j = 0; j < estimate.length; j++) {
      for (let i = 0, next = 1; i < estimate[j].length; i = next, next = i + 1) {
        const look = shade(i, j);
        while (!gap && next < estimate[j].length && shade(next, j) === look) next += 1;
        if (!drawn.has(look)) drawn.set(look, []);
        const wide = tidy((next - i) * this.width - gap);
        drawn
          .get(look)
          .push(box(this.left + i * this.width, TOP + j * this.height, wide, this.height - 0.4));
      }
    }
    return [...drawn].map(([look, boxes]) => element("path", { class: `cells ${look}`, d: boxes.join("") }));
  }

  /** Numbers in the cells, if there is room. */
  #numbers() {
    const texts = this.values.map((row, j) => row.map((_, i) => this.#number(i, j)));
    const longest = Math.max(...texts.flat().map((each) => each.length));
    if (this.width < longest * LETTER + 4 || this.height < 18) return [];
    const { lower } = this.data;
    const isDeep = (i, j) => lower[j][i] > 0 && this.values[j][i] >= this.most * (4 / SHADES) ** 2;
    const place = (i, j) => [this.left + (i + 0.5) * this.width, TOP + (j + 0.5) * this.height + 4];
    return this.values.flatMap((row, j) =>
      row.map((_, i) =>
        text(...place(i, j), texts[j][i], {
          class: `tick shade-${isDeep(i, j) ? 0 : SHADES - 1}${lower[j][i] > 0 ? "" : " pale"}`,
          "text-anchor": "middle", "pointer-events": "none",
        }),
      ),
    );
  }

  #names() {
    const { a, b } = this;
    const every = Math.ceil(b.labels.length / 26);
    const longest = Math.max(...a.labels.map((label) => widthOf(label, 11)));
    const wide = Math.max(1, Math.ceil(Math.min(48, longest + 6) / this.width));
    const room = wide * this.width - 4;
    // A name of one cell is centred; a name of several cells starts at the first.
    const place = (i) => this.left + (wide === 1 ? i + 0.5 : i) * this.width;
    const anchor = wide === 1 ? { "text-anchor": "middle" } : {};
    const down = shortened(b.labels, MOST_LETTERS * 6, 11);
    const names = wide > 1 && a.edges ? a.labels.map((label) => bound(label, false)) : a.labels;
    const across = shortened(names, room, 11);
    const right = { "text-anchor": "end" };
    return [
      ...down.flatMap((label, j) =>
        j % every ? [] : [text(this.left - 5, TOP + (j + 0.5) * this.height + 4, label, right)],
      ),
      ...across.flatMap((label, i) =>
        i % wide || (a.labels.length - i) * this.width <= 40
          ? []
          : [text(place(i), this.bottom + 15, label, anchor)],
      ),
    ];
  }

  /** Two rows of colours, full and pale. On the square-root scale the middle is a quarter of the maximum. */
  #legend() {
    const swatch = (k, y, look) =>
      element("rect", {
        class: `shade-${k}${look}`, x: this.left + k * SWATCH, y, width: SWATCH, height: 8,
      });
    const swatches = (y, look) => Array.from({ length: SHADES }, (_, k) => swatch(k, y, look));
    const whole = { row: "the row", column: "the column", all: "all" }[this.whole];
    const end = this.left + SHADES * SWATCH;
    const y = this.bottom + 28;
    return [
      ...swatches(y, ""),
      ...swatches(y + 10, " pale"),
      text(this.left, y + 46, `pale: cannot be distinguished from 0${whole ? `; percent of ${whole}` : ""}`),
      text(this.left, y + 31, "0"),
      text(this.left + (SHADES * SWATCH) / 2, y + 31, this.#tick(this.most / 4), {
        "text-anchor": "middle",
      }),
      text(end, y + 31, `${this.#tick(this.most)}${this.whole === "records" ? " records" : ""}`, {
        "text-anchor": "end",
      }),
    ];
  }

  /** Mark the cells between two, and read the first one in words. */
  #point([i, j], [i0, j0] = [i, j]) {
    const { a, b, answer: { estimate, lower, upper } } = this;
    this.cell = [i, j];
    set(this.mark, "x", String(tidy(this.left + Math.min(i, i0) * this.width)));
    set(this.mark, "y", String(tidy(TOP + Math.min(j, j0) * this.height)));
    set(this.mark, "width", String(tidy((Math.abs(i - i0) + 1) * this.width)));
    set(this.mark, "height", String(tidy((Math.abs(j - j0) + 1) * this.height)));
    set(this.mark, "visibility", "visible");
    const ends = [estimate[j][i], lower[j][i], upper[j][i]];
    const words = [`${b.labels[j]} × ${a.labels[i]}: ${about(...ends)}`];
    if (ends[1] <= 0 && ends[0] > 0) words.push("not distinguishable from 0");
    const whole = { row: `${b.name} ${b.labels[j]}`, column: `${a.name} ${a.labels[i]}`, all: "all" };
    const { data } = this;
    if (this.whole !== "records")
      words.push(
        `${percentWords(data.estimate[j][i], data.lower[j][i], data.upper[j][i])} of ${whole[this.whole]}`,
      );
    this.onRead(words.join(", "));
  }

  #clamped(i, j) {
    return [
      Math.max(0, Math.min(this.a.labels.length - 1, i)),
      Math.max(0, Math.min(this.b.labels.length - 1, j)),
    ];
  }

  #at(event) {
    const box = this.picture.getBoundingClientRect();
    const i = Math.floor((event.clientX - box.left - this.left) / this.width);
    const j = Math.floor((event.clientY - box.top - TOP) / this.height);
    const inside = i >= 0 && j >= 0 && i < this.a.labels.length && j < this.b.labels.length;
    return { cell: this.#clamped(i, j), inside };
  }

  #pick([i, j], [i0, j0] = [i, j]) {
    this.onPick([Math.min(i, i0), Math.max(i, i0)], [Math.min(j, j0), Math.max(j, j0)]);
  }

  /** onRead(words): callback for the cell pointed at; onPick(columns, rows): for the selected ranges. */
  listen(onRead, onPick) {
    Object.assign(this, { onRead, onPick });
    let start = null;
    const hide = () => {
      set(this.mark, "visibility", "hidden");
      this.onRead("");
    };
    this.picture.addEventListener("pointermove", (event) => {
      const { cell, inside } = this.#at(event);
      if (inside || start) this.#point(cell, start ?? cell);
      else hide();
    });
    this.picture.addEventListener("pointerdown", (event) => {
      const { cell, inside } = this.#at(event);
      if (inside && event.button === 0) {
        start = cell;
        this.picture.setPointerCapture(event.pointerId);
      }
    });
    this.picture.addEventListener("pointerup", (event) => {
      if (start) {
        const from = start;
        start = null;
        this.#pick(this.#at(event).cell, from);
      }
    });
    this.picture.addEventListener("pointercancel", () => {
      start = null;
      hide();
    });
    this.picture.addEventListener("pointerleave", () => {
      if (!start) hide();
    });
    this.picture.addEventListener("blur", hide);
    this.picture.addEventListener("focus", () => {
      if (this.picture.matches(":focus-visible")) this.#point(this.cell);
    });
    this.picture.addEventListener("keydown", (event) => {
      const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (by) this.#point(this.#clamped(this.cell[0] + by[0], this.cell[1] + by[1]));
      if (event.key === "Enter" || event.key === " ") this.#pick(this.cell);
      if (by || event.key === "Enter" || event.key === " ") event.preventDefault();
    });
  }
}
