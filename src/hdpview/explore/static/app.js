// The page: puts charts, filter, history and panels together. Every gesture asks the server once; the newest answer wins.

import { ask, forget } from "./api.js";
import { Chart } from "./chart.js";
import { Closer } from "./closer.js";
import { brief, counted, dimmed, element, huge, inFull, inferred, inferredNote, say } from "./parts.js";
import { histogramPicture, savePicture } from "./picture.js";
import { State, inWords } from "./state.js";
import { facts, get, offline } from "./transport.js";

const $ = (id) => document.getElementById(id);
const fromLink = (hash, key) => new URLSearchParams(hash.slice(1)).get(key);

class Page {
  constructor() {
    this.state = new State();
    this.charts = new Map();
    this.closer = new Closer(this);
    $("run").addEventListener("click", () => this.runText());
    $("where").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.runText(); } });
    $("undo").addEventListener("click", () => { this.state.undo(); this.show(); });
    $("redo").addEventListener("click", () => { this.state.redo(); this.show(); });
    $("reset").addEventListener("click", () => { this.written = $("where").value; this.state.change({}); this.show(); });
    $("where").addEventListener("input", () => this.mark());
    $("share").addEventListener("click", () => this.copy(location.href, "Link copied"));
    $("copy-sql").addEventListener("click", () => this.copy(`SELECT COUNT(*) FROM view${this.state.where() ? ` WHERE ${this.state.where()}` : ""}`, "SQL copied"));
    $("copy-python").addEventListener("click", () => this.copy(this.python(), "Python copied"));
    $("view").addEventListener("change", () => this.open($("view").value, ""));
    $("theme").addEventListener("click", () => this.switchTheme());
    $("trust-open").addEventListener("click", () => { $("trust").showModal(); $("trust-title").focus(); }); // read from its beginning
    $("trust").addEventListener("click", (event) => { if (event.target === $("trust")) $("trust").close(); }); // beside what it says
    document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("charts").querySelector("[tabindex='0']")?.focus(); });
    $("log").addEventListener("change", () => { for (const chart of this.charts.values()) chart.rescale($("log").checked); });
    $("find").addEventListener("input", () => this.find());
    window.addEventListener("hashchange", () => this.follow(location.hash));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** Ctrl-Z takes back; Ctrl-Shift-Z and Ctrl-Y bring again. Where one types they belong to the text. */
  key(event) {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || !["z", "y"].includes(key) || event.target.matches("textarea, input:not([type=checkbox])")) return;
    event.preventDefault();
    this.state[key === "y" || event.shiftKey ? "redo" : "undo"]();
    this.show();
  }

  async start() {
    this.views = await get("/api/views");
    $("view").replaceChildren(...this.views.map((v) => element("option", { value: v.name }, v.name)));
    await this.open(this.served(location.hash) ?? this.views[0].name, location.hash);
  }

  /** The view that a link names, if it is served. */
  served(hash) { return this.views.find((v) => v.name === fromLink(hash, "view"))?.name; }

  /** The address changed from outside: back, forward, or another link. */
  follow(hash) {
    if (hash === this.link || !this.schema) return;
    const view = this.served(hash) ?? this.wanted;
    if (view !== this.view || view !== this.wanted) { this.open(view, hash, false); return; }
    this.link = hash;
    this.state.follow(hash);
    this.closer.take(fromLink(hash, "look"));
    this.show(false, false);
  }

  /** Write the address of what is shown; a step of its own for the browser's back button, unless the page is a frame in another. */
  remember(isStep) {
    const link = this.state.toLink(this.view, this.closer.look());
    if (link === this.link) return;
    try { history[isStep && this.link && window === window.top ? "pushState" : "replaceState"](null, "", link); } catch { /* some browsers refuse a hundred steps in half a minute */ }
    this.link = location.hash;
  }

  async open(view, hash, isStep = true) {
    this.wanted = view;
    $("view").value = view;
    const schema = await get(`/api/schema?view=${encodeURIComponent(view)}`);
    if (view !== this.wanted) return; // meanwhile another one was chosen
    forget();
    this.view = view;
    this.schema = schema;
    this.moving = null;
    this.answered = undefined; // what is shown is the other view's
    this.written = $("where").value;
    this.state = new State();
    this.state.attributes = this.schema.attributes;
    this.state.fromLink(hash);
    this.charts = new Map(this.schema.attributes.map((a) => [a.name, new Chart(a, (filter, moving) => this.filter(a.name, filter, moving), (chart, kind) => this.savePicture(chart, kind))]));
    $("charts").replaceChildren(...[...this.charts.values()].map((chart) => chart.card));
    $("find").value = "";
    for (const chart of this.charts.values()) chart.rescale($("log").checked);
    for (const id of offline ? ["view-label"] : []) $(id).hidden = true;
    document.title = `${view} – hdpview`;
    $("budget").textContent = `${this.spent()}, ${counted(this.schema.attributes.length, "attribute")}`;
    $("banner").hidden = this.schema.private;
    $("banner").textContent = this.schema.private ? "" : `This view is NOT PRIVATE. ${this.reasons()}`;
    say($("source"), this.schema.private ? "Answers come from a differentially private view." : "Answers come from a view that is NOT private.");
    this.trust();
    this.closer.setUp(this.schema);
    this.closer.take(fromLink(hash, "look"));
    await this.show(false, isStep);
  }

  /** A chart's filter changed; while the mouse still moves, one step of history is kept for the whole gesture. */
  filter(name, filter, moving = false) {
    this.state.set({ [name]: filter });
    if (this.moving === name) this.state.past.pop();
    this.moving = moving ? name : null;
    return this.show(moving);
  }

  /** Change the filters of several attributes as one step. */
  filterAll(changes) {
    this.state.set(changes);
    return this.show();
  }

  runText() {
    const text = $("where").value.trim();
    this.written = $("where").value;
    if (text === (this.state.where() ?? "")) return this.show();
    this.state.change({}, text || null);
    return this.show();
  }

  /** Ask for what the filter lets through and draw it. `moving`: a gesture goes on; `isStep`: the browser's back button leads here. */
  async show(moving = false, isStep = true) {
    const where = this.state.where(), own = {}, asked = this.state.snapshot(), turn = this.turn = (this.turn ?? 0) + 1;
    delete document.body.dataset.shown;
    for (const name of Object.keys(this.state.filters)) own[name] = this.state.where(name);
    this.write(where ?? "");
    if (!moving) this.remember(isStep);
    this.controls();
    try {
      const answer = await dimmed(document.body, ask("/api/histograms", { view: this.view, where, own }));
      if (!answer) return;
      $("error").textContent = "";
      this.answered = asked;
      this.filtered = answer.filtered;
      this.draw(answer);
      if (!moving) { this.speak(answer.count); await this.closer.refresh(); }
    } catch (problem) {
      $("error").textContent = `${problem.message} (Count and charts still show the last filter that worked.)`;
      if (turn === this.turn) await this.giveUp(problem.refused ? where : null);
    }
    if (turn === this.turn) document.body.dataset.shown = where ?? "everything"; // at rest: for whoever waits for the page, such as a test
  }

  /** There was no answer: the filter is again the one whose counts are shown. What was written stays in the field to be mended. */
  async giveUp(text) {
    const told = $("error").textContent;
    this.moving = null;
    if (this.answered !== undefined) this.state.withdraw(this.answered);
    else if (text !== null && this.state.custom) { // a link whose text was refused: nothing was shown before
      this.state.withdraw(null);
      await this.show(false, false);
    }
    this.remember(false);
    this.controls();
    this.write(this.state.where() ?? "");
    if (text !== null) this.written = $("where").value = text; // it was run: the next gesture may write over it
    this.mark();
    $("error").textContent = told;
    $("reset").disabled = false;
  }

  /** Put the filter into the field, unless somebody has typed there what was not run yet. */
  write(where) {
    if ($("where").value === (this.written ?? "")) $("where").value = where;
    this.written = where;
    this.mark();
  }

  /** Say whether the field differs from the filter that is shown. */
  mark() { say($("unrun"), $("where").value.trim() === (this.state.where() ?? "") ? "" : "Changed, not run yet."); }

  /** Chips and buttons, as the filter and its history are. */
  controls() {
    this.chips();
    $("undo").disabled = !this.state.past.length;
    $("redo").disabled = !this.state.future.length;
    $("reset").disabled = this.state.where() === null;
  }

  draw({ count, histograms, filtered }) {
    $("count").textContent = inFull(count.estimate);
    $("count").dataset.value = count.estimate;
    const ends = [element("span", { title: "95 % typical: such a range holds the true count about 95 times in 100" }, count.upper <= 0 && count.notes.length ? "how many is not known" : `likely ${inFull(count.lower)} to ${inFull(count.upper)}${this.share(count)}`)];
    if (count.guaranteed) ends.push(element("span", { title: "Such a range holds the true count at least 95 times in 100, whatever the data" }, `guaranteed: ${inFull(count.guaranteed[0])} to ${inFull(count.guaranteed[1])}`));
    $("interval").replaceChildren(...ends);
    const [verdict, why] = count.upper <= 0 ? ["No value of this view fits the filter", ""] : count.lower <= 0 ? ["Not distinguishable from 0: may be noise", "Noise and the model's error alone could make this count."] : ["", ""];
    say($("verdict"), verdict);
    $("verdict").title = why;
    this.tell([...count.notes, ...inferredNote(this.schema, filtered)]);
    for (const [name, chart] of this.charts) if (histograms[name]) chart.draw(histograms[name], this.state.filters[name], inferred(this.schema, name, filtered));
  }

  /** Show the charts of those attributes only whose name contains what is typed. */
  find() {
    const text = $("find").value.trim().toLowerCase();
    for (const [name, chart] of this.charts) chart.card.hidden = !name.toLowerCase().includes(text);
  }

  /** What part of all records that is, once a filter is set. */
  share({ estimate }) {
    const all = this.schema.estimated_records;
    return this.state.where() && all > 0 ? `; ${(100 * estimate / all).toFixed(1)} % of all` : "";
  }

  /** Sentences on what the filter meets: the first line is always there, all of them on request. */
  tell(notes) {
    say($("notes").querySelector("summary"), notes.join(" "));
    $("notes").querySelector("ul").replaceChildren(...notes.map((note) => element("li", {}, note)));
  }

  /** For screen readers: the count at the end of a gesture, not at each of its moves. */
  speak({ estimate, lower, upper }) { say($("spoken"), `About ${inFull(estimate)} records, likely ${inFull(lower)} to ${inFull(upper)}. ${$("verdict").textContent}. ${$("verdict").title}`); }

  chips() {
    const active = this.schema.attributes.filter((a) => this.state.filters[a.name]);
    const chips = active.map((a) => element("button", { "aria-label": `Remove the filter on ${inWords(a, this.state.filters[a.name])}`, onclick: () => this.filter(a.name, null) }, `${inWords(a, this.state.filters[a.name])} ✕`));
    if (this.state.custom) chips.unshift(element("button", { "aria-label": "Remove what was written by hand", onclick: () => { this.state.change(this.state.filters); this.show(); } }, "written by hand ✕"));
    $("chips").replaceChildren(...chips);
  }

  python() {
    const where = this.state.where();
    return `import hdpview as hv\n\nview = hv.open(${JSON.stringify(this.view)})\nview.count(${where ? JSON.stringify(where) : ""})\n`;
  }

  savePicture(chart, kind) {
    if (!chart.data) return;
    const { name } = chart.attribute, caption = this.caption(this.state.where(name), "lines are 95 % typical intervals, pale bars cannot be told from 0");
    savePicture(histogramPicture(chart.attribute, chart.data), [`Records by ${name}`, caption], name.replace(/[^\w-]+/g, "_"), kind).catch((problem) => { $("error").textContent = problem.message; });
  }

  /** What a saved picture shows, and whether it may be shown around. */
  caption(where, marks) { return `${where ? brief(where, 60) : "all records"}; ${marks ? `${marks}; ` : ""}${this.spent()}${this.schema.private ? "" : "; NOT PRIVATE"}`; }

  async copy(text, said) {
    try { await navigator.clipboard.writeText(text); $("said").textContent = said; } catch { window.prompt("Copy this:", text); }
    setTimeout(() => { $("said").textContent = ""; }, 2000);
  }

  switchTheme() {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* where nothing may be stored it lasts until the page is left */ }
  }

  /** Why a view is not private, as sentences. */
  reasons() { return this.schema.not_private_because.map((reason) => `${reason[0].toUpperCase()}${reason.slice(1)}.`).join(" "); }

  spent() {
    return `ε = ${this.schema.epsilon}${this.schema.delta ? `, δ = ${this.schema.delta}` : ""}`;
  }

  trust() {
    const s = this.schema, list = element("dl");
    const add = (term, ...texts) => list.append(element("dt", {}, term), ...texts.map((text) => element("dd", {}, ...[text].flat())));
    if (!s.private) add("NOT PRIVATE", `${this.reasons()} So the promise below does not hold.`);
    add("Who is protected", `Every ${s.privacy_unit === "row" ? "record" : s.privacy_unit}: the view is nearly as likely with it as without it (${s.neighbours}).`);
    add(s.delta ? "What ε and δ mean" : "What ε means", `${this.spent()}. ${s.risk}`);
    add("What it was spent on", ...Object.entries(s.spending).map(([purpose, epsilon]) => `${purpose}: ${Number(epsilon.toPrecision(4))}`));
    add("Method", `${s.method}; ${counted(s.n_components, s.made_of)} over ${huge(s.n_cells)} cells; hdpview ${s.library_version}`);
    add("What was assumed public", ...s.attributes.map((a) => [element("strong", {}, a.name), ` (${a.kind}): ${a.labels[0]} … ${a.labels.at(-1)}; ${a.strays}`]));
    add("What the intervals mean", `Typical (shown): holds the true count about 95 times in 100. It adds the noise to the error of the view's model, whose size was ${s.quality.measured ? "measured on the table itself" : "taken from other tables"}.`,
      "Guaranteed: holds it at least 95 times in 100, whatever the data; wide where a question is about combinations that were not counted.",
      ...Object.entries(s.quality.within).map(([kind, error]) => `Of ${kind}, 95 % are within ±${inFull(error)} records.`));
    const together = s.quality.known.filter(({ attributes }) => attributes.length === 2).map(({ attributes }) => attributes.join(" × "));
    if (s.made_of === "component") add("What was counted together", `${together.length} of ${s.quality.n_pairs} pairs of attributes${together.length ? `: ${together.join(", ")}.` : "."} All other relations are inferred, and may be flatter than they are.`);
    const own = facts();
    if (own) add("This page", `It holds the released view itself and answers from it in your browser: nothing is sent anywhere. Made ${s.created.slice(0, 10)} with hdpview ${s.library_version}. Checksum of the view: ${own.checksum}.`);
    if (own) list.append(element("dt", {}, own.title), ...own.card.flatMap(([title, lines]) => [element("dd", {}, element("strong", {}, title)), ...lines.map((line) => element("dd", {}, [line].flat().join(": ")))]));
    $("trust").replaceChildren(element("h2", { id: "trust-title", tabindex: -1 }, "What is protected, and what this shows"), list, element("p", { class: "last" }, element("button", { class: "primary", onclick: () => $("trust").close() }, "Close")));
  }
}

try { document.documentElement.dataset.theme = localStorage.getItem("theme") ?? ""; } catch { /* the system's scheme, then */ }
const page = new Page();
page.start().catch((problem) => { $("error").textContent = problem.message; });
