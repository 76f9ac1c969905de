// Step 3: build the view, and what to do with it.

import { button, errorLine, paragraph, typed } from "./inputs.js";
import { element } from "./parts.js";
import { get, post } from "./server.js";

const TICK = 300; // milliseconds between polls of a build

export class Build {
  constructor(page, place) {
    this.page = page;
    const { settings } = page;
    this.output = typed("File of the view", settings.output, (text) => {
      settings.output = text;
      this.update();
      page.changed();
    });
    this.command = element("pre", { id: "command", tabindex: "0", "aria-label": "The command that builds" });
    this.blocked = paragraph("", "wrong", { id: "blocked" });
    this.error = errorLine("build-error");
    const label = "Before the budget is spent";
    this.asks = element("div", { class: "panel", role: "alertdialog", "aria-label": label, hidden: true });
    this.button = button("Build the view", () => this.start(false), { class: "primary", id: "start" });
    this.cancel = button("Cancel", () => this.stop(), { id: "cancel", hidden: true });
    this.bar = element("progress", { hidden: true, "aria-label": "Progress of the build" });
    this.stage = paragraph("", "quiet", { role: "status", id: "stage" });
    this.result = element("div", { id: "result", hidden: true });
    place.append(
      element("h2", { tabindex: "-1" }, "Build the view"),
      paragraph(
        "The budget is spent once, after the table has been read and before any noise is drawn. From then " +
          "on, anyone may ask the view any number of questions. The table is no longer needed.",
      ),
      element("div", { class: "row" }, element("label", {}, "File of the view ", this.output)),
      this.command, this.blocked, this.error, this.asks,
      element("div", { class: "next" }, button("Back", () => page.go("choose")), this.button, this.cancel),
      this.bar, this.stage, this.result,
    );
  }

  enter() {
    this.update();
  }

  /** Show the equivalent command and whether the schema is complete. */
  async update() {
    const { page } = this;
    const n = Object.keys(page.check.problems).length;
    const needs = `${n} ${n === 1 ? "column is" : "columns are"} incomplete. Complete step 1 first.`;
    this.blocked.textContent = n ? needs : "";
    this.button.disabled = !page.check.valid || this.busy;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      const { command } = await post("api/command", page.order());
      if (turn !== this.turn) return;
      this.command.textContent = command;
      page.commands.build = command;
      page.showCommands();
    } catch (problem) {
      if (turn === this.turn) this.command.textContent = problem.message;
    }
  }

  async start(confirmed) {
    this.error.textContent = "";
    this.asks.hidden = true;
    this.result.hidden = true;
    this.busy = true;
    this.button.disabled = true;
    try {
      const { asks } = await post("api/build", { ...this.page.order(), confirmed });
      if (asks.length) {
        this.ask(asks);
        return;
      }
      await this.watch();
    } catch (problem) {
      this.error.textContent = problem.message;
    } finally {
      this.busy = false;
      this.button.disabled = !this.page.check.valid;
    }
  }

  /** Let the curator decide about columns that cannot be read, before any budget is spent. */
  ask(sentences) {
    this.asks.hidden = false;
    const correct = button("Correct the schema", () => this.page.go("describe"), { class: "primary" });
    const all = button("Build anyway", () => this.start(true), { id: "all-the-same" });
    this.asks.replaceChildren(
      element("b", {}, "Please check before the budget is spent. Nothing has been spent yet."),
      findings(sentences),
      element("div", { class: "row" }, correct, all),
    );
    correct.focus();
  }

  async watch() {
    this.bar.hidden = false;
    this.cancel.hidden = false;
    this.cancel.disabled = false;
    for (;;) {
      const job = await get("api/build");
      this.stage.textContent = job.state === "running" ? `${job.stage} …` : "";
      if (job.fraction === null) this.bar.removeAttribute("value");
      else this.bar.value = job.fraction;
      if (job.state !== "running") {
        this.ended(job);
        return;
      }
      await new Promise((done) => {
        setTimeout(done, TICK);
      });
    }
  }

  async stop() {
    this.cancel.disabled = true;
    this.stage.textContent = "Cancelling at the next step …";
    await post("api/cancel").catch(() => {});
  }

  ended(job) {
    this.bar.hidden = true;
    this.cancel.hidden = true;
    if (job.ledger) {
      this.page.showLedger(job.ledger);
      this.page.steps.choose.update();
    }
    if (job.state !== "done") {
      this.error.textContent = job.message;
      return;
    }
    const { result } = job;
    this.button.classList.remove("primary"); // the primary action is now to use the view
    this.page.commands.view = result.commands.explore;
    this.page.showCommands();
    const { ledger } = this.page;
    const left = ledger.limit === null ? "no limit is set" : `${ledger.left} of ${ledger.limit} left`;
    const none = "No sign of unreadable values, of bounds too tight or too wide, or of undeclared values.";
    this.result.hidden = false;
    this.result.replaceChildren(
      element("h2", { tabindex: "-1" }, `${result.view} is built`),
      ...(job.message ? [paragraph(job.message, "wrong")] : []),
      paragraph(
        `${(result.bytes / 1000).toFixed(0)} kB. Total epsilon spent on ${ledger.table}: ${ledger.spent}, ` +
          `${left}. Ledger: ${ledger.path}`,
      ),
      ...(result.private ? [] : [paragraph("This view is NOT PRIVATE.", "wrong")]),
      element("h3", {}, "Possible mistakes in the schema"),
      result.findings.length ? findings(result.findings, "look") : paragraph(none),
      element("h3", {}, "Next"), this.actions(result.commands),
      element("pre", { tabindex: "0" }, result.about),
    );
    this.result.querySelector("h2").focus();
  }

  actions(commands) {
    const link = (url, words) => element("a", { href: url, target: "_blank", rel: "noopener" }, words);
    const publish = async () => {
      const { path, bytes } = await post("api/publish");
      return [`Wrote ${path} (${(bytes / 1000).toFixed(0)} kB)`];
    };
    const explore = async () => {
      const { url } = await post("api/explore");
      return [link(url, url)];
    };
    const serve = async () => {
      const { command } = await post("api/serve");
      return [`Serving until this page’s server stops. Try: ${command}`];
    };
    const card = async () => {
      const { path } = await post("api/keep-card");
      return [link("card", "Open it"), ` or take ${path}`];
    };
    const all = [
      ["publish", "Publish", "One HTML file that works in any browser, without a server.", publish],
      ["explore", "Explore", "Filter and compare in the browser, on this machine.", explore],
      ["serve", "Serve", "As a PostgreSQL database, for SQL tools, on this machine.", serve],
      ["card", "Privacy card", "One page to print, for a data protection officer.", card],
    ];
    const nodes = all.map((each, i) => action(...each, commands[each[0]], !i));
    return element("div", { class: "actions" }, ...nodes);
  }
}

const findings = (sentences, kind = "") =>
  element("ul", { class: `findings ${kind}` }, ...sentences.map((each) => element("li", {}, each)));

/** An action on the view: its button, purpose, result and equivalent command. */
function action(id, title, words, act, command, isNext) {
  const said = paragraph("", null, { role: "status", id: `${id}-said` });
  const onclick = async () => {
    press.disabled = true;
    said.textContent = "…";
    try {
      said.replaceChildren(...(await act()));
    } catch (problem) {
      said.textContent = problem.message;
    }
    press.disabled = false;
  };
  const press = button(title, onclick, { id, class: isNext ? "primary" : null });
  return element("div", {}, press, paragraph(words, "quiet"), said, element("code", {}, command));
}
