// Step 2: whose secret it is, how much of it may show, and what that buys.

import { element, shown } from "./parts.js";
import { post } from "./server.js";
import { field, trim } from "./page.js";

const HEIGHT = 26;
const LEFT = 190;
const WIDTH = 560; // of a row, of the names, and of the picture

export class Choose {
  constructor(page, place) {
    this.page = page;
    this.meaning = element("p", { id: "meaning", role: "status" });
    this.error = element("div", { class: "error", role: "alert" });
    this.focus = element("div", { class: "row", id: "focus" });
    this.picture = element("div", { id: "picture" });
    this.ledger = element("div", { id: "ledger" });
    this.button = element("button", { id: "estimate", onclick: () => this.estimate() }, "Show what it buys");
    place.append(
      element("h2", { tabindex: "-1" }, "Choose the budget"),
      element("div", { class: "two" }, this.#choices(), this.#forecast()),
      element(
        "div",
        { class: "next" },
        element("button", { onclick: () => page.go("describe") }, "Back"),
        element(
          "button",
          { class: "primary", id: "to-build", onclick: () => page.go("build") },
          "Next: build",
        ),
      ),
    );
    this.drawFocus();
    this.told();
  }

  /** A field for one of the settings. */
  #input(key, label, extra = {}) {
    const { settings } = this.page;
    const oninput = (event) => {
      settings[key] = event.target.value;
      this.told();
      this.page.changed();
    };
    const made = element("input", { type: "text", "aria-label": label, ...extra, oninput });
    made.value = settings[key];
    return made;
  }

