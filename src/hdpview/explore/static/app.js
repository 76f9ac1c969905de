// The page: puts charts, filter, history and panels together. Every gesture asks once; the newest answer
// wins.

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
/** What a link says; a broken one says nothing. */
const parsed = (text) => {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
};
const WORDS = {
  useful: "The interval reaches at most 10% of the count, or one percent of all records, to either side.",
  rough: "The size is known, but not to 10%.", unknown: "Even the order of magnitude is open.",
};
const PHONE = "(max-width: 760px)";
const NEAR = 60; // pixels outside the window within which charts are drawn like those in sight

class Page {
  constructor() {
    this.state = new State();
    this.charts = new Map();
    this.visited = []; // filters looked at, for the report
    this.turn = 0; // how often it was asked
    this.due = 0; // the turn of a step that is not answered yet
    this.steps = new Steps((hash) => this.follow(hash));
    this.measured = new MeasureControl($("measure"), () => this.redrawn(true));
    this.closer = new Closer(this);
    this.columns = new Columns(this, $("columns"));
    this.overlay = new Overlay(this, $("overlay"));
    this.beside = new Beside(this, $("beside"));
    this.#listen();
    this.#keepClear();
    $("columns").open = !matchMedia(PHONE).matches;
    $("tour").hidden = stored("tour") === "done" || matchMedia(PHONE).matches; // on a phone charts come first
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
    on("where", "input", () => this.mark());
    on("undo", "click", () => this.undo());
    on("redo", "click", () => this.steps.redo());
    on("reset", "click", () => {
      this.written = $("where").value;
      this.state.change({});
      this.show();
    });
  }

