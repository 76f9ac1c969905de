// Two attributes as a picture. A few paths hold all cells; one of them is pointed at, by mouse or arrows, and
// read in words.

import {
  about, element, inFull, percent, percentWords, percents, rounded, set, shortened, widthOf,
} from "./parts.js";
import { box, tidy } from "./plot.js";

// Light to dark in grey, too.
const COLOURS = ["#fdf6e3", "#f6d7a7", "#eeb479", "#de8a5a", "#c25f4f", "#963f4f", "#62294d", "#2f1a3d"];
const PALE = 0.3;
const TOP = 4;
const SWATCH = 26;
const LETTER = 6.6; // width of one, in pixels
const MOST_LETTERS = 18; // of a name
const FINE = 4; // cells narrower than FINE pixels have no gaps between them
const text = (x, y, content, more = {}) =>
  element("text", { x, y, "font-size": 11, fill: "currentColor", ...more }, content);

export class Heatmap {
  /**
   * Attribute a across and b down; answer has rows by b; whole: whether cells show records or a percent of
   * the row, the column or all; room: the greatest width.
   */
  constructor(a, b, answer, blocks, room, whole) {
    Object.assign(this, { a, b, whole: answer.share ? whole : "records" });
    this.answer = answer;
    this.data = this.whole === "records" ? answer : answer.share;
    this.values = this.data.estimate;
    const [across, down] = [a, b].map(({ labels }) => Math.max(...labels.map((label) => label.length)));
    this.left = 14 + Math.min(MOST_LETTERS, down) * 6;
    // Cells as wide as their names, if there is room.
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
      `Records by ${a.name} and ${b.name}: arrows read cells, Enter filters by one; the same ` +
      `numbers are under Group by`;
    this.picture = element(
      "svg",
      {
        width: Math.ceil(this.left + Math.max(a.labels.length * this.width, COLOURS.length * SWATCH) + 8),
        height: Math.ceil(this.bottom + 80),
        role: "application",
        tabindex: 0,
        "aria-label": label,
      },
      this.#ground(),
      ...this.#cells(),
      ...this.#numbers(),
      ...this.#outlines(blocks),
      ...this.#names(),
      ...this.#legend(),
      this.mark,
    );
    this.cell = [0, 0];
  }

