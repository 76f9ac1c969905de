// The page: connects charts, filter, history and panels. Every gesture sends one request; the newest wins.

import { ask, forget } from "./api.js";
import { Arrangement } from "./arrange.js";
import { Beside, shapeOf } from "./beside.js";
import { Chart } from "./chart.js";
import { Closer } from "./closer.js";
import { Columns } from "./columns.js";
import { download } from "./exhibit.js";
import { MeasureControl } from "./measure.js";
import { isMeasured, nameOf } from "./model.js";
import { Overlay } from "./overlay.js";
import {
  about, dimmed, element, inferred, inferredNote, makeReadable, percentWords, plainNote, rounded, say,
  usefulness,
} from "./parts.js";
import { report } from "./report.js";
import { restoreTheme, stored, switchTheme } from "./settings.js";
import { State, inWords } from "./state.js";
import { Steps } from "./steps.js";
import { get, offline } from "./transport.js";
import { reasons, trust } from "./trust.js";
import { wishLine } from "./wishes.js";

const $ = (id) => document.getElementById(id);
const on = (id, kind, act) => $(id).addEventListener(kind, act);
const fromLink = (hash, key) => new URLSearchParams(hash.slice(1)).get(key);
/** The state in a link, or nothing if the link is broken. */
const parsed = (text) => {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
};
const WORDS = {
  useful: "The interval reaches at most 10% of the count, or 1% of all records, to either side.",
  rough: "The order of magnitude is known, but not to within 10%.",
  unknown: "Even the order of magnitude is uncertain.",
};
const PHONE = "(max-width: 760px)";
const NEAR = 60; // charts within this many pixels of the viewport are drawn as if visible

class Page {
  constructor() {
    this.state = new State();
    this.charts = new Map();
    this.visited = []; // filters shown so far, for the report
    this.turn = 0; // number of the latest request
    this.due = 0; // number of the request whose history step is still pending; 0 for none
    this.steps = new Steps((hash) => this.follow(hash));
    this.measured = new MeasureControl($("measure"), () => this.redrawn(true));
    this.closer = new Closer(this);
    this.columns = new Columns(this, $("columns"));
    this.overlay = new Overlay(this, $("overlay"));
    this.beside = new Beside(this, $("beside"));
    this.#listen();
    this.#publishHeights();
    $("columns").open = !matchMedia(PHONE).matches;
    $("tour").hidden = stored("tour") === "done" || matchMedia(PHONE).matches; // it would cover the screen
  }

