// Look closer: the panels below the charts, one at a time, under the active filter.

import { ComparePanel } from "./compare.js";
import { GroupsPanel } from "./groups.js";
import { PairsPanel } from "./pairs.js";
import { dimmed } from "./parts.js";
import { StatementPanel } from "./statement.js";
import { SummaryPanel } from "./summary.js";
import { offline } from "./transport.js";

// In the order of their tabs.
const PANELS = [PairsPanel, GroupsPanel, SummaryPanel, ComparePanel, StatementPanel];
const GROUPS = PANELS.indexOf(GroupsPanel);
const SUMMARY = PANELS.indexOf(SummaryPanel);
const STATEMENT = PANELS.indexOf(StatementPanel);

export class Closer {
  constructor(page) {
    this.page = page;
    this.tabs = [...document.querySelectorAll('[role="tab"]')];
    this.tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => this.open(i));
      tab.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (move) this.#openBeside(i, move);
      });
    });
    this.current = 0;
    this.turn = 0;
  }

  setUp(schema) {
    this.schema = schema;
    this.panels = PANELS.map((Kind, i) => new Kind(this, this.#root(i)));
    // It knows the filter that is kept as A, and what groups are called.
    this.compared = this.panels[PANELS.indexOf(ComparePanel)];
    // Of blocks, the engine computes no means; statements are read by the server.
    this.tabs[SUMMARY].hidden = offline && schema.made_of === "block";
    this.tabs[STATEMENT].hidden = offline;
    if (this.tabs[this.current].hidden) this.#turn(0);
  }

  /** What the open panel shows, to take away, and what it is called. */
  exhibit() {
    return this.panels[this.current].exhibit;
  }
  get title() {
    return this.tabs[this.current].textContent.trim();
  }

  /** What is looked at, for the link. */
  look() {
    return Object.assign({ tab: this.current }, ...this.panels.map((panel) => panel.look()));
  }

  /** Take over what a link says was looked at; what does not fit the view is left out. */
  take(look) {
    for (const panel of this.panels) panel.take(look);
    const tab = Number.isInteger(look.tab) ? this.tabs[look.tab] : null;
    if (tab && !tab.hidden) this.#turn(look.tab);
  }

  open(i) {
    this.#turn(i);
    this.changed();
  }

  /** Open the next tab to one side that can be seen. */
  #openBeside(i, move) {
    const n = this.tabs.length;
    let next = (i + move + n) % n;
    while (this.tabs[next].hidden) next = (next + move + n) % n;
    this.open(next);
    this.tabs[next].focus();
  }

  /** Something else is looked at: show it, and let the link say so. */
  changed() {
    this.page.remember();
    return this.refresh();
  }

  #turn(i) {
    this.current = i;
    this.tabs.forEach((tab, j) => {
      tab.setAttribute("aria-selected", String(i === j));
      tab.tabIndex = i === j ? 0 : -1;
      this.#root(j).hidden = i !== j;
    });
  }

  refresh() {
    this.turn += 1; // what was asked for before and comes later is not drawn
    const { turn } = this;
    const panel = this.panels[this.current];
    return dimmed(panel.root, panel.refresh()).catch((problem) => {
      if (turn === this.turn) panel.say(problem.message);
    });
  }

  #root(i) {
    return document.getElementById(this.tabs[i].getAttribute("aria-controls"));
  }

  /** Show an attribute as a table: one gesture from its chart. */
  groupBy(name) {
    this.panels[GROUPS].take({ by: name, and: "" });
    this.open(GROUPS);
    this.tabs[GROUPS].scrollIntoView({ block: "center" });
  }
}
