// Look closer: two attributes as a heatmap, group-by, means and quantiles, two filters side by side. All by SQL, under the active filter.

import { ask, file } from "./api.js";
import { element, shown, words } from "./parts.js";
import { save, saveList, savePicture } from "./picture.js";
import { quoted } from "./state.js";

const COLOURS = ["#fdf6e3", "#f6d7a7", "#eeb479", "#de8a5a", "#c25f4f", "#963f4f", "#62294d", "#2f1a3d"]; // light to dark in grey, too

const signed = (x) => shown(x).replace("-", "−");

const selectOf = (label, names, chosen) => {
  const made = element("select", { "aria-label": label }, ...names.map((name) => element("option", { value: name }, name || "nothing else")));
  made.value = chosen ?? names[0];
  return made;
};

export class Closer {
  constructor(page) {
    this.page = page;
    this.tabs = [...document.querySelectorAll('[role="tab"]')];
    this.tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => this.open(i));
      tab.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (move) { const next = (i + move + this.tabs.length) % this.tabs.length; this.open(next); this.tabs[next].focus(); }
      });
    });
    this.current = 0;
  }

  setUp(schema) {
    const names = schema.attributes.map((a) => a.name);
    this.schema = schema;
    this.kept = null;
    this.hasKept = false;
    const ordered = schema.attributes.filter((a) => a.ends).map((a) => a.name);
    this.#heatmapPanel(names, ordered);
    this.#tablePanel(names);
    this.#numbersPanel(schema.attributes.filter((a) => a.kind === "integer" || a.kind === "real").map((a) => a.name));
    this.#comparePanel();
  }

  open(i) {
    this.current = i;
    this.tabs.forEach((tab, j) => {
      tab.setAttribute("aria-selected", String(i === j));
      tab.tabIndex = i === j ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = i !== j;
    });
    this.refresh();
  }

  refresh() { return [() => this.heatmap(), () => this.table(), () => this.numbers(), () => this.compare()][this.current]().catch((p) => this.#say(p.message)); }

  from() { const where = this.page.state.where(); return `FROM view${where ? ` WHERE ${where}` : ""}`; }
  sql(text, kind) { return ask("/api/sql", { sql: text, view: this.page.view }, kind); }
  #panel(i) { return document.getElementById(this.tabs[i].getAttribute("aria-controls")); }
  #say(text) { this.#panel(this.current).querySelector(".result")?.replaceChildren(element("p", { class: "error" }, text)); }

  #heatmapPanel(names, ordered) {
    this.x = selectOf("Across", names, ordered[0] ?? names[0]);
    this.y = selectOf("Down", names, names.find((n) => n !== this.x.value) ?? names[0]);
    this.x.addEventListener("change", () => this.refresh());
    this.y.addEventListener("change", () => this.refresh());
    this.map = element("div", { class: "result scroll" });
    this.blocks = element("input", { type: "checkbox", id: "blocks", onchange: () => this.refresh() });
    const saved = saveList("the heatmap", ["PNG", "SVG"], (kind) => this.picture && savePicture(this.picture, "heatmap", kind).catch((p) => this.#say(p.message)));
    const copy = element("button", { onclick: () => this.#copyPython(`view.plot.heatmap(${JSON.stringify(this.x.value)}, ${JSON.stringify(this.y.value)}${this.page.state.where() ? `, ${JSON.stringify(this.page.state.where())}` : ""})`) }, "Copy Python");
    this.#panel(0).replaceChildren(element("div", { class: "controls" }, "across", this.x, "down", this.y, element("label", {}, this.blocks, " draw the blocks"), saved, copy),
      element("div", { class: "tip", id: "cell" }, "point at a cell to read it"), this.map);
  }

  async heatmap() {
    const [a, b] = [this.x.value, this.y.value].map((name) => this.schema.attributes.find((x) => x.name === name));
    if (a === b) { this.map.replaceChildren(element("p", {}, "Choose two different attributes.")); return; }
    const answer = await ask("/api/pairs", { view: this.page.view, where: this.page.state.where(), first: b.name, second: a.name }, "pairs");
    if (!answer) return;
    const drawn = this.blocks.checked ? await ask("/api/blocks", { view: this.page.view, first: a.name, second: b.name }, "blocks") : null;
    this.picture = this.#drawHeatmap(a, b, answer, drawn?.blocks ?? []);
    const notes = ["Pale cells cannot be told from 0: their interval reaches it."];
    if (drawn) notes.push(drawn.of > drawn.blocks.length ? `Lines: the ${shown(drawn.blocks.length)} largest of ${shown(drawn.of)} outlines of blocks.` : `Lines: outlines of the view's blocks, ${shown(drawn.of)} different ones. Inside a block the view knows one number.`);
    this.map.replaceChildren(this.picture, element("p", { class: "quiet" }, notes.join(" ")));
  }

  #drawHeatmap(a, b, { estimate, lower, upper }, blocks) {
    const longest = Math.min(18, Math.max(...b.labels.map((label) => label.length))), left = 14 + longest * 6, top = 4;
    const room = this.map.clientWidth - left - 12;
    const cell = Math.max(2.5, Math.min(64, room / a.labels.length)), height = Math.max(4, Math.min(30, 460 / b.labels.length)), bottom = top + b.labels.length * height;
    const most = Math.max(...estimate.map((row) => Math.max(...row)), 1e-9), tell = document.getElementById("cell"), parts = [];
    const colour = (value) => COLOURS[Math.min(COLOURS.length - 1, Math.floor(Math.sqrt(value / most) * COLOURS.length))];
    const text = (x, y, content, more = {}) => element("text", { x, y, "font-size": 11, fill: "currentColor", ...more }, content);
    const cut = (label, n) => (label.length > n ? label.slice(0, n - 1) + "…" : label);
    parts.push(element("rect", { x: left, y: top, width: a.labels.length * cell, height: b.labels.length * height, fill: "#ffffff" })); // pale is pale in the dark, too
    estimate.forEach((row, j) => row.forEach((value, i) => {
      const said = words(`${b.labels[j]} × ${a.labels[i]}`, value, lower[j][i], upper[j][i]);
      parts.push(element("rect", { x: left + i * cell, y: top + j * height, width: cell - 0.4, height: height - 0.4, fill: colour(value), "fill-opacity": lower[j][i] <= 0 ? 0.4 : 1,
        onpointerenter: () => { tell.textContent = said; } }, element("title", {}, said)));
    }));
    for (const [x1, x2, y1, y2] of blocks) parts.push(element("rect", { x: left + x1 * cell, y: top + y1 * height, width: (x2 - x1) * cell, height: (y2 - y1) * height, fill: "none", stroke: "#0b7fab", "stroke-width": 0.5, "pointer-events": "none" }));
    const every = Math.ceil(b.labels.length / 26);
    b.labels.forEach((label, j) => { if (j % every === 0) parts.push(text(left - 5, top + (j + 0.5) * height + 4, cut(label, 18), { "text-anchor": "end" })); });
    const wide = Math.max(1, Math.ceil(74 / cell));
    a.labels.forEach((label, i) => { if (i % wide === 0 && (a.labels.length - i) * cell > 40) parts.push(text(left + i * cell, bottom + 15, cut(label, 12))); });
    COLOURS.forEach((fill, k) => parts.push(element("rect", { x: left + k * 26, y: bottom + 28, width: 26, height: 10, fill })));
    parts.push(text(left, bottom + 51, "0"), text(left + COLOURS.length * 26, bottom + 51, `${shown(most)} records`, { "text-anchor": "end" }));
    return element("svg", { width: Math.ceil(left + Math.max(a.labels.length * cell, COLOURS.length * 26) + 8), height: Math.ceil(bottom + 58), role: "img", "aria-label": `Records by ${a.name} and ${b.name}; the same numbers are under Group by` }, ...parts);
  }

  #copyPython(call) { this.page.copy(`import hdpview as hv\n\nview = hv.open(${JSON.stringify(this.page.view)})\n${call}\n`, "Python copied"); }

  #tablePanel(names) {
    this.group = selectOf("Group by", names);
    this.group2 = selectOf("and by", ["", ...names], "");
    for (const pick of [this.group, this.group2]) pick.addEventListener("change", () => this.refresh());
    this.rows = element("div", { class: "result scroll" });
    const saved = saveList("the table", ["CSV", "Parquet"], (kind) => this.#saveTable(kind.toLowerCase()).catch((p) => this.#say(p.message)));
    const copy = element("button", { onclick: () => this.#copyPython(`view.sql(${JSON.stringify(this.tableSql)})`) }, "Copy Python");
    const copySql = element("button", { onclick: () => this.page.copy(this.tableSql, "SQL copied") }, "Copy SQL");
    this.#panel(1).replaceChildren(element("div", { class: "controls" }, "by", this.group, "and", this.group2, saved, copySql, copy), this.rows);
  }

  async table() {
    const by = [...new Set([this.group.value, this.group2.value].filter(Boolean))].map(quoted).join(", ");
    this.tableSql = `SELECT ${by}, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share ${this.from()} GROUP BY ${by} ORDER BY n DESC LIMIT 500`;
    const answer = await this.sql(this.tableSql, "table");
    if (!answer) return;
    this.rows.replaceChildren(asTable(answer), element("p", { class: "quiet" }, "Values in italics cannot be told from 0: their interval reaches it. Noise and uneven blocks alone could make them."));
  }

  async #saveTable(format) { save(`groups.${format}`, await file("/api/table", { view: this.page.view, sql: this.tableSql, format })); }

  #numbersPanel(names) {
    this.numeric = names;
    this.#panel(2).replaceChildren(element("div", { class: "result scroll" }));
  }

  async numbers() {
    const result = this.#panel(2).querySelector(".result");
    if (!this.numeric.length) { result.replaceChildren(element("p", {}, "This view has no attribute that is a number.")); return; }
    const parts = this.numeric.flatMap((name, i) => { const x = quoted(name); return [`AVG(${x}) AS mean_${i}`, `quantile_cont(${x}, 0.25) AS q1_${i}`, `MEDIAN(${x}) AS median_${i}`, `quantile_cont(${x}, 0.75) AS q3_${i}`]; });
    const answer = await this.sql(`SELECT ${parts.join(", ")} ${this.from()}`, "numbers");
    if (!answer) return;
    const [row] = answer.rows;
    const rows = this.numeric.map((name, i) => {
      const ends = this.schema.attributes.find((a) => a.name === name).ends.map(Number), span = ends.at(-1) - ends[0];
      const cell = (key) => {
        const [value, low, high] = ["", "_lower", "_upper"].map((end) => row[`${key}_${i}${end}`]);
        const blank = typeof low !== "number" || typeof high !== "number" || high - low > 0.8 * span;
        const told = typeof value !== "number" ? "—" : element("span", {}, element("strong", {}, shown(value)), typeof low === "number" && typeof high === "number" ? ` (${shown(low)} to ${shown(high)})` : " (no bound)");
        return element("td", { class: blank ? "faint" : null }, told, blank && typeof value === "number" ? element("small", {}, "says nothing: could be almost anywhere") : "");
      };
      return element("tr", {}, element("th", { scope: "row" }, name), ...["mean", "q1", "median", "q3"].map(cell));
    });
    const heads = ["attribute", "mean", "a quarter lies below", "median", "three quarters lie below"];
    result.replaceChildren(element("table", { class: "numbers" }, element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))), element("tbody", {}, ...rows)),
      element("p", { class: "quiet" }, "In brackets: 95 % typical intervals. Bins count as their middle."));
  }

  #comparePanel() {
    this.sides = element("div", { class: "result" });
    const keep = element("button", { onclick: () => { this.kept = this.page.state.where(); this.hasKept = true; this.refresh(); } }, "Keep the active filter as A");
    this.#panel(3).replaceChildren(element("div", { class: "controls" }, keep, element("span", { class: "quiet" }, "then change the filter: it is B")), this.sides);
  }

  async compare() {
    if (!this.hasKept) { this.sides.replaceChildren(element("p", {}, "Keep a filter first, change it, and see whether the two counts really differ.")); return; }
    const second = this.page.state.where();
    const answer = await ask("/api/compare", { view: this.page.view, first: this.kept, second }, "compare");
    if (!answer) return;
    const side = (name, where, found) => element("div", {}, element("h3", {}, name), element("code", {}, where ?? "everything"),
      element("p", {}, element("strong", {}, shown(found.estimate)), ` (${shown(found.lower)} to ${shown(found.upper)})`));
    const [low, high] = answer.ratio_interval;
    const ratio = answer.ratio === null || high === null ? "The ratio has no bound: B may be 0." : `A is ${answer.ratio.toFixed(2)} times B (${low.toFixed(2)} to ${high.toFixed(2)}).`;
    this.sides.replaceChildren(element("div", { class: "side" }, side("A", this.kept, answer.first), side("B", second, answer.second)),
      element("p", {}, element("strong", {}, answer.is_real ? "A and B really differ. " : "A and B cannot be told apart. "), `A − B is ${signed(answer.difference)} (95 % typical: ${answer.difference_interval.map(signed).join(" to ")}). ${ratio}`));
  }
}

