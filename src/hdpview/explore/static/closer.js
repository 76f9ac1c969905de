// The panels below the charts (“Look closer”): one at a time, under the active filter.

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
        if (move) this.#openNext(i, move);
      });
    });
    this.current = 0;
    this.turn = 0;
  }

  setUp(schema) {
    this.schema = schema;
    this.panels = PANELS.map((Kind, i) => new Kind(this, this.#root(i)));
    // Charts and columns read filter A and the names of groups from this panel.
    this.compared = this.panels[PANELS.indexOf(ComparePanel)];
    // A published page computes no means of block views and runs no SQL.
    this.tabs[SUMMARY].hidden = offline && schema.made_of === "block";
    this.tabs[STATEMENT].hidden = offline;
    this.#turn(this.tabs[this.current].hidden ? 0 : this.current);
  }

  /** The open panel's exhibit to save. */
  exhibit() {
    return this.panels[this.current].exhibit;
  }
  get title() {
    return this.tabs[this.current].textContent.trim();
  }

  /** The open tab and the selections of all panels, for the link. */
  look() {
    return Object.assign({ tab: this.current }, ...this.panels.map((panel) => panel.look()));
  }

  /** Restore the panels from a link, ignoring what does not fit the view. */
  restore(look) {
    for (const panel of this.panels) panel.restore(look);
    const tab = Number.isInteger(look.tab) ? this.tabs[look.tab] : null;
    if (tab && !tab.hidden) this.#turn(look.tab);
  }

  open(i) {
    this.#turn(i);
    this.changed();
  }

  /** Open the next visible tab to the left (-1) or right (1). */
  #openNext(i, move) {
    const n = this.tabs.length;
    let next = (i + move + n) % n;
    while (this.tabs[next].hidden) next = (next + move + n) % n;
    this.open(next);
    this.tabs[next].focus();
  }

  /** Show a new selection and record it in the link. */
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
    this.turn += 1; // answers to earlier requests are not drawn
    const { turn } = this;
    const panel = this.panels[this.current];
    return dimmed(panel.root, panel.refresh()).catch((problem) => {
      if (turn === this.turn) panel.say(problem.message);
    });
  }

  #root(i) {
    return document.getElementById(this.tabs[i].getAttribute("aria-controls"));
  }

  /** Show an attribute as a table. */
  groupBy(name) {
    this.panels[GROUPS].restore({ by: name, and: "" });
    this.open(GROUPS);
    this.tabs[GROUPS].scrollIntoView({ block: "center" });
  }
}
