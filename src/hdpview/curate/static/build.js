// Step 3: build, and what comes of it.

import { element } from "./parts.js";
import { get, post } from "./server.js";

const TICK = 300; // milliseconds between two looks at a build

export class Build {
  constructor(page, place) {
    this.page = page;
    const { settings } = page;
    this.output = element("input", {
      type: "text",
      "aria-label": "File of the view",
      oninput: (event) => {
        settings.output = event.target.value;
        this.told();
        page.changed();
      },
    });
    this.output.value = settings.output;
    this.command = element("pre", { id: "command", tabindex: "0", "aria-label": "The command that builds" });
    this.blocked = element("p", { class: "wrong", id: "blocked" });
    this.error = element("div", { class: "error", role: "alert", id: "build-error" });
    this.asks = element("div", {
      class: "panel",
      role: "alertdialog",
      "aria-label": "Before the budget is spent",
      hidden: true,
    });
    this.button = element(
      "button",
      { class: "primary", id: "start", onclick: () => this.start(false) },
      "Build the view",
    );
    this.cancel = element("button", { id: "cancel", hidden: true, onclick: () => this.stop() }, "Cancel");
    this.bar = element("progress", { hidden: true, "aria-label": "How far the build is" });
    this.stage = element("p", { role: "status", id: "stage", class: "quiet" });
    this.result = element("div", { id: "result", hidden: true });
    place.append(
      element("h2", { tabindex: "-1" }, "Build the view"),
      element(
        "p",
        {},
        "The budget is spent once, when the table has been read and before any noise is drawn. From then " +
          "on anyone may ask any number of questions of the view. The table is not needed any more.",
      ),
      element("div", { class: "row" }, element("label", {}, "File of the view ", this.output)),
      this.command,
      this.blocked,
      this.error,
      this.asks,
      element(
        "div",
        { class: "next" },
        element("button", { onclick: () => page.go("choose") }, "Back"),
        this.button,
        this.cancel,
      ),
      this.bar,
      this.stage,
      this.result,
    );
  }

  enter() {
    this.told();
  }

  checked() {
    this.told();
  }

  /** Show the command that does the same, and whether anything stands in the way. */
  async told() {
    const { page } = this;
    const n = Object.keys(page.check.problems).length;
    this.blocked.textContent = n
      ? `${n} of the columns ${n === 1 ? "needs" : "need"} something first, in step 1.`
      : "";
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

  /** A column cannot be read: the curator decides before anything is spent. */
  ask(sentences) {
    this.asks.hidden = false;
    const yes = element(
      "button",
      { id: "all-the-same", onclick: () => this.start(true) },
      "Build all the same",
    );
    this.asks.replaceChildren(
      element("b", {}, "Before the budget is spent. Nothing has been spent yet."),
      element("ul", { class: "findings" }, ...sentences.map((each) => element("li", {}, each))),
      element(
        "div",
        { class: "row" },
        element(
          "button",
          { class: "primary", onclick: () => this.page.go("describe") },
          "Correct the schema",
        ),
        yes,
      ),
    );
    this.asks.querySelector("button").focus();
  }

  async watch() {
    this.bar.hidden = false;
    this.cancel.hidden = false;
    this.cancel.disabled = false;
    for (;;) {
      const found = await get("api/build");
      this.stage.textContent = found.state === "running" ? `${found.stage} …` : "";
      if (found.fraction === null) this.bar.removeAttribute("value");
      else this.bar.value = found.fraction;
      if (found.state !== "running") {
        this.ended(found);
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

  ended(found) {
    this.bar.hidden = true;
    this.cancel.hidden = true;
    if (found.ledger) {
      this.page.showLedger(found.ledger);
      this.page.steps.choose.told();
    }
    if (found.state !== "done") {
      this.error.textContent = found.message;
      return;
    }
    const { result } = found;
    this.page.commands.view = result.commands.explore;
    this.page.showCommands();
    const { ledger } = this.page;
    const left = ledger.limit === null ? "no limit is set" : `${ledger.left} of ${ledger.limit} left`;
    this.result.hidden = false;
    this.result.replaceChildren(
      element("h2", { tabindex: "-1" }, `${result.view} is built`),
      ...(found.message ? [element("p", { class: "wrong" }, found.message)] : []),
      element(
        "p",
        {},
        `${(result.bytes / 1000).toFixed(0)} kB. Epsilon ${ledger.spent} spent on ${ledger.table} in ` +
          `all, ${left}. Ledger: ${ledger.path}`,
      ),
      ...(result.private ? [] : [element("p", { class: "wrong" }, "This view is NOT PRIVATE.")]),
      element("h3", {}, "What its histograms say about the schema"),
      ...(result.findings.length
        ? [
            element(
              "ul",
              { class: "findings look" },
              ...result.findings.map((each) => element("li", {}, each)),
            ),
          ]
        : [
            element(
              "p",
              {},
              "Nothing: no sign of unreadable values, of bounds too tight or too wide, or of undeclared " +
                "values.",
            ),
          ]),
      this.deeds(result),
      element("pre", { tabindex: "0" }, result.about),
    );
    this.result.querySelector("h2").focus();
  }

  deeds(result) {
    const link = (url, words) => element("a", { href: url, target: "_blank", rel: "noopener" }, words);
    return element(
      "div",
      { class: "deeds" },
      deed(
        "explore",
        "Explore",
        "Filter and compare in the browser, on this machine.",
        result.commands.explore,
        async () => {
          const { url } = await post("api/explore");
          return [link(url, url)];
        },
      ),
      deed(
        "publish",
        "Publish",
        "One HTML page that answers anywhere, without a server.",
        result.commands.publish,
        async () => {
          const { path, bytes } = await post("api/publish");
          return [`Wrote ${path} (${(bytes / 1000).toFixed(0)} kB)`];
        },
      ),
      deed(
        "serve",
        "Serve",
        "As a PostgreSQL database, for SQL tools, on this machine.",
        result.commands.serve,
        async () => {
          const { command } = await post("api/serve");
          return [`Serving until this page’s server ends. Try: ${command}`];
        },
      ),
      deed(
        "card",
        "Privacy card",
        "One page to print, for a data protection officer.",
        result.commands.card,
        async () => {
          const { path } = await post("api/keep-card");
          return [link("card", "Open it"), ` or take ${path}`];
        },
      ),
    );
  }
}

/** Something to do with the view: a button, what it is for, what came of it, and the command that does it. */
function deed(id, title, words, command, act) {
  const said = element("p", { role: "status", id: `${id}-said` });
  const onclick = async () => {
    button.disabled = true;
    said.textContent = "…";
    try {
      said.replaceChildren(...(await act()));
    } catch (problem) {
      said.textContent = problem.message;
    }
    button.disabled = false;
  };
  const button = element("button", { id, onclick }, title);
  return element(
    "div",
    {},
    button,
    element("p", { class: "quiet" }, words),
    said,
    element("code", {}, command),
  );
}