  /** The first steps, what is protected, and light or dark. */
  #listenToWindows() {
    on("theme", "click", switchTheme);
    on("tour-open", "click", () => {
      $("tour").hidden = !$("tour").hidden;
    });
    on("tour-close", "click", () => {
      $("tour").hidden = true;
      stored("tour", "done");
    });
    on("trust-open", "click", () => {
      $("trust").showModal();
      $("trust-title").focus(); // read from its beginning
    });
    on("trust", "click", (event) => {
      if (event.target === $("trust")) $("trust").close(); // a click beside what it says
    });
    on("sure", "toggle", () => this.tellSure());
  }

  /** Tell the style sheet how high the parts are that stay in sight, so that nothing lies under them. */
  #keepClear() {
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

  /** Ctrl-Z takes back; Ctrl-Shift-Z and Ctrl-Y bring again. Where one types they belong to the text. */
  key(event) {
    const key = event.key.toLowerCase();
    if (
      !(event.ctrlKey || event.metaKey) ||
      !["z", "y"].includes(key) ||
      event.target.matches("textarea, input:not([type=checkbox])")
    )
      return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) this.steps.redo();
    else this.undo();
  }

  /** Take back the last step; one that is still being answered is the last. */
  undo() {
    if (this.canTakeBack()) this.goTo(this.steps.link);
    else this.steps.undo();
  }

  canTakeBack() {
    return this.due > 0 && this.steps.link !== undefined;
  }

  async start() {
    this.views = await get("/api/views");
    $("view").replaceChildren(...this.views.map((v) => element("option", { value: v.name }, v.name)));
    await this.open(this.served(location.hash) ?? this.views[0].name, location.hash);
  }

  /** The view that a link names, if it is served. */
  served(hash) {
    return this.views.find((v) => v.name === fromLink(hash, "view"))?.name;
  }

  attribute(name) {
    return this.schema.attributes.find((a) => a.name === name);
  }

  /** Another link is to be shown: by undo, back, forward, or from outside. */
  follow(hash) {
    if (this.schema && hash !== this.steps.link) this.goTo(hash);
  }

  /** Show what a link says, in place of what is shown or on its way. */
  goTo(hash) {
    this.due = 0;
    const view = this.served(hash) ?? this.wanted;
    if (view !== this.view || view !== this.wanted) {
      this.open(view, hash, false).catch((problem) => this.fail(problem.message));
      return;
    }
    this.state.fromLink(hash);
    this.takeLook(hash);
    this.show(false, false);
  }

  link() {
    return this.state.toLink(this.view, { ...this.closer.look(), ...this.packedLook() });
  }

  /** What is looked at changed, not what charts show: the link says so, without a step of its own. */
  remember() {
    this.steps.remember(this.link(), false);
  }

  /** How charts are drawn and arranged, for the link. */
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

  takeLook(hash) {
    const look = parsed(fromLink(hash, "look"));
    this.closer.take(look);
    this.arrangement.take(look.charts);
    $("log").checked = look.log === true;
    $("sort").value = look.sorted === true ? "count" : "given";
    this.measured.take(look.show ?? {});
    for (const [name, chart] of this.charts) chart.setGrain(look.grains?.[name] ?? null);
    this.overlay.offer(typeof look.overlay === "string" ? look.overlay : "all");
    this.chooseBeside();
  }

  /** What every chart shows, and how. */
  get measure() {
    return this.measured.measure;
  }
  get look() {
    const isLog = $("log").checked && !isMeasured(this.measure);
    return { isLog, isSorted: $("sort").value === "count" };
  }

  /** Show the view beside this one that was chosen, if any. */
  chooseBeside() {
    this.beside.choose(this.overlay.beside);
    this.beside.setGrains();
    this.place();
  }

  /** Charts are drawn otherwise, as a step of its own. isAsked: whether other numbers are needed. */
  redrawn(isAsked) {
    if (isAsked) this.columns.forget();
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
    if (view !== this.wanted) return; // meanwhile another one was chosen
    forget();
    makeReadable(schema);
    const isAlike = shapeOf(this.schema?.attributes) === shapeOf(schema.attributes);
    const kept = !hash && isAlike ? this.state.snapshot() : null;
    Object.assign(this, {
      view, schema, moving: null, answered: undefined, overall: null, written: $("where").value,
      state: new State(schema.attributes), arrangement: new Arrangement(schema.attributes.map((a) => a.name)),
    });
    this.state.fromLink(hash);
    if (kept) this.state.restore(kept); // the filter survives a change of view
    this.measured.setUp(schema.attributes);
    this.charts = new Map(schema.attributes.map((a) => [a.name, new Chart(a, this)]));
    this.overlay.forget();
    this.columns.reset();
    this.beside.choose(null);
    const looking = this.beside.find(schema);
    if (parsed(fromLink(hash, "look")).overlay?.startsWith?.("beside ")) await looking;
    $("view-label").hidden = offline;
    this.tellView();
    this.closer.setUp(schema);
    this.takeLook(hash);
    await this.show(false, isStep);
    await looking;
    this.overlay.offer();
  }

  /** What is said of the view: its name, and whether it is private. */
  tellView() {
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

  /** A chart's filter changed; while the mouse still moves, it is no step of its own. */
  filter(name, filter, moving = false) {
    this.state.set({ [name]: filter });
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
    if (text !== (this.state.where() ?? "")) this.state.run(text || null);
    return this.show();
  }

  /** What is asked for some charts. */
  question(attributes) {
    const own = {};
    for (const name of Object.keys(this.state.filters)) own[name] = this.state.where(name);
    const groups = Object.fromEntries(
      attributes.map((name) => [name, this.charts.get(name).asked]).filter(([, bars]) => bars),
    );
    return { view: this.view, where: this.state.where(), own, attributes, groups, measure: this.measure };
  }

  /** Charts in the order in which they are asked for: those in sight first, the others at rest only. */
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

  /**
   * Ask for what the filter lets through and draw it. `moving`: a gesture goes on; `isStep`: undo leads
   * here.
   */
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
    // At rest: for whoever waits for the page, such as a test.
    if (turn === this.turn) document.body.dataset.shown = where ?? "everything";
  }

  /** There is an answer: its filter is the one that is shown, and a step of the history. */
  #arrive({ filtered, count, overall, leftOut }, asked, { turn, link, moving, isStep }) {
    $("error").textContent = "";
    this.answered = asked;
    this.filtered = filtered;
    if (!moving) {
      // How charts are drawn may have changed meanwhile; the filter may not, unless a newer answer is due.
      const now = turn === this.turn ? this.link() : link;
      const isDue = isStep || (this.due > 0 && this.due <= turn);
      this.steps.remember(now, isDue && now !== this.steps.link);
      if (this.due <= turn) this.due = 0;
    }
    this.controls();
    this.tellCount(count, moving);
    this.tell([...count.notes.map(plainNote), ...inferredNote(this.schema, filtered)]);
    this.tellMeasure(overall ?? null, leftOut);
  }

  fail(text) {
    $("error").textContent = text;
  }

  /**
   * There was no answer: the filter is again the one whose counts are shown. What was written stays in the
   * field to be mended.
   */
  async giveUp(text) {
    const told = $("error").textContent;
    if (this.answered !== undefined) this.state.restore(this.answered);
    else if (text !== null && this.state.custom) {
      // a link whose text was refused: nothing was shown before
      this.state.change(this.state.filters);
      await this.show(false, false);
    }
    this.remember();
    this.controls();
    this.write(this.state.where() ?? "");
    if (text !== null) {
      this.written = $("where").value = text;
      $("sql").open = true;
    } // it was run: the next gesture may write over it
    this.mark();
    this.fail(told);
    $("reset").disabled = false;
  }

  /** Put the filter into the field, unless somebody has typed there what was not run yet. */
  write(where) {
    if ($("where").value === (this.written ?? "")) $("where").value = where;
    this.written = where;
    this.mark();
  }

  /** Say whether the field differs from the filter that is shown. */
  mark() {
    say($("unrun"), $("where").value.trim() === (this.state.where() ?? "") ? "" : "Changed, not run yet.");
  }

  /** Chips and buttons, as the filter and its history are. */
  controls() {
    this.chips();
    $("undo").disabled = !this.steps.canUndo && !this.canTakeBack();
    $("redo").disabled = !this.steps.canRedo;
    $("reset").disabled = this.state.where() === null;
  }

  tellCount(count, moving) {
    const [told, low, high] = rounded(count.estimate, count.lower, count.upper);
    const isUnknown = count.upper <= 0 && count.notes.length;
    say($("count"), told);
    $("count").dataset.value = count.estimate;
    say(
      $("interval"),
      isUnknown ? "(how many is not known)" : `(likely ${low} to ${high})${this.share(count)}`,
    );
    const verdict =
      count.upper <= 0
        ? "No possible value matches."
        : count.lower <= 0
          ? "Not distinguishable from 0: may be noise."
          : "";
    say($("verdict"), verdict);
    const word = verdict ? "" : usefulness(this.schema, count, this.schema.estimated_records);
    say($("word"), word);
    $("word").title = WORDS[word] ?? "";
    this.count = count;
    if (!moving) this.tellSure();
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

  /** The measure of all records under the filter, and how many it leaves out. */
  tellMeasure(overall, leftOut) {
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
      const told = about(leftOut.estimate, leftOut.lower, leftOut.upper).replace("about", "About");
      this.leftOut = `${told} records without ${measure.attribute} are left out.`;
    }
    const name = nameOf(measure, (each) => this.attribute(each));
    say($("measured"), `Overall ${name}: ${value}. ${this.leftOut}`);
  }

  /** One layer down: what the range means, and the one that holds whatever the data. */
  async tellSure() {
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

  /** Charts in their order and size. */
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

  /** The card of an attribute, and that of the view beside, if any. */
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

  /** Show what is now to be shown, as a step of its own; what comes into sight is asked for. */
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

  /** What part of all records that is, once a filter is set. */
  share({ estimate, lower, upper }) {
    const all = this.schema.estimated_records;
    if (!this.state.where() || !(all > 0)) return "";
    const [told] = rounded(...[estimate, lower, upper].map((end) => (100 * end) / all), 0.1);
    return `, ${estimate > 0 && Number(told) === 0 ? "<0.1" : told}% of all`;
  }

  /** Sentences on what the filter meets: the first line is always there, all of them on request. */
  tell(notes) {
    say($("notes").querySelector("summary"), notes.join(" "));
    $("notes").querySelector("ul").replaceChildren(...notes.map((note) => element("li", {}, note)));
  }

  /** For screen readers: the count at the end of a gesture, not at each of its moves. */
  speak() {
    say($("spoken"), `${document.querySelector(".first").textContent.trim()}. ${$("verdict").textContent}`);
  }

  /** For the report: what was looked at, the latest last. */
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
