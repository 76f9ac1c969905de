// The page: puts charts, filter, history and panels together. Every gesture asks the server once; the newest answer wins.

import { ask, forget, get } from "./api.js";
import { Chart } from "./chart.js";
import { Closer } from "./closer.js";
import { element, shown } from "./parts.js";
import { histogramPicture, savePicture } from "./picture.js";
import { State, condition } from "./state.js";

const $ = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.state = new State();
    this.charts = new Map();
    this.closer = new Closer(this);
    $("run").addEventListener("click", () => this.runText());
    $("where").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.runText(); } });
    $("undo").addEventListener("click", () => { this.state.undo(); this.show(); });
    $("redo").addEventListener("click", () => { this.state.redo(); this.show(); });
    $("reset").addEventListener("click", () => { this.state.change({}); this.show(); });
    $("share").addEventListener("click", () => this.copy(location.href, "Link copied"));
    $("copy-sql").addEventListener("click", () => this.copy(`SELECT COUNT(*) FROM view${this.state.where() ? ` WHERE ${this.state.where()}` : ""}`, "SQL copied"));
    $("copy-python").addEventListener("click", () => this.copy(this.python(), "Python copied"));
    $("view").addEventListener("change", () => this.open($("view").value, ""));
    $("theme").addEventListener("click", () => this.switchTheme());
    $("trust-open").addEventListener("click", () => $("trust").showModal());
    window.addEventListener("hashchange", () => { if (location.hash !== this.link) this.open(this.viewOf(location.hash) ?? this.view, location.hash); });
    document.addEventListener("keydown", (event) => {
      const typing = /^(TEXTAREA|INPUT|SELECT)$/.test(event.target.tagName);
      if ((event.ctrlKey || event.metaKey) && event.key === "z" && !typing) { event.preventDefault(); this.state[event.shiftKey ? "redo" : "undo"](); this.show(); }
    });
  }

  async start() {
    this.views = await get("/api/views");
    $("view").replaceChildren(...this.views.map((v) => element("option", { value: v.name }, v.name)));
    const wanted = this.viewOf(location.hash);
    await this.open(this.views.some((v) => v.name === wanted) ? wanted : this.views[0].name, location.hash);
  }

  viewOf(hash) { return new URLSearchParams(hash.slice(1)).get("view"); }

  async open(view, hash) {
    forget();
    this.view = view;
    $("view").value = view;
    const schema = await get(`/api/schema?view=${encodeURIComponent(view)}`);
    if (view !== this.view) return; // meanwhile another one was chosen
    this.schema = schema;
    this.moving = null;
    this.state = new State();
    this.state.attributes = this.schema.attributes;
    this.state.fromLink(hash);
    this.charts = new Map(this.schema.attributes.map((a) => [a.name, new Chart(a, (filter, moving) => this.filter(a.name, filter, moving), (chart, kind) => this.savePicture(chart, kind))]));
    $("charts").replaceChildren(...[...this.charts.values()].map((chart) => chart.card));
    $("budget").textContent = `${this.spent()}, about ${shown(this.schema.estimated_records)} records, ${shown(this.schema.n_blocks)} blocks`;
    $("banner").hidden = this.schema.private;
    $("banner").textContent = this.schema.private ? "" : `This view is NOT PRIVATE: ${this.schema.not_private_because.join("; ")}.`;
    this.trust();
    this.closer.setUp(this.schema);
    await this.show();
  }

  /** A chart's filter changed; while the mouse still moves, one step of history is kept for the whole gesture. */
  filter(name, filter, moving = false) {
    if (this.moving === name) { const past = this.state.past; this.state.set(name, filter); past.pop(); } else this.state.set(name, filter);
    this.moving = moving ? name : null;
    return this.show(moving);
  }

  runText() {
    const text = $("where").value.trim();
    if (text === (this.state.where() ?? "")) return this.show();
    this.state.change({}, text || null);
    return this.show();
  }

  async show(moving = false) {
    const where = this.state.where(), own = {}, turn = this.turn = (this.turn ?? 0) + 1;
    delete document.body.dataset.shown;
    if (!this.state.custom) for (const name of Object.keys(this.state.filters)) own[name] = this.state.where(name);
    if (document.activeElement !== $("where") || !moving) $("where").value = where ?? "";
    this.link = this.state.toLink(this.view);
    if (!moving) history.replaceState(null, "", this.link);
    this.chips();
    $("undo").disabled = !this.state.past.length;
    $("redo").disabled = !this.state.future.length;
    $("reset").disabled = where === null;
    try {
      const answer = await ask("/api/histograms", { view: this.view, where, own });
      if (!answer) return;
      $("error").textContent = "";
      this.draw(answer);
      if (!moving) await this.closer.refresh();
    } catch (problem) { $("error").textContent = `${problem.message} (Count and charts still show the last filter that worked.)`; }
    if (turn === this.turn) document.body.dataset.shown = where ?? "everything"; // at rest: for whoever waits for the page, such as a test
  }

  draw({ count, histograms }) {
    $("count").textContent = shown(count.estimate);
    $("count").dataset.value = count.estimate;
    $("interval").replaceChildren(
      element("span", { title: "Holds the true count about 95 times in 100" }, `95 % typical: ${shown(count.lower)} to ${shown(count.upper)}`),
      element("span", { title: "Holds the true count in 95 of 100 cases, whatever the data" }, `guaranteed: ${shown(count.guaranteed[0])} to ${shown(count.guaranteed[1])}`));
    $("verdict").textContent = count.lower <= 0 ? "Not distinguishable from 0: noise and uneven blocks alone could make this count." : "";
    for (const [name, chart] of this.charts) if (histograms[name]) chart.draw(histograms[name], this.state.custom ? null : this.state.filters[name]);
  }

  chips() {
    const active = this.schema.attributes.filter((a) => this.state.filters[a.name]);
    const chips = active.map((a) => element("button", { "aria-label": `Remove the filter on ${a.name}`, onclick: () => this.filter(a.name, null) }, `${condition(a, this.state.filters[a.name])} ✕`));
    if (this.state.custom) chips.push(element("button", { onclick: () => { this.state.change({}); this.show(); } }, "written by hand ✕"));
    $("chips").replaceChildren(...chips);
  }

  python() {
    const where = this.state.where();
    return `import hdpview as hv\n\nview = hv.open(${JSON.stringify(this.view)})\nview.count(${where ? JSON.stringify(where) : ""})\n`;
  }

  savePicture(chart, kind) {
    if (!chart.data) return;
    const own = this.state.custom ?? this.state.where(chart.attribute.name), name = chart.attribute.name;
    const caption = `${own ? own.slice(0, 90) : "all records"}; lines are 95 % intervals; ${this.spent()}`;
    savePicture(histogramPicture(chart.attribute, chart.data, caption, shown), name.replace(/[^\w-]+/g, "_"), kind).catch((problem) => { $("error").textContent = problem.message; });
  }

  async copy(text, said) {
    try { await navigator.clipboard.writeText(text); $("said").textContent = said; } catch { window.prompt("Copy this:", text); }
    setTimeout(() => { $("said").textContent = ""; }, 2000);
  }

  switchTheme() {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  }

  spent() {
    return `ε = ${this.schema.epsilon}${this.schema.delta ? `, δ = ${this.schema.delta}` : ""}`;
  }

  trust() {
    const s = this.schema, list = element("dl");
    const add = (term, ...texts) => list.append(element("dt", {}, term), ...texts.map((text) => element("dd", {}, ...[text].flat())));
    add("Who is protected", `Every ${s.privacy_unit === "row" ? "record" : s.privacy_unit}: the view is nearly as likely with it as without it (${s.neighbours}).`);
    add(s.delta ? "What ε and δ mean" : "What ε means", `${this.spent()}. ${s.risk}`);
    add("What it was spent on", ...Object.entries(s.spending).map(([purpose, epsilon]) => `${purpose}: ${Number(epsilon.toPrecision(4))}`));
    add("Method", `${s.method}; ${shown(s.n_blocks)} blocks over ${s.n_cells.toExponential(1)} cells; hdpview ${s.library_version}`);
    add("What was assumed public", ...s.attributes.map((a) => [element("strong", {}, a.name), ` (${a.kind}): ${a.labels[0]} … ${a.labels.at(-1)}; ${a.strays}`]));
    add("What the intervals mean", "Typical (shown): holds about 95 % of true counts; a model of how unevenly records lie in blocks, measured on real data.",
      "Guaranteed: holds whatever the data; wide where a question cuts through blocks.", `A count under ranges of two attributes means something from about ${shown(s.meaningful_from.two_way_range)} records on.`);
    $("trust").replaceChildren(element("h2", { id: "trust-title", tabindex: -1, autofocus: true }, "What is protected, and what this shows"), list, element("p", {}, element("button", { class: "primary", onclick: () => $("trust").close() }, "Close")));
  }
}

const page = new Page();
page.start().catch((problem) => { $("error").textContent = problem.message; });
