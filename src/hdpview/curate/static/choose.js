// Step 2: choose the privacy unit and the budget, and see the expected errors.

import { button, errorLine, field, paragraph, trim, typed } from "./inputs.js";
import { element, selectOf, shown, tableOf } from "./parts.js";
import { post } from "./server.js";

const HEIGHT = 26; // height of a row, in pixels
const LEFT = 190; // width of the names, in pixels
const WIDTH = 560; // width of the picture, in pixels
// Names of columns that probably identify a person.
const PERSON = /patient|person|user|customer|client|member|employee|student|subject|household|citizen/i;

export class Choose {
  constructor(page, place) {
    this.page = page;
    this.meaning = element("p", { id: "meaning", role: "status" });
    this.error = errorLine();
    this.focus = element("div", { class: "row", id: "focus" });
    this.picture = element("div", { id: "picture" });
    this.missing = paragraph("First complete the columns in step 1.", "quiet");
    this.ledger = element("div", { id: "ledger" });
    this.button = button("Show expected errors", () => this.estimate(), { id: "estimate" });
    place.append(
      element("h2", { tabindex: "-1" }, "Choose the budget"),
      element("div", { class: "two" }, this.#choices(), this.#forecast()),
      element(
        "div", { class: "next" }, button("Back", () => page.go("describe")),
        button("Next: build", () => page.go("build"), { class: "primary", id: "to-build" }),
      ),
    );
    this.enter();
  }

  /** A labelled text field for one of the settings. */
  #input(key, label, remark, more = {}) {
    const { settings } = this.page;
    const change = (text) => this.#set(key, text);
    return field(label, typed(label, settings[key], change, more), remark);
  }

  #set(key, value) {
    this.page.settings[key] = value;
    this.update();
    this.page.changed();
  }

  /** The fields for the privacy unit, the budget and the focus. */
  #choices() {
    const numeric = { inputmode: "numeric" };
    this.person = element(
      "div", {},
      this.#input(
        "maxRows", "Maximum rows per person", "Extra rows are dropped at random. More rows mean more noise.",
        numeric,
      ),
      this.#input(
        "noPerson", "Values that identify nobody",
        "Separated by commas, such as NA. Any other text identifies a person.",
      ),
    );
    return element(
      "div", {},
      field(
        "Whose row is it?", this.unit("Whose row is it"),
        "Who is protected: each row, or the person behind several rows." + this.proposal(),
      ),
      this.person,
      this.#input("epsilon", "Epsilon", "Lower values protect more and show less.", { inputmode: "decimal" }),
      this.#input("delta", "Delta", "Optional. A value such as 1e-9 makes views of many columns sharper."),
      this.meaning, this.error, element("h3", {}, "Columns to count together"),
      paragraph("Pairs or triples of columns that are always counted together.", "quiet"), this.focus,
      element("h3", {}, "Ledger"), this.ledger,
    );
  }

  /** The column that identifies the person. */
  unit(label) {
    const { settings, document: doc } = this.page;
    const options = [
      ["", "each row is a different person"],
      ...doc.columns.map(({ name }) => [name, `${name} identifies the person`]),
    ];
    const select = selectOf(label, options, settings.unit, () => {
      settings.unitIsChosen = true;
      for (const each of document.querySelectorAll("select.unit")) each.value = select.value;
      this.#set("unit", select.value);
    });
    select.classList.add("unit");
    return select;
  }

  /** A remark that names the column that probably identifies the person. */
  proposal() {
    const { identifiers } = this.page.told;
    const name = identifiers.find((each) => PERSON.test(each)) ?? identifiers[0];
    return name ? ` The column ${name} looks like it identifies the person.` : "";
  }

  #forecast() {
    return element(
      "div", {}, element("h3", {}, "Expected errors"),
      this.#input(
        "rows", "Approximate number of rows",
        "A public, rounded figure. The table is not read for this.", { inputmode: "numeric" },
      ),
      this.button, this.missing, this.picture,
    );
  }

  enter() {
    this.drawFocus();
    this.update();
  }

  checked() {
    const names = this.page.used().map((form) => form.name);
    const { settings } = this.page;
    settings.focus = settings.focus.filter((group) => group.every((name) => names.includes(name)));
    this.button.disabled = !this.page.check.valid;
    this.missing.hidden = this.page.check.valid;
  }

  /** Explain the chosen budget and show what is left of the limit. */
  update() {
    const { settings, ledger } = this.page;
    const epsilon = Number(settings.epsilon);
    this.person.hidden = !settings.unit;
    const isNumber = epsilon > 0 && Number.isFinite(epsilon);
    this.error.textContent = isNumber ? "" : "Epsilon must be a number above 0, such as 1.";
    this.meaning.textContent = isNumber ? meaningOf(epsilon, settings) : "";
    if (isNumber && ledger?.left !== null && ledger && epsilon > ledger.left + 1e-12)
      this.error.textContent =
        `Only ${trim(ledger.left)} of ${trim(ledger.limit)} is left. Spend no more than that, ` +
        `or raise the limit if your rules allow it: hdpview ledger limit ${ledger.table} EPSILON`;
    this.drawLedger();
    this.page.steps?.build?.update();
  }

  drawLedger() {
    const { ledger } = this.page;
    if (!ledger) return;
    const left =
      ledger.limit === null
        ? `No limit is set. To set one: hdpview ledger limit ${ledger.table} 3 --ledger ${ledger.path}`
        : `${trim(ledger.left)} of ${trim(ledger.limit)} is left.`;
    const rows = ledger.charges.map(({ when, purpose, epsilon, state }) => [
      when.slice(0, 16).replace("T", " "), purpose, trim(epsilon), state,
    ]);
    this.ledger.replaceChildren(
      paragraph(`Epsilon ${trim(ledger.spent)} has been spent on ${ledger.table} so far. ${left}`),
      ...(rows.length ? [tableOf(["when", "purpose", "epsilon", "state"], rows)] : []),
      paragraph(`Ledger: ${ledger.path}${ledger.exists ? "" : " (created by the first charge)"}`, "quiet"),
    );
  }

  drawFocus() {
    const { settings } = this.page;
    const names = this.page.used().map((form) => form.name);
    const selects = ["first", "second", "third"].map((place) =>
      selectOf(`The ${place} column`, [["", "–"], ...names]),
    );
    const change = (groups) => {
      settings.focus = groups;
      this.enter();
      this.page.changed();
    };
    const add = () => {
      const group = [...new Set(selects.map((select) => select.value).filter(Boolean))];
      if (group.length < 2) this.error.textContent = "Choose two or three different columns.";
      else change([...settings.focus, group]);
    };
    const chips = settings.focus.map((group, i) =>
      button(
        `${group.join(" × ")} ✕`, () => change(settings.focus.filter((_, j) => j !== i)),
        { "aria-label": `Remove ${group.join(" with ")}` },
      ),
    );
    this.focus.replaceChildren(...selects, button("Add", add, { id: "add-focus" }), ...chips);
  }

  async estimate() {
    const { page } = this;
    const rows = Number(page.settings.rows.replaceAll(/[ ,_]/g, ""));
    const fail = (words) => {
      const line = errorLine();
      line.textContent = words;
      this.picture.replaceChildren(line);
    };
    if (!Number.isInteger(rows) || rows < 1) {
      fail("Enter the approximate number of rows as a whole number, such as 10000.");
      return;
    }
    this.button.disabled = true;
    const waiting = paragraph("Building views of simulated tables …", "quiet", { role: "status" });
    this.picture.replaceChildren(waiting);
    const { epsilon, delta, max_rows } = page.order();
    try {
      const ask = (budget) =>
        post("api/estimate", { document: page.document, rows, epsilon: budget, delta, max_rows });
      const chosen = await ask(epsilon);
      page.commands.estimate = chosen.command;
      page.showCommands();
      const estimates = [chosen];
      this.draw(estimates);
      // Smaller and larger budgets for comparison.
      for (const factor of [1 / 3, 3]) {
        estimates.unshift(await ask(trim(Number((epsilon * factor).toPrecision(2)))));
        this.draw(estimates);
      }
    } catch (problem) {
      fail(problem.message);
    }
    this.button.disabled = !page.check.valid;
  }

  /** Draw the expected errors by kind of query, for the chosen budget (the last) and others. */
  draw(estimates) {
    const chosen = estimates.at(-1);
    const ordered = [...estimates].sort((a, b) => a.epsilon - b.epsilon);
    const kinds = ["errors", "relations"].flatMap((what) =>
      Object.keys(chosen[what]).map((kind) => [kind, what]),
    );
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
    const label = `Expected errors with epsilon ${ordered.map((each) => trim(each.epsilon)).join(", ")}`;
    const size = { class: "error-picture", viewBox: `0 0 ${WIDTH} ${y}` };
    this.picture.replaceChildren(
      element("svg", { ...size, role: "img", "aria-label": label }, ...marks),
      paragraph(
        "Marks are the expected errors (root mean square). Bars span simulated tables, from values " +
          "concentrated on a few to evenly spread ones; real errors can lie outside. Groups contain at " +
          "least 1% of the records.",
        "quiet",
      ),
    );
    this.picture.dataset.epsilon = String(chosen.epsilon);
    this.picture.dataset.budgets = String(estimates.length);
  }
}

