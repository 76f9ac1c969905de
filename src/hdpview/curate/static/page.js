// The page: three steps that edit one document. The server checks it after every change.

import { Build } from "./build.js";
import { Choose } from "./choose.js";
import { Describe } from "./describe.js";
import { trim } from "./inputs.js";
import { get, post } from "./server.js";
import { restoreTheme, switchTheme } from "./settings.js";

const $ = (id) => document.getElementById(id);
const PATIENCE = 250; // milliseconds after the last key before a request is sent

class Page {
  constructor(told) {
    this.told = told;
    this.document = told.document;
    this.check = { text: "", problems: {}, open: 0, valid: false, bins: {}, warnings: [] };
    this.version = told.version;
    this.settings = {
      rows: "10000", epsilon: "1", delta: "", unit: "", maxRows: "1", noPerson: "", focus: [],
      output: `${told.table}.pview`, unitIsChosen: false, ...told.settings,
    };
    this.commands = { check: "" };
    this.asked = 0;
    $("table").textContent = `${told.table}: ${told.document.columns.length} columns`;
    $("file").textContent = told.schema_file;
    this.steps = {
      describe: new Describe(this, $("describe")), choose: new Choose(this, $("choose")),
      build: new Build(this, $("build")),
    };
    for (const button of document.querySelectorAll("button[data-step]"))
      button.addEventListener("click", () => this.go(button.dataset.step));
    $("theme").addEventListener("click", switchTheme);
    $("save").addEventListener("click", () => this.save());
    this.showLedger(told.ledger);
    this.go("describe", false);
    this.checkNow();
  }

  used() {
    return this.document.columns.filter((column) => column.use);
  }

  go(name, focus = true) {
    for (const [key, step] of Object.entries(this.steps)) {
      $(key).hidden = key !== name;
      document.querySelector(`button[data-step="${key}"]`).removeAttribute("aria-current");
      if (key === name) step.enter?.();
    }
    document.querySelector(`button[data-step="${name}"]`).setAttribute("aria-current", "step");
    document.body.dataset.step = name;
    if (focus) {
      $(name).querySelector("h2").focus();
      scrollTo(0, 0);
    }
  }

  /** Check the document soon, because it was edited. */
  changed() {
    document.body.dataset.checked = "";
    this.asked += 1; // a pending answer is outdated
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.checkNow(), PATIENCE);
  }

  async checkNow() {
    clearTimeout(this.timer);
    const turn = ++this.asked;
    try {
      const check = await this.saving("api/check");
      if (turn !== this.asked) return; // a newer request is pending
      this.check = check;
      this.commands.check = check.command;
      complain("");
    } catch (problem) {
      if (turn !== this.asked) return;
      this.check = { ...this.check, valid: false };
      complain(problem.message);
    }
    $("schema").textContent = this.check.text;
    this.showCommands();
    this.steps.describe.checked();
    this.steps.choose.checked();
    this.steps.build.update();
    document.body.dataset.checked = String(turn);
  }

  /** Send a request that also saves the document. Such requests are sent one after the other. */
  saving(path, more = {}) {
    const ask = async () => {
      const { document: held, settings, version } = this;
      const response = await post(path, { document: held, settings, version, ...more });
      this.version = response.version;
      return response;
    };
    const answer = (this.last ?? Promise.resolve()).then(ask, ask);
    this.last = answer;
    return answer;
  }

  showCommands() {
    $("commands").textContent = Object.values(this.commands).filter(Boolean).join("\n");
  }

  showLedger(ledger) {
    this.ledger = ledger;
    const left =
      ledger.limit === null ? "no limit is set" : `${trim(ledger.left)} of ${trim(ledger.limit)} left`;
    $("budget").textContent = `epsilon ${trim(ledger.spent)} spent on ${ledger.table}, ${left}`;
    $("budget").title = `Ledger: ${ledger.path}`;
  }

  async save() {
    try {
      const { path } = await post("api/save", { document: this.document });
      $("saved").textContent = `Wrote ${path}`;
    } catch (problem) {
      $("saved").textContent = problem.message;
    }
  }

  /** The request for a build with the current settings. */
  order() {
    const { settings } = this;
    const { epsilon, delta, output, focus, unit } = settings;
    const nobody = settings.noPerson.split(",").map((each) => each.trim()).filter(Boolean);
    return {
      document: this.document, epsilon, delta, output, privacy_unit: unit || null, focus,
      max_rows: unit ? Math.max(1, Number.parseInt(settings.maxRows, 10) || 1) : 1,
      no_person: unit ? nobody : [],
    };
  }
}

function complain(words) {
  $("banner").hidden = !words;
  $("banner").textContent = words;
}

restoreTheme();
if (location.search) history.replaceState(null, "", location.pathname); // the token is in a cookie by now
get("api/table").then(
  (told) => new Page(told),
  (problem) => complain(problem.message),
);