  /** Who is protected, and how much. */
  #choices() {
    return element(
      "div",
      {},
      field(
        "Whose row is it?",
        this.unit("Whose row is it"),
        "Who is protected: each row, or the person behind several rows." + this.proposal(),
      ),
      this.#persons(),
      field(
        "Epsilon",
        this.#input("epsilon", "Epsilon", { inputmode: "decimal" }),
        "Smaller protects more and shows less.",
      ),
      field(
        "Delta",
        this.#input("delta", "Delta"),
        "Empty for none. A little, such as 1e-9, makes views of many columns sharper.",
      ),
      this.meaning,
      this.error,
      element("h3", {}, "What matters most"),
      element("p", { class: "quiet" }, "Pairs or triples of columns that are counted together for certain."),
      this.focus,
      element("h3", {}, "Ledger"),
      this.ledger,
    );
  }

  /** The column that identifies the person. */
  unit(label) {
    const { settings, document: doc } = this.page;
    const onchange = (event) => {
      settings.unit = event.target.value;
      settings.unitIsChosen = true;
      for (const each of document.querySelectorAll("select.unit")) each.value = settings.unit;
      this.told();
      this.page.changed();
    };
    const select = element(
      "select",
      { class: "unit", "aria-label": label, onchange },
      element("option", { value: "" }, "each row stands for itself"),
      ...doc.columns.map((form) =>
        element("option", { value: form.name }, `the column ${form.name} says whose`),
      ),
    );
    select.value = settings.unit;
    return select;
  }

  /** A column that identifies persons by its name. */
  proposal() {
    const [found] = this.page.told.identifiers;
    return found ? ` The column ${found} looks like it identifies the person.` : "";
  }

  /** What is asked where rows belong to persons. */
  #persons() {
    this.person = element(
      "div",
      {},
      field(
        "Rows of one person that count",
        this.#input("maxRows", "Rows of one person that count", { inputmode: "numeric" }),
        "chosen at random; all noise grows with it",
      ),
      field(
        "Values that name nobody",
        this.#input("noPerson", "Values that name nobody"),
        "with commas between them, such as NA; else they are one person",
      ),
    );
    return this.person;
  }

  /** What the budget buys. */
  #forecast() {
    return element(
      "div",
      {},
      element("h3", {}, "What it buys"),
      field(
        "About how many rows the table has",
        this.#input("rows", "About how many rows the table has", { inputmode: "numeric" }),
        "A public, rounded figure. Nothing is looked up for this.",
      ),
      this.button,
      this.picture,
    );
  }

  enter() {
    this.drawFocus();
    this.told();
  }

  checked() {
    const names = this.page.used().map((form) => form.name);
    this.page.settings.focus = this.page.settings.focus.filter((group) =>
      group.every((name) => names.includes(name)),
    );
    this.button.disabled = !this.page.check.valid;
  }

  /** Say what the choice means, and what of the budget is left. */
  told() {
    const { settings, ledger } = this.page;
    const epsilon = Number(settings.epsilon);
    this.person.hidden = !settings.unit;
    this.error.textContent = "";
    if (!(epsilon > 0) || !Number.isFinite(epsilon)) {
      this.meaning.textContent = "";
      this.error.textContent = "Epsilon is a number above 0, such as 1.";
    } else {
      const belief = 100 / (1 + Math.exp(-epsilon));
      const sure = belief < 99.9 ? `${belief.toFixed(1)}%` : "virtually 100%";
      const who = settings.unit ? "a person" : "a record";
      const loosened =
        Number(settings.delta) > 0
          ? ` This may fail with probability ${settings.delta} (delta).`
          : "";
      this.meaning.textContent =
        `Someone who is 50% sure that ${who} is in the table can become at most ${sure} sure ` +
        `of it, whatever else they know and however many questions they ask.${loosened}`;
      if (ledger?.left !== null && ledger && epsilon > ledger.left + 1e-12)
        this.error.textContent =
          `That is more than is left: ${trim(ledger.left)} of ${trim(ledger.limit)}. Choose at most that, ` +
          `or raise the limit if your rules allow it: hdpview ledger limit ${ledger.table} EPSILON`;
    }
    this.drawLedger();
    this.page.steps?.build?.told();
  }

  drawLedger() {
    const { ledger } = this.page;
    if (!ledger) return;
    const left =
      ledger.limit === null
        ? `No limit is set. To set one: hdpview ledger limit ${ledger.table} 3 --ledger ${ledger.path}`
        : `${trim(ledger.left)} of ${trim(ledger.limit)} is left.`;
    const rows = ledger.charges.map((charge) =>
      element(
        "tr",
        {},
        element("td", {}, charge.when.slice(0, 16).replace("T", " ")),
        element("td", {}, charge.purpose),
        element("td", { class: "number" }, trim(charge.epsilon)),
        element("td", {}, charge.state),
      ),
    );
    this.ledger.replaceChildren(
      element("p", {}, `Epsilon ${trim(ledger.spent)} has been spent on ${ledger.table} so far. ${left}`),
      ...(rows.length
        ? [
            element(
              "table",
              {},
              element(
                "thead",
                {},
                element(
                  "tr",
                  {},
                  ...["when", "on what", "epsilon", "state"].map((each) => element("th", {}, each)),
                ),
              ),
              element("tbody", {}, ...rows),
            ),
          ]
        : []),
      element(
        "p",
        { class: "quiet" },
        `Ledger: ${ledger.path}${ledger.exists ? "" : " (made by the first charge)"}`,
      ),
    );
  }

  drawFocus() {
    const { settings } = this.page;
    const names = this.page.used().map((form) => form.name);
    const selects = ["first", "second", "third"].map((place) =>
      element(
        "select",
        { "aria-label": `The ${place} column` },
        element("option", { value: "" }, "–"),
        ...names.map((name) => element("option", { value: name }, name)),
      ),
    );
    const add = element(
      "button",
      {
        id: "add-focus",
        onclick: () => {
          const group = [...new Set(selects.map((select) => select.value).filter(Boolean))];
          if (group.length < 2) {
            this.error.textContent = "Choose two or three different columns.";
            return;
          }
          settings.focus = [...settings.focus, group];
          this.drawFocus();
          this.told();
          this.page.changed();
        },
      },
      "Add",
    );
    const chips = settings.focus.map((group, i) =>
      element(
        "button",
        {
          "aria-label": `Remove ${group.join(" with ")}`,
          onclick: () => {
            settings.focus = settings.focus.filter((_, j) => j !== i);
            this.drawFocus();
            this.told();
            this.page.changed();
          },
        },
        `${group.join(" × ")} ✕`,
      ),
    );
    this.focus.replaceChildren(...selects, add, ...chips);
  }

  async estimate() {
    const { page } = this;
    const rows = Number(page.settings.rows.replaceAll(/[ ,_]/g, ""));
    if (!Number.isInteger(rows) || rows < 1) {
      this.picture.replaceChildren(
        element("div", { class: "error" }, "Say about how many rows the table has: a whole number."),
      );
      return;
    }
    this.button.disabled = true;
    this.picture.replaceChildren(
      element("p", { class: "quiet", role: "status" }, "Building views of invented tables …"),
    );
    const { epsilon, delta, max_rows } = page.order();
    try {
      const ask = (budget) =>
        post("api/estimate", { document: page.document, rows, epsilon: budget, delta, max_rows });
      const chosen = await ask(epsilon);
      page.commands.estimate = chosen.command;
      page.showCommands();
      const found = [chosen];
      this.draw(found);
      for (const factor of [1 / 3, 3]) {
        // beside it, what less and more would buy
        found.unshift(await ask(trim(Number((epsilon * factor).toPrecision(2)))));
        this.draw(found);
      }
    } catch (problem) {
      this.picture.replaceChildren(element("div", { class: "error", role: "alert" }, problem.message));
    }
    this.button.disabled = !page.check.valid;
  }

  /** Errors by kind of question, the chosen budget beside a third and three times of it. */
  draw(estimates) {
    const chosen = estimates.at(-1);
    const ordered = [...estimates].sort((a, b) => a.epsilon - b.epsilon);
    const kinds = [
      ...Object.keys(chosen.errors).map((kind) => [kind, "errors"]),
      ...Object.keys(chosen.relations).map((kind) => [kind, "relations"]),
    ];
    const marks = [];
    let y = 14;
    for (const [kind, what] of kinds) {
      const most = Math.max(...ordered.map((each) => each[what][kind].high)) || 1;
      marks.push(svgText(0, y + 4, kind, "value"));
      for (const each of ordered) {
        marks.push(...errorMarks(each, kind, what, y, most, each === chosen));
        y += HEIGHT * 0.68;
      }
      y += 10;
    }
    const epsilons = ordered.map((each) => trim(each.epsilon)).join(", ");
    this.picture.replaceChildren(
      element(
        "svg",
        {
          class: "error-picture",
          viewBox: `0 0 ${WIDTH} ${y}`,
          role: "img",
          "aria-label": `Expected errors with epsilon ${epsilons}`,
        },
        ...marks,
      ),
      element(
        "p",
        { class: "quiet" },
        "Marks are what to expect (root mean square), bars span invented tables from heaped on a few " +
          "values to strewn evenly. Real ones can lie outside. Groups are of at least one in a hundred " +
          "records.",
      ),
    );
    this.picture.dataset.epsilon = String(chosen.epsilon);
    this.picture.dataset.budgets = String(estimates.length);
  }
}

function svgText(x, y, words, kind) {
  return element("text", { x, y, class: kind }, words);
}

/** The row of one budget: how far errors range, what to expect, and both in words. */
function errorMarks(estimate, kind, what, y, most, isChosen) {
  const { low, expected, high } = estimate[what][kind];
  const x = (value) => LEFT + (WIDTH - LEFT - 120) * (value / most);
  const unit = kind.startsWith("rate") ? "points" : "% of span";
  const words =
    what === "errors"
      ? `± ${shown(expected)} records`
      : `± ${Number((100 * expected).toPrecision(2))} ${unit}`;
  return [
    element("rect", {
      x: x(low),
      y: y - 3,
      width: Math.max(2, x(high) - x(low)),
      height: 6,
      class: isChosen ? "chosen-range" : "range",
    }),
    element("rect", {
      x: x(expected) - 2,
      y: y - 6,
      width: 4,
      height: 12,
      class: isChosen ? "chosen" : "range",
    }),
    svgText(WIDTH - 112, y + 4, words, isChosen ? "value" : ""),
    svgText(LEFT - 44, y + 4, `ε ${trim(estimate.epsilon)}`, isChosen ? "value" : ""),
  ];
}