/** What a budget means for a person or record in the table. */
function meaningOf(epsilon, { unit, delta }) {
  const belief = 100 / (1 + Math.exp(-epsilon));
  const sure = belief < 99.9 ? `at most ${belief.toFixed(1)}% sure of it` : "virtually certain";
  const loosened = Number(delta) > 0 ? ` This may fail with probability ${delta} (delta).` : "";
  return (
    `Someone who is 50% sure that ${unit ? "a person" : "a record"} is in the table can become ${sure}, ` +
    `whatever else they know and however many questions they ask.${loosened}`
  );
}

const svgText = (x, y, words, kind) => element("text", { x, y, class: kind }, words);

/** The row of one budget: range of errors, expected error, and labels. */
function errorMarks(estimate, kind, what, y, most, isChosen) {
  const { low, expected, high } = estimate[what][kind];
  const x = (value) => LEFT + (WIDTH - LEFT - 120) * (value / most);
  const unit = kind.startsWith("rate") ? " points" : "% of span";
  const words =
    what === "errors"
      ? `± ${shown(expected)} records`
      : `± ${Number((100 * expected).toPrecision(2))}${unit}`;
  const bar = (left, width, height, shade) =>
    element("rect", { x: left, y: y - height / 2, width, height, class: shade });
  return [
    bar(x(low), Math.max(2, x(high) - x(low)), 6, isChosen ? "chosen-range" : "range"),
    bar(x(expected) - 2, 4, 12, isChosen ? "chosen" : "range"),
    svgText(WIDTH - 112, y + 4, words, isChosen ? "value" : ""),
    svgText(LEFT - 44, y + 4, `ε ${trim(estimate.epsilon)}`, isChosen ? "value" : ""),
  ];
}
