// Look closer: two attributes as a heatmap, group-by, means and quantiles, two filters side by side. All by SQL, under the active filter.

import { ask } from "./api.js";
import { element, shown, words } from "./chart.js";
import { quoted } from "./state.js";

const COLOURS = ["#fdf6e3", "#f6d7a7", "#eeb479", "#de8a5a", "#c25f4f", "#963f4f", "#62294d", "#2f1a3d"]; // light to dark in grey, too

const selectOf = (label, names, chosen) => {
  const made = element("select", { "aria-label": label }, ...names.map((name) => element("option", { value: name }, name)));
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
    const ordered = schema.attributes.filter((a) => a.ends).map((a) => a.name);
    this.#heatmapPanel(names, ordered);
    this.#tablePanel(names, ordered);
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
    const save = element("button", { onclick: () => this.#savePicture() }, "Save as SVG");
    this.#panel(0).replaceChildren(element("div", { class: "controls" }, "across", this.x, "down", this.y, save, element("span", { class: "tip", id: "cell" })), this.map);
  }

  async heatmap() {
    const [a, b] = [this.x.value, this.y.value].map((name) => this.schema.attributes.find((x) => x.name === name));
    if (a === b) { this.map.replaceChildren(element("p", {}, "Choose two different attributes.")); return; }
    const answer = await ask("/api/pairs", { view: this.page.view, where: this.page.state.where(), first: b.name, second: a.name }, "pairs");
    if (!answer) return;
    const { estimate, lower, upper } = answer;
    const top = Math.max(...estimate.flat(), 1e-9), cell = Math.max(3, Math.min(26, 900 / a.labels.length)), height = Math.max(4, Math.min(24, 460 / b.labels.length));
    const tell = document.getElementById("cell"), parts = [];
    estimate.forEach((row, j) => row.forEach((value, i) => {
      const faint = lower[j][i] <= 0, colour = COLOURS[Math.min(COLOURS.length - 1, Math.floor(Math.sqrt(value / top) * COLOURS.length))];
      const text = words(`${b.labels[j]} × ${a.labels[i]}`, value, lower[j][i], upper[j][i]);
      parts.push(element("rect", { x: 92 + i * cell, y: 4 + j * height, width: cell - 0.4, height: height - 0.4, fill: colour, "fill-opacity": faint ? 0.35 : 1,
        onpointerenter: () => { tell.textContent = text; } }, element("title", {}, text)));
    }));
    const every = Math.ceil(b.labels.length / 26);
    b.labels.forEach((label, j) => { if (j % every === 0) parts.push(element("text", { x: 88, y: 4 + (j + 0.72) * height, "text-anchor": "end", "font-size": 10, fill: "currentColor" }, label.slice(0, 15))); });
    const wide = Math.ceil(a.labels.length / 14), bottom = 18 + b.labels.length * height;
    a.labels.forEach((label, i) => { if (i % wide === 0) parts.push(element("text", { x: 92 + i * cell, y: bottom, "font-size": 10, fill: "currentColor" }, label.slice(0, 11))); });
    this.picture = element("svg", { width: 100 + a.labels.length * cell, height: bottom + 8, role: "img", "aria-label": `Records by ${a.name} and ${b.name}; pale cells cannot be told from 0` }, ...parts);
    this.map.replaceChildren(this.picture);
  }

  #savePicture() { if (this.picture) save("heatmap.svg", "image/svg+xml", new XMLSerializer().serializeToString(this.picture)); }

  #tablePanel(names, ordered) {
    this.group = selectOf("Group by", names);
    this.group2 = selectOf("and by", ["", ...names], "");
    for (const pick of [this.group, this.group2]) pick.addEventListener("change", () => this.refresh());
    this.rows = element("div", { class: "result scroll" });
    const csv = element("button", { onclick: () => this.tableAnswer && save("groups.csv", "text/csv", toCsv(this.tableAnswer)) }, "Save as CSV");
    this.#panel(1).replaceChildren(element("div", { class: "controls" }, "by", this.group, "and", this.group2, csv), this.rows);
    void ordered;
  }

  async table() {
    const by = [...new Set([this.group.value, this.group2.value].filter(Boolean))].map(quoted).join(", ");
    this.tableSql = `SELECT ${by}, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share ${this.from()} GROUP BY ${by} ORDER BY n DESC LIMIT 500`;
    const answer = await this.sql(this.tableSql, "table");
    if (!answer) return;
    this.tableAnswer = answer;
    this.rows.replaceChildren(asTable(answer), element("p", { class: "quiet" }, "Values in italics cannot be told from 0: their interval reaches it."));
  }

  #numbersPanel(names) {
    this.numeric = names;
    this.#panel(2).replaceChildren(element("div", { class: "result scroll" }));
  }

  async numbers() {
    const result = this.#panel(2).querySelector(".result");
    if (!this.numeric.length) { result.replaceChildren(element("p", {}, "This view has no attribute that is a number.")); return; }
    const rows = [];
    for (const name of this.numeric) {
      const x = quoted(name);
      const answer = await this.sql(`SELECT AVG(${x}) AS mean, quantile_cont(${x}, 0.25) AS q1, MEDIAN(${x}) AS median, quantile_cont(${x}, 0.75) AS q3 ${this.from()}`, `numbers ${name}`);
      if (!answer) return;
      rows.push({ attribute: name, ...answer.rows[0] });
    }
    const columns = ["attribute", "mean", "mean_lower", "mean_upper", "q1", "median", "median_lower", "median_upper", "q3"];
    result.replaceChildren(asTable({ columns, rows, aggregates: [] }));
  }

  #comparePanel() {
    this.kept = this.kept ?? null;
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
      element("p", {}, element("strong", {}, answer.is_real ? "A and B really differ. " : "A and B cannot be told apart. "), `Difference: ${answer.words}. ${ratio}`));
  }
}

export function asTable({ columns, rows, aggregates = [] }) {
  const isNumber = (column) => rows.some((row) => typeof row[column] === "number");
  const faint = (row) => aggregates.length > 0 && typeof row[`${aggregates[0]}_lower`] === "number" && row[`${aggregates[0]}_lower`] <= 0;
  const text = (value) => (value === null || value === undefined ? "—" : typeof value === "number" ? (Math.abs(value) < 10 ? value.toPrecision(3) : shown(value)) : String(value));
  return element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map((c) => element("th", { class: isNumber(c) ? "number" : null, scope: "col" }, c)))),
    element("tbody", {}, ...rows.map((row) => element("tr", { class: faint(row) ? "faint" : null }, ...columns.map((c) => element("td", { class: isNumber(c) ? "number" : null }, text(row[c])))))));
}

export function toCsv({ columns, rows }) {
  const cell = (value) => (/[",\n]/.test(String(value ?? "")) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return [columns, ...rows.map((row) => columns.map((c) => row[c]))].map((line) => line.map(cell).join(",")).join("\n") + "\n";
}

export function save(name, type, content) {
  const link = element("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