/** A result as a table: each aggregate with its interval in one cell; rows that may be nothing but noise say so. */
export function asTable({ columns, rows, aggregates = [] }) {
  const ends = new Set(aggregates.flatMap((name) => [`${name}_lower`, `${name}_upper`])), seen = columns.filter((column) => !ends.has(column));
  const number = (value) => (value === null || value === undefined ? "—" : typeof value !== "number" ? String(value) : Math.abs(value) < 10 ? String(Number(value.toPrecision(3))) : shown(value));
  const told = (row, key, column) => (column === "share" && typeof row[key] === "number" ? `${(100 * row[key]).toFixed(1)} %` : number(row[key]));
  const isNumber = (column) => rows.some((row) => typeof row[column] === "number");
  const faint = (row) => aggregates.length > 0 && typeof row[`${aggregates[0]}_lower`] === "number" && row[`${aggregates[0]}_lower`] <= 0;
  const cells = (row, column) => {
    const made = [element("td", { class: isNumber(column) ? "number" : null }, told(row, column, column))];
    if (aggregates.includes(column)) made.push(element("td", { class: "quiet interval" }, `${told(row, `${column}_lower`, column).replace(/ %$/, "")} to ${told(row, `${column}_upper`, column)}`));
    return made;
  };
  const heads = seen.flatMap((column) => [element("th", { class: isNumber(column) ? "number" : null, scope: "col" }, column === "n" ? "records" : column), ...(aggregates.includes(column) ? [element("th", { scope: "col", class: "quiet" }, "95 % typical")] : [])]);
  return element("table", {},
    element("thead", {}, element("tr", {}, ...heads, element("th", { scope: "col", class: "worth" }, element("span", { class: "hidden" }, "What it is worth")))),
    element("tbody", {}, ...rows.map((row) => element("tr", { class: faint(row) ? "faint" : null }, ...seen.flatMap((column) => cells(row, column)), element("td", { class: "worth" }, faint(row) ? "not distinguishable from 0" : "")))));
}