  /** The number in a cell, rounded as its interval allows. */
  #told(i, j) {
    const ends = [this.data.estimate[j][i], this.data.lower[j][i], this.data.upper[j][i]];
    return (this.whole === "records" ? rounded(...ends) : percents(...ends))[0];
  }

  #tick(value) {
    return this.whole === "records" ? inFull(value) : percent(value);
  }

  /** Under the cells: pale is pale in the dark, too. */
  #ground() {
    return element("rect", {
      x: this.left, y: TOP, width: this.a.labels.length * this.width, height: this.bottom - TOP,
      fill: "#ffffff",
    });
  }

  /** A path for each colour, pale and full; neighbours of one colour are one box where cells are fine. */
  #cells() {
    const { values: estimate } = this;
    const { lower } = this.data;
    const gap = this.width < FINE ? 0 : 0.4;
    const drawn = new Map();
    const shade = (i, j) => {
      const height = Math.sqrt(Math.max(0, estimate[j][i]) / this.most);
      const colour = Math.min(COLOURS.length - 1, Math.floor(height * COLOURS.length));
      return `${colour} ${lower[j][i] <= 0 ? PALE : 1}`;
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
    return [...drawn].map(([look, boxes]) => {
      const [colour, opacity] = look.split(" ");
      return element("path", {
        class: "cells", d: boxes.join(""), fill: COLOURS[colour], "fill-opacity": opacity,
      });
    });
  }

  /** Numbers in the cells, where there is room: a table of two attributes. */
  #numbers() {
    const texts = this.values.map((row, j) => row.map((_, i) => this.#told(i, j)));
    const longest = Math.max(...texts.flat().map((each) => each.length));
    if (this.width < longest * LETTER + 4 || this.height < 18) return [];
    const { lower } = this.data;
    const isDark = (i, j) => lower[j][i] > 0 && this.values[j][i] >= this.most * (4 / COLOURS.length) ** 2;
    const place = (i, j) => [this.left + (i + 0.5) * this.width, TOP + (j + 0.5) * this.height + 4];
    return this.values.flatMap((row, j) =>
      row.map((_, i) =>
        text(...place(i, j), texts[j][i], {
          "text-anchor": "middle", fill: isDark(i, j) ? "#ffffff" : "#1d2733",
          "fill-opacity": lower[j][i] > 0 ? 1 : 0.6, "pointer-events": "none",
        }),
      ),
    );
  }

  #outlines(blocks) {
    const line = ([x1, x2, y1, y2]) =>
      box(
        this.left + x1 * this.width, TOP + y1 * this.height, (x2 - x1) * this.width, (y2 - y1) * this.height,
      );
    return blocks.length
      ? [
          element("path", {
            class: "blocks", d: blocks.map(line).join(""), fill: "none", stroke: "#0b7fab",
            "stroke-width": 0.5,
          }),
        ]
      : [];
  }

  #names() {
    const { a, b } = this;
    const every = Math.ceil(b.labels.length / 26);
    const longest = Math.max(...a.labels.map((label) => widthOf(label, 11)));
    const wide = Math.max(1, Math.ceil(Math.min(48, longest + 6) / this.width));
    const room = wide * this.width - 4;
    // A name for every cell stands in its middle; one for several at their beginning.
    const place = (i) => this.left + (wide === 1 ? i + 0.5 : i) * this.width;
    const anchor = wide === 1 ? { "text-anchor": "middle" } : {};
    const down = shortened(b.labels, MOST_LETTERS * 6, 11);
    const across = shortened(a.labels, room, 11);
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

  /**
   * Two rows of colours: as they are, and pale. The scale is that of square roots, so half-way stands for a
   * quarter.
   */
  #legend() {
    const swatch = (k, y, opacity) =>
      element("rect", {
        x: this.left + k * SWATCH, y, width: SWATCH, height: 8, fill: COLOURS[k], "fill-opacity": opacity,
      });
    const whole = { row: "the row", column: "the column", all: "all" }[this.whole];
    const end = this.left + COLOURS.length * SWATCH;
    const y = this.bottom + 28;
    return [
      element("rect", { x: this.left, y, width: COLOURS.length * SWATCH, height: 18, fill: "#ffffff" }),
      ...COLOURS.map((_, k) => swatch(k, y, 1)),
      ...COLOURS.map((_, k) => swatch(k, y + 10, PALE)),
      text(this.left, y + 46, `pale: cannot be distinguished from 0${whole ? `; percent of ${whole}` : ""}`),
      text(this.left, y + 31, "0"),
      text(this.left + (COLOURS.length * SWATCH) / 2, y + 31, this.#tick(this.most / 4), {
        "text-anchor": "middle",
      }),
      text(end, y + 31, `${this.#tick(this.most)}${this.whole === "records" ? " records" : ""}`, {
        "text-anchor": "end",
      }),
    ];
  }

  /** Put the mark on cells and read the last one. */
  #point([i, j], [i0, j0] = [i, j]) {
    const { a, b, answer: { estimate, lower, upper } } = this;
    this.cell = [i, j];
    set(this.mark, "x", String(tidy(this.left + Math.min(i, i0) * this.width)));
    set(this.mark, "y", String(tidy(TOP + Math.min(j, j0) * this.height)));
    set(this.mark, "width", String(tidy((Math.abs(i - i0) + 1) * this.width)));
    set(this.mark, "height", String(tidy((Math.abs(j - j0) + 1) * this.height)));
    set(this.mark, "visibility", "visible");
    const ends = [estimate[j][i], lower[j][i], upper[j][i]];
    const told = [`${b.labels[j]} × ${a.labels[i]}: ${about(...ends)}`];
    if (ends[1] <= 0 && ends[0] > 0) told.push("not distinguishable from 0");
    const whole = { row: `${b.name} ${b.labels[j]}`, column: `${a.name} ${a.labels[i]}`, all: "all" };
    const { data } = this;
    if (this.whole !== "records")
      told.push(
        `${percentWords(data.estimate[j][i], data.lower[j][i], data.upper[j][i])} of ${whole[this.whole]}`,
      );
    this.onRead(told.join(", "));
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

  /** onRead(words) is told of the cell pointed at, onPick(columns, rows) of those chosen: [first, last]. */
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
