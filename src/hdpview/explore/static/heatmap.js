// Two attributes as a picture. A few paths hold all cells; one of them is pointed at, by mouse or arrows, and
// read in words.

import { brief, element, inFull, percent, set, words } from "./parts.js";

// Light to dark in grey, too.
const COLOURS = ["#fdf6e3", "#f6d7a7", "#eeb479", "#de8a5a", "#c25f4f", "#963f4f", "#62294d", "#2f1a3d"];
const PALE = 0.3;
const TOP = 4;
const SWATCH = 26;
const LETTER = 6.6; // width of one, in pixels
const MOST_LETTERS = 18; // of a name
const FINE = 4; // cells narrower than FINE pixels have no gaps between them
const tidy = (x) => Math.round(x * 100) / 100;
const text = (x, y, content, more = {}) =>
  element("text", { x, y, "font-size": 11, fill: "currentColor", ...more }, content);

/** The path around a box. */
const outline = (x, y, width, height) =>
  `M${tidy(x)} ${tidy(y)}h${tidy(width)}v${tidy(height)}h${tidy(-width)}z`;

export class Heatmap {
  /**
   * Attribute a across and b down; answer has rows by b; cells: whether they show records or a percent of
   * row, column or all. onRead(words) is told of the cell pointed at, onPick(columns, rows) of those chosen,
   * as [first, last].
   */
  constructor(a, b, answer, blocks, room, cells, onRead, onPick) {
    Object.assign(this, { a, b, answer, cells, onRead, onPick });
    this.values = this.#values();
    const [across, down] = [a, b].map(({ labels }) => Math.max(...labels.map((label) => label.length)));
    this.left = 14 + Math.min(MOST_LETTERS, down) * 6;
    // Cells as wide as their names, if there is room.
    const most = Math.max(64, 12 + Math.min(MOST_LETTERS, across) * LETTER);
    this.width = Math.max(2.5, Math.min(most, (room - this.left - 12) / a.labels.length));
    this.height = Math.max(4, Math.min(30, 460 / b.labels.length));
    this.bottom = TOP + b.labels.length * this.height;
    this.most = Math.max(...this.values.map((row) => Math.max(...row)), 1e-9);
    this.mark = element("rect", {
      class: "mark",
      fill: "none",
      stroke: "#0b7fab",
      "stroke-width": 2,
      "pointer-events": "none",
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
    this.#listen();
  }

  /** What the cells show: counts, or shares of what the row, the column or all cells count. */
  #values() {
    const { estimate } = this.answer;
    const sum = (values) => values.reduce((total, value) => total + Math.max(0, value), 0);
    if (this.cells === "records") return estimate;
    const rows = estimate.map(sum);
    const all = sum(rows);
    const columns = this.a.labels.map((_, i) => sum(estimate.map((row) => row[i])));
    const whole = (i, j) => ({ row: rows[j], column: columns[i], all })[this.cells];
    return estimate.map((row, j) =>
      row.map((value, i) => (whole(i, j) > 0 ? Math.max(0, value) / whole(i, j) : 0)),
    );
  }

  #told(value) {
    return this.cells === "records" ? inFull(value) : percent(value);
  }