  #listen() {
    this.#listenToFilter();
    this.#listenToWindows();
    for (const id of ["log", "sort"]) on(id, "change", () => this.redrawn(false));
    on("overlay", "change", () => {
      this.chooseBeside();
      this.show();
    });
    on("share", "click", () => this.copy(location.href, "Link copied"));
    on("copy-sql", "click", () => {
      const where = this.state.where();
      this.copy(`SELECT COUNT(*) FROM view${where ? ` WHERE ${where}` : ""}`, "SQL copied");
    });
    on("copy-python", "click", () => this.copy(this.python(), "Python copied"));
    on("report", "click", () => download("report.html", report(this), "text/html"));
    on("view", "change", () => this.open($("view").value, "").catch((problem) => this.fail(problem.message)));
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      $("charts").querySelector(".hit[tabindex='0']")?.focus();
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  #listenToFilter() {
    on("run", "click", () => this.runText());
    on("where", "keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.runText();
      }
    });
    on("where", "input", () => this.markUnrun());
    on("undo", "click", () => this.undo());
    on("redo", "click", () => this.steps.redo());
    on("reset", "click", () => {
      this.written = $("where").value;
      this.state.change({});
      this.show();
    });
  }

  /** Listen to the theme button, the tour, the privacy dialog and the explanation of the interval. */
  #listenToWindows() {
    on("theme", "click", switchTheme);
    on("tour-open", "click", () => $("tour").toggleAttribute("hidden"));
    on("tour-close", "click", () => {
      $("tour").hidden = true;
      stored("tour", "done");
    });
    on("trust-open", "click", () => {
      $("trust").showModal();
      $("trust-title").focus(); // so that screen readers start at the top
    });
    on("trust", "click", ({ target }) => target === $("trust") && target.close()); // a click on the backdrop
    on("sure", "toggle", () => this.explainInterval());
  }

  /** Publish the heights of the sticky elements as CSS variables, so that nothing scrolls under them. */
  #publishHeights() {
    const { style } = document.documentElement;
    const strip = document.querySelector(".strip");
    const count = document.querySelector(".total");
    const measure = () => {
      const isPhone = matchMedia(PHONE).matches;
      style.setProperty("--strip", `${(isPhone ? count : strip).offsetHeight}px`);
      style.setProperty("--pinned", `${$("pinned").offsetHeight}px`);
    };
    const observer = new ResizeObserver(measure);
    for (const each of [strip, count, $("pinned")]) observer.observe(each);
  }

  /** Escape closes what covers charts; Ctrl-Z undoes, Ctrl-Shift-Z and Ctrl-Y redo outside text fields. */
  key(event) {
    const key = event.key.toLowerCase();
    if (key === "escape") {
      $("tour").hidden = true;
      $("sure").open = false;
    }
    const isText = event.target.matches("textarea, input:not([type=checkbox])");
    if (!(event.ctrlKey || event.metaKey) || !["z", "y"].includes(key) || isText) return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) this.steps.redo();
    else this.undo();
  }

  /** Undo the last step, or cancel it if its answer is still pending. */
  undo() {
    if (this.canCancel) this.goTo(this.steps.link);
    else this.steps.undo();
  }

  get canCancel() {
    return this.due > 0 && this.steps.link !== undefined;
  }

  async start() {
    this.views = await get("/api/views");
    $("view").replaceChildren(...this.views.map((v) => element("option", { value: v.name }, v.name)));
    await this.open(this.served(location.hash) ?? this.views[0].name, location.hash);
  }

  /** The name of a link's view, if the server has it. */
  served(hash) {
    return this.views.find((v) => v.name === fromLink(hash, "view"))?.name;
  }

  attribute(name) {
    return this.schema.attributes.find((a) => a.name === name);
  }

  /** Show a link after undo, redo, back, forward or a change of the address. */
  follow(hash) {
    if (this.schema && hash !== this.steps.link) this.goTo(hash);
  }

  /** Restore the state from a link and drop pending requests. */
  goTo(hash) {
    this.due = 0;
    const view = this.served(hash) ?? this.wanted;
    if (view !== this.view || view !== this.wanted)
      return void this.open(view, hash, false).catch((problem) => this.fail(problem.message));
    this.state.fromLink(hash);
    this.restoreLook(hash);
    this.show(false, false);
  }

  link() {
    return this.state.toLink(this.view, { ...this.closer.look(), ...this.packedLook() });
  }

  /** Update the link without adding a history step. */
  remember() {
    this.steps.remember(this.link(), false);
  }

  /** How charts are drawn and arranged, for the link; defaults are omitted. */
  packedLook() {
    const { measure } = this;
    const grains = [...this.charts]
      .filter(([, chart]) => chart.chosen !== null)
      .map(([name, chart]) => [name, chart.chosen]);
    const packed = {
      charts: this.arrangement.packed(), log: $("log").checked, sorted: $("sort").value === "count",
      show: measure.kind === "records" ? null : measure,
      grains: grains.length ? Object.fromEntries(grains) : null,
      overlay: this.overlay.chosen === "all" ? null : this.overlay.chosen,
    };
    return Object.fromEntries(Object.entries(packed).filter(([, value]) => value));
  }

  restoreLook(hash) {
    const look = parsed(fromLink(hash, "look"));
    this.closer.restore(look);
    this.arrangement.restore(look.charts);
    $("log").checked = look.log === true;
    $("sort").value = look.sorted === true ? "count" : "given";
    this.measured.restore(look.show ?? {});
    for (const [name, chart] of this.charts) chart.setGrain(look.grains?.[name] ?? null);
    this.overlay.offer(typeof look.overlay === "string" ? look.overlay : "all");
    this.chooseBeside();
  }

  get measure() {
    return this.measured.measure;
  }
  get look() {
    const isLog = $("log").checked && !isMeasured(this.measure);
    return { isLog, isSorted: $("sort").value === "count" };
  }

  /** Show the other view chosen under “Compare with” side by side, if any. */
  chooseBeside() {
    this.beside.choose(this.overlay.beside);
    this.beside.setGrains();
    this.place();
  }

  /** Redraw all charts as a history step. isNewMeasure: the associations of columns are outdated. */
  redrawn(isNewMeasure) {
    if (isNewMeasure) this.columns.forget();
    this.columns.draw();
    this.show();
  }

  setGrain(name, value) {
    this.charts.get(name).setGrain(value);
    this.beside.setGrains();
    this.show();
  }

  async open(view, hash, isStep = true) {
    this.wanted = view;
    if (isStep) this.due = this.turn + 1;
    $("view").value = view;
    const schema = await get(`/api/schema?view=${encodeURIComponent(view)}`);
    if (view !== this.wanted) return; // the user has chosen another view meanwhile
    forget();
    makeReadable(schema);
    const isAlike = shapeOf(this.schema?.attributes) === shapeOf(schema.attributes);
    const kept = !hash && isAlike ? this.state.snapshot() : null;
    Object.assign(this, {
      view, schema, moving: null, answered: undefined, overall: null, written: $("where").value,
      state: new State(schema.attributes), arrangement: new Arrangement(schema.attributes.map((a) => a.name)),
    });
    this.state.fromLink(hash);
    if (kept) this.state.restore(kept); // views with the same schema share the filter
    this.measured.setUp(schema.attributes);
    this.charts = new Map(schema.attributes.map((a) => [a.name, new Chart(a, this)]));
    this.overlay.forget();
    this.columns.reset();
    this.beside.choose(null);
    const looking = this.beside.find(schema);
    if (parsed(fromLink(hash, "look")).overlay?.startsWith?.("beside ")) await looking;
    $("view-label").hidden = offline;
    this.describeView();
    this.closer.setUp(schema);
    this.restoreLook(hash);
    await this.show(false, isStep);
    await looking;
    this.overlay.offer();
  }

  /** Show the view's name and whether it is private. */
  describeView() {
    document.title = `${this.view} – hdpview`;
    $("banner").hidden = this.schema.private;
    $("banner").textContent = this.schema.private ? "" : `This view is NOT PRIVATE. ${reasons(this.schema)}`;
    say(
      $("source"),
      this.schema.private
        ? "Answers come from a differentially private view."
        : "Answers come from a view that is NOT private.",
    );
    $("trust").replaceChildren(...trust(this.schema, () => $("trust").close()));
  }

  /** Change the filter of one attribute. moving: the drag continues, so add no history step. */
  filter(name, filter, moving = false) {
    this.state.set({ [name]: filter });
    return this.show(moving);
  }

  /** Change the filters of several attributes as one history step. */
  filterAll(changes) {
    this.state.set(changes);
    return this.show();
  }

  runText() {
    const text = $("where").value.trim();
    this.written = $("where").value;
    if (text !== (this.state.where() ?? "")) this.state.run(text || null);
    return this.show();
  }

  /** The request for the charts of some attributes. */
  question(attributes) {
    const own = {};
    for (const name of Object.keys(this.state.filters)) own[name] = this.state.where(name);
    const groups = Object.fromEntries(
      attributes.map((name) => [name, this.charts.get(name).asked]).filter(([, bars]) => bars),
    );
    return { view: this.view, where: this.state.where(), own, attributes, groups, measure: this.measure };
  }

  /** Names of charts in batches: visible charts first, the others only once the gesture has ended. */
  batches(moving) {
    const names = this.arrangement.visible();
    const isSeen = (name) => {
      const { top, bottom } = this.charts.get(name).card.getBoundingClientRect();
      return bottom > -NEAR && top < window.innerHeight + NEAR;
    };
    const seen = new Set(names.filter(isSeen));
    const others = moving ? [] : names.filter((name) => !seen.has(name));
    return [[...seen], ...(others.length ? [others] : [])];
  }

  /** Request the filtered counts and draw them. moving: the gesture continues; isStep: add a history step. */
  async show(moving = false, isStep = true) {
    const questions = this.batches(moving).map((names) => this.question(names));
    const [{ where }] = questions;
    const asked = this.state.snapshot();
    const link = this.link();
    const turn = (this.turn += 1);
    if (isStep && !moving) this.due = turn;
    delete document.body.dataset.shown;
    this.write(where ?? "");
    this.controls();
    $("log-label").hidden = isMeasured(this.measure);
    try {
      for (const [i, question] of questions.entries()) {
        const lane = i ? "out of sight" : "";
        const [answer, other, beside] = await dimmed(
          document.body,
          Promise.all([
            ask("/api/histograms", question, `histograms ${lane}`), this.overlay.ask(question, lane),
            this.beside.ask(question, lane),
          ]),
        );
        if (!answer || (i && turn !== this.turn)) return;
        if (!i) this.#arrive(answer, asked, { turn, link, moving, isStep });
        this.draw(answer, other, moving);
        if (beside) this.beside.draw(beside, moving);
      }
      if (!moving) {
        this.speak();
        this.note(this.count);
        this.overlay.markDifferences(() => turn === this.turn);
        await this.closer.refresh();
      }
    } catch (problem) {
      this.fail(`${problem.message} (Count and charts still show the last filter that worked.)`);
      if (this.due <= turn) this.due = 0;
      if (turn === this.turn) await this.giveUp(problem.refused ? where : null);
    }
    // Lets tests wait until the page has settled.
    if (turn === this.turn) document.body.dataset.shown = where ?? "everything";
  }

  /** Show an answer and make its filter a history step. */
  #arrive({ filtered, count, overall, leftOut }, asked, { turn, link, moving, isStep }) {
    $("error").textContent = "";
    this.answered = asked;
    this.filtered = filtered;
    if (!moving) {
      // If no newer request is pending, the link may still have changed in how charts are drawn.
      const now = turn === this.turn ? this.link() : link;
      const isDue = isStep || (this.due > 0 && this.due <= turn);
      this.steps.remember(now, isDue && now !== this.steps.link);
      if (this.due <= turn) this.due = 0;
    }
    this.controls();
    this.showCount(count, moving);
    this.showNotes([...count.notes.map(plainNote), ...inferredNote(this.schema, filtered)]);
    this.showOverall(overall ?? null, leftOut);
  }

  fail(text) {
    $("error").textContent = text;
  }

  /** After an error, restore the last filter that worked. A refused text stays in the field. */
  async giveUp(text) {
    const message = $("error").textContent;
    if (this.answered !== undefined) this.state.restore(this.answered);
    else if (text !== null && this.state.custom) {
      // The custom SQL of the first link was refused, so no earlier filter exists: keep the charts' filters.
      this.state.change(this.state.filters);
      await this.show(false, false);
    }
    this.remember();
    this.controls();
    this.write(this.state.where() ?? "");
    if (text !== null) {
      this.written = $("where").value = text; // the next gesture may overwrite it
      $("sql").open = true;
    }
    this.markUnrun();
    this.fail(message);
    $("reset").disabled = false;
  }

  /** Put the filter into the SQL field, unless the field holds text that was not run yet. */
  write(where) {
    if ($("where").value === (this.written ?? "")) $("where").value = where;
    this.written = where;
    this.markUnrun();
  }

  /** Show whether the SQL field holds text that was not run yet. */
  markUnrun() {
    say($("unrun"), $("where").value.trim() === (this.state.where() ?? "") ? "" : "Changed, not run yet.");
  }

  /** Update the chips and the buttons of the history. */
  controls() {
    this.chips();
    $("undo").disabled = !this.steps.canUndo && !this.canCancel;
    $("redo").disabled = !this.steps.canRedo;
    $("reset").disabled = this.state.where() === null;
  }

  showCount(count, moving) {
    const [estimate, low, high] = rounded(count.estimate, count.lower, count.upper);
    const isUnknown = count.upper <= 0 && count.notes.length;
    say($("count"), estimate);
    $("count").dataset.value = count.estimate;
    say(
      $("interval"),
      isUnknown ? "(number unknown)" : `(likely ${low} to ${high})${this.share(count)}`,
    );
    const verdict =
      count.upper <= 0
        ? "No possible value matches."
        : count.lower <= 0
          ? "Not distinguishable from 0: may be only noise."
          : "";
    say($("verdict"), verdict);
    const word = verdict ? "" : usefulness(this.schema, count, this.schema.estimated_records);
    say($("word"), word && `precision: ${word}`);
    $("word").title = WORDS[word] ?? "";
    this.count = count;
    if (!moving) this.explainInterval();
  }

  draw({ histograms, filtered }, other, moving) {
    for (const [name, chart] of this.charts) {
      if (!histograms[name]) continue;
      chart.answered = this.answered;
      const isOwn =
        other?.kind === "all"
          ? this.state.where(name) === null
          : other?.kind === "A" && this.state.filters[name];
      const base = isOwn ? null : other?.histograms[name];
      const isAlike = base?.estimate.length === histograms[name].estimate.length;
      chart.draw(histograms[name], {
        filter: this.state.filters[name], where: this.state.where(name),
        inferredFrom: inferred(this.schema, name, filtered),
        other: isAlike ? { ...base, kind: other.kind, name: other.name } : null, moving,
      });
    }
  }

  /** Show the rate or mean of all filtered records and how many lack the attribute. */
  showOverall(overall, leftOut) {
    const { measure } = this;
    Object.assign(this, { overall, leftOut: "" });
    if (!overall) {
      say($("measured"), "");
      return;
    }
    const { estimate, lower, upper } = overall;
    const value =
      measure.kind === "rate" ? percentWords(estimate, lower, upper) : about(estimate, lower, upper, 0);
    if (leftOut && leftOut.upper > 0.5) {
      const n = about(leftOut.estimate, leftOut.lower, leftOut.upper).replace("about", "About");
      this.leftOut = `${n} records without ${measure.attribute} are left out.`;
    }
    const name = nameOf(measure, (each) => this.attribute(each));
    say($("measured"), `Overall ${name}: ${value}. ${this.leftOut}`);
  }

  /** Explain the typical interval and show the guaranteed one. */
  async explainInterval() {
    const { basis, guaranteed } = this.count ?? {};
    if (!basis || !$("sure").open) return;
    const { turn } = this;
    const lines = [
      "“likely”: about 95 of 100 such ranges contain the true number.",
      basis === "measured"
        ? "These attributes were counted together."
        : "These attributes were not counted together: their relationship is modelled.",
    ];
    const where = this.state.where();
    const wish = where ? [wishLine(this.view, where, this.count)] : [];
    const show = () =>
      $("sure").querySelector("div").replaceChildren(...lines.map((line) => element("p", {}, line)), ...wish);
    show();
    if (offline) return;
    const sure = guaranteed ?? (await this.#guaranteed(where));
    if (!sure || turn !== this.turn) return;
    lines.splice(1, 0, `Guaranteed, whatever the data: ${rounded(sure[0], ...sure).slice(1).join(" to ")}.`);
    show();
  }

  async #guaranteed(where) {
    const question = { view: this.view, where, attributes: [] };
    const answer = await ask("/api/guaranteed", question).catch(() => null);
    return answer?.count.guaranteed;
  }

  /** Put the cards into the page in their order and size. */
  place() {
    const visible = this.arrangement.visible();
    const focused = document.activeElement;
    const isPinned = (name) => this.arrangement.pinned.has(name);
    for (const [name, chart] of this.charts)
      chart.card.classList.toggle("large", this.arrangement.large.has(name));
    $("pinned").hidden = !visible.some(isPinned);
    $("pinned").replaceChildren(...visible.filter(isPinned).map((name) => this.cardOf(name)));
    const others = visible.filter((name) => !isPinned(name));
    $("charts").replaceChildren(...others.map((name) => this.cardOf(name)));
    $("charts").classList.toggle("paired", this.beside.charts.size > 0);
    if (focused?.isConnected) focused.focus();
    this.columns.draw();
  }

  /** The card of an attribute, paired with that of the other view if one is shown side by side. */
  cardOf(name) {
    const { card } = this.charts.get(name);
    const beside = this.beside.charts.get(name);
    return beside ? element("div", { class: "pair" }, card, beside.card) : card;
  }

  arrange(name, how) {
    this.arrangement.change(name, how);
    this.arranged();
  }

  arrangeBeside(name, other, isAfter) {
    this.arrangement.moveBeside(name, other, isAfter);
    this.arranged();
  }

  /** Show the new arrangement as a history step. Charts that became visible request their counts. */
  arranged() {
    this.place();
    const visible = this.arrangement.visible().map((name) => this.charts.get(name));
    if (visible.some((chart) => chart.answered !== this.answered)) {
      this.show();
      return;
    }
    for (const chart of visible) chart.redraw();
    this.steps.remember(this.link(), true);
    this.controls();
  }

  /** The share of all records, if a filter is set. */
  share({ estimate, lower, upper }) {
    const all = this.schema.estimated_records;
    if (!this.state.where() || !(all > 0)) return "";
    const [share] = rounded(...[estimate, lower, upper].map((end) => (100 * end) / all), 0.1);
    return `, ${estimate > 0 && Number(share) === 0 ? "<0.1" : share}% of all`;
  }

  /** Show notes on the filter: one line in the summary, the full list when opened. */
  showNotes(notes) {
    say($("notes").querySelector("summary"), notes.join(" "));
    $("notes").querySelector("ul").replaceChildren(...notes.map((note) => element("li", {}, note)));
  }

  /** Announce the count to screen readers, once at the end of a gesture. */
  speak() {
    say($("spoken"), `${document.querySelector(".first").textContent.trim()}. ${$("verdict").textContent}`);
  }

  /** Record a filter and its count for the report, the latest last. */
  note(count) {
    const where = this.state.where() ?? "all records";
    this.visited = [...this.visited.filter((each) => each.where !== where), { where, count }].slice(-50);
  }

  chips() {
    const chip = (text, label, onclick) => element("button", { "aria-label": label, onclick }, `${text} ✕`);
    const active = this.schema.attributes.filter((a) => this.state.filters[a.name]);
    const chips = active.map((a) => {
      const words = inWords(a, this.state.filters[a.name]);
      return chip(words, `Remove the filter on ${words}`, () => this.filter(a.name, null));
    });
    const clear = () => {
      this.state.change(this.state.filters);
      this.show();
    };
    if (this.state.custom) chips.unshift(chip("custom SQL", "Remove the custom SQL", clear));
    const none = "No filter yet. Drag or click in a chart.";
    $("chips").replaceChildren(...(chips.length ? chips : [element("span", { class: "quiet" }, none)]));
  }

  python() {
    const where = this.state.where();
    return (
      `import hdpview as hv\n\nview = hv.open(${JSON.stringify(this.view)})\n` +
      `view.count(${where ? JSON.stringify(where) : ""})\n`
    );
  }

  async copy(text, said) {
    try {
      await navigator.clipboard.writeText(text);
      $("said").textContent = said;
    } catch {
      window.prompt("Copy this:", text);
    }
    setTimeout(() => {
      $("said").textContent = "";
    }, 2000);
  }
}

restoreTheme();
const page = new Page();
page.start().catch((problem) => {
  $("error").textContent = problem.message;
});
