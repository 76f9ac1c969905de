// Look closer: the panels below the charts, one at a time, under the active filter.

import { ComparePanel } from "./compare.js";
import { GroupsPanel } from "./groups.js";
import { MeansPanel } from "./means.js";
import { PairsPanel } from "./pairs.js";
import { dimmed } from "./parts.js";
import { RatesPanel } from "./rates.js";
import { StatementPanel } from "./statement.js";
import { offline } from "./transport.js";

// In the order of their tabs.
const PANELS = [PairsPanel, GroupsPanel, MeansPanel, RatesPanel, ComparePanel, StatementPanel];
const MEANS = PANELS.indexOf(MeansPanel);
const RATES = PANELS.indexOf(RatesPanel);
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
    this.compared = this.panels[PANELS.indexOf(ComparePanel)];
    this.tabs[MEANS].hidden = this.lacksNumbers;
    this.tabs[STATEMENT].hidden = offline; // statements are read by the server
  }

  /** Whether means and quantiles cannot be computed: the published page has no engine for them of blocks. */
  get lacksNumbers() {
    return offline && this.schema.made_of === "block";
  }

  /** The filter that was kept as A, whether there is one, and what a group is called. */
  get kept() {
    return this.compared.kept;
  }
  get hasKept() {
    return this.compared.hasKept;
  }
  nameOf(letter) {
    return this.compared.nameOf(letter);
  }

  /** What is looked at, for the link. */
  look() {
    return Object.assign({ tab: this.current }, ...this.panels.map((panel) => panel.look()));
  }

  /** Take over what a link says was looked at; what does not fit the view is left out. */
  take(look) {
    for (const panel of this.panels) panel.take(look);
    if (Number.isInteger(look.tab) && this.tabs[look.tab]) this.#turn(look.tab);
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

  /** The element of the panel that is open. */
  panel() {
    return this.#root(this.current);
  }

  #root(i) {
    return document.getElementById(this.tabs[i].getAttribute("aria-controls"));
  }

  /** Show a measure by the values of an attribute: one gesture from its chart. */
  measureBy(name) {
    this.panels[RATES].measureBy(name);
    this.open(RATES);
    this.tabs[RATES].scrollIntoView({ block: "center" });
  }
}