  /** Under the cells: pale is pale in the dark, too. */
  #ground() {
    return element("rect", {
      x: this.left,
      y: TOP,
      width: this.a.labels.length * this.width,
      height: this.bottom - TOP,
      fill: "#ffffff",
    });
  }

  /** A path for each colour, pale and full; neighbours of one colour are one box where cells are fine. */
  #cells() {
    const {
      values: estimate,
      answer: { lower },
    } = this;
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
          .push(outline(this.left + i * this.width, TOP + j * this.height, wide, this.height - 0.4));
      }
    }
    return [...drawn].map(([look, boxes]) => {
      const [colour, opacity] = look.split(" ");
      return element("path", {
        class: "cells",
        d: boxes.join(""),
        fill: COLOURS[colour],
        "fill-opacity": opacity,
      });
    });
  }

  /** Numbers in the cells, where there is room: a table of two attributes. */
  #numbers() {
    if (this.width < 44 || this.height < 18) return [];
    const { lower } = this.answer;
    const isDark = (i, j) => lower[j][i] > 0 && this.values[j][i] >= this.most * (4 / COLOURS.length) ** 2;
    const place = (i, j) => [this.left + (i + 0.5) * this.width, TOP + (j + 0.5) * this.height + 4];
    return this.values.flatMap((row, j) =>
      row.map((value, i) =>
        text(...place(i, j), this.#told(value), {
          "text-anchor": "middle",
          fill: isDark(i, j) ? "#ffffff" : "#1d2733",
          "fill-opacity": lower[j][i] > 0 ? 1 : 0.6,
          "pointer-events": "none",
        }),
      ),
    );
  }

  #outlines(blocks) {
    const line = ([x1, x2, y1, y2]) =>
      outline(
        this.left + x1 * this.width,
        TOP + y1 * this.height,
        (x2 - x1) * this.width,
        (y2 - y1) * this.height,
      );
    return blocks.length
      ? [
          element("path", {
            class: "blocks",
            d: blocks.map(line).join(""),
            fill: "none",
            stroke: "#0b7fab",
            "stroke-width": 0.5,
          }),
        ]
      : [];
  }

  #names() {
    const { a, b } = this;
    const every = Math.ceil(b.labels.length / 26);
    const wide = Math.max(1, Math.ceil(60 / this.width));
    const room = Math.floor((wide * this.width - 4) / LETTER);
    // A name for every cell stands in its middle; one for several at their beginning.
    const place = (i) => this.left + (wide === 1 ? i + 0.5 : i) * this.width;
    const anchor = wide === 1 ? { "text-anchor": "middle" } : {};
    const parts = [];
    b.labels.forEach((label, j) => {
      if (j % every === 0)
        parts.push(
          text(this.left - 5, TOP + (j + 0.5) * this.height + 4, brief(label, MOST_LETTERS), {
            "text-anchor": "end",
          }),
        );
    });
    a.labels.forEach((label, i) => {
      if (i % wide === 0 && (a.labels.length - i) * this.width > 40)
        parts.push(text(place(i), this.bottom + 15, brief(label, room), anchor));
    });
    return parts;
  }

  /**
   * Two rows of colours: as they are, and pale. The scale is that of square roots, so half-way stands for a
   * quarter.
   */
  #legend() {
    const swatch = (k, y, opacity) =>
      element("rect", {
        x: this.left + k * SWATCH,
        y,
        width: SWATCH,
        height: 8,
        fill: COLOURS[k],
        "fill-opacity": opacity,
      });
    const whole = { row: "the row", column: "the column", all: "all" }[this.cells];
    const end = this.left + COLOURS.length * SWATCH;
    const y = this.bottom + 28;
    return [
      element("rect", { x: this.left, y, width: COLOURS.length * SWATCH, height: 18, fill: "#ffffff" }),
      ...COLOURS.map((_, k) => swatch(k, y, 1)),
      ...COLOURS.map((_, k) => swatch(k, y + 10, PALE)),
      text(this.left, y + 46, `pale: cannot be told from 0${whole ? `; percent of ${whole}` : ""}`),
      text(this.left, y + 31, "0"),
      text(this.left + (COLOURS.length * SWATCH) / 2, y + 31, this.#told(this.most / 4), {
        "text-anchor": "middle",
      }),
      text(end, y + 31, `${this.#told(this.most)}${this.cells === "records" ? " records" : ""}`, {
        "text-anchor": "end",
      }),
    ];
  }

  /** Put the mark on cells and read the last one. */
  #point([i, j], [i0, j0] = [i, j]) {
    const {
      a,
      b,
      answer: { estimate, lower, upper },
    } = this;
    this.cell = [i, j];
    set(this.mark, "x", String(tidy(this.left + Math.min(i, i0) * this.width)));
    set(this.mark, "y", String(tidy(TOP + Math.min(j, j0) * this.height)));
    set(this.mark, "width", String(tidy((Math.abs(i - i0) + 1) * this.width)));
    set(this.mark, "height", String(tidy((Math.abs(j - j0) + 1) * this.height)));
    set(this.mark, "visibility", "visible");
    const whole = { row: `${b.name} ${b.labels[j]}`, column: `${a.name} ${a.labels[i]}`, all: "all" }[
      this.cells
    ];
    const share = whole ? `, ${percent(this.values[j][i])} of ${whole}` : "";
    this.onRead(words(`${b.labels[j]} × ${a.labels[i]}`, estimate[j][i], lower[j][i], upper[j][i]) + share);
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

  #listen() {
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
