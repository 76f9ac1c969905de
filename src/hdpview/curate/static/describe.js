// Step 1: describe each column.

import { button, errorLine, field, paragraph, ticked, trim, typed } from "./inputs.js";
import { counted, element, selectOf } from "./parts.js";

const OF_INTEGERS = {
  "": "each number", every: "of width", bins: "number of", edges: "edges", age: "by age",
  percent: "percent", log: "log scale",
};
const BINNINGS = { integer: OF_INTEGERS, real: { ...OF_INTEGERS, "": "100 equal" } };
const WIDTHS = ["1h", "1d", "1w", "1mo", "1q", "1y"];
const SIZED = ["every", "bins", "edges"];
// Keys of a suggestion that are highlighted.
const SHOWN = ["min", "max", "binning", "size", "values", "ordered", "other", "rest"];
// Settings of text files: key, label and remark.
const SIGNS = [
  ["separator", "Separator", "detected in the header if empty"],
  ["encoding", "Encoding", "utf-8, cp1252, latin-1, …"], ["decimal", "Decimal sign", "a point by default"],
];
const NUMBERS = [
  ["thousands", "Thousands separator", "none by default"],
  ["strip", "Characters around numbers", "such as $€%"],
  ["negative", "Negative numbers", "parentheses, where (468.00) is one"],
  ["epoch", "Dates as numbers", "s or ms since 1970"],
];

// Keys that a suggestion does not overwrite, because the curator has set them.
const CURATORS = ["kind", "missing", "missing_as", "label", "unit"];

export class Describe {
  constructor(page, place) {
    this.page = page;
    this.rows = new Map();
    this.guesses = new Set(); // columns with an unchanged suggestion
    this.touched = new Set(); // columns that were edited; only these are marked as wrong
    const { told } = page;
    this.summary = element("div", { class: "summary", role: "status", id: "summary" });
    this.suggest = button("", () => this.useSuggestions(), { id: "suggest" });
    this.list = element("div", {}, ...page.document.columns.map((form) => this.row(form)));
    const next = button("Next: choose the budget", () => this.leave(), { class: "primary", id: "to-choose" });
    const byNames = element("span", { class: "quiet" }, "based on column names and first values; check them");
    place.append(
      element("h2", { tabindex: "-1" }, "Describe the columns"),
      paragraph(
        "Enter what is known without looking at the data, for example from a law, a form or a code book. " +
          "Values beyond the bounds are counted at the nearest bound; unlisted values are counted as " +
          "“other”. Leave out columns that nobody needs.",
      ),
      paragraph(told.note, "quiet"), ...(told.is_text ? [this.source()] : []),
      element("div", { class: "row" }, this.suggest, byNames), this.learning(), this.summary, this.list,
      element("div", { class: "next" }, next),
    );
  }

  /** Go to the next step and mark all incomplete columns. */
  leave() {
    for (const { name } of this.page.document.columns) this.touched.add(name);
    this.checked();
    this.page.go("choose");
  }

  row(form) {
    const said = element("div", { class: "said", id: `said-${this.rows.size}` });
    const changed = () => {
      this.fill(form);
      this.page.changed();
    };
    const use = ticked(`Use ${form.name}`, form.use, (isUsed) => {
      form.use = isUsed;
      changed();
    });
    const kind = selectOf(`Type of ${form.name}`, this.page.told.kinds, form.kind, () => {
      form.kind = kind.value;
      const isWidth = form.binning === "every" && WIDTHS.includes(form.size);
      if (form.kind === "datetime") Object.assign(form, { binning: "every", size: "1mo" });
      else if (isWidth) Object.assign(form, { binning: "", size: "" });
      changed();
    });
    const fields = element("div", { class: "fields" });
    const name = element("div", { class: "name" }, use, element("span", {}, form.name));
    const row = element("div", { class: "column", "data-column": form.name }, name, kind, fields, said);
    this.rows.set(form.name, { row, use, kind, fields, said });
    this.fill(form);
    return row;
  }

  /** Show the fields of a column's type. */
  fill(form) {
    const { row, use, kind, fields } = this.rows.get(form.name);
    row.classList.toggle("unused", !form.use);
    use.checked = form.use;
    kind.value = form.kind;
    kind.disabled = !form.use;
    fields.replaceChildren();
    if (!form.use) {
      const isIdentifier = this.page.told.identifiers.includes(form.name);
      const why = "left out: its name looks like an identifier. Step 2 can use it to identify the person.";
      fields.append(element("span", { class: "quiet" }, isIdentifier ? why : "left out"));
      return;
    }
    if (form.kind === "integer" || form.kind === "real") this.numbers(form, fields);
    else if (form.kind === "category") this.values(form, fields);
    else if (form.kind === "datetime")
      fields.append(
        this.text(form, "min", "from", "2015-01-31"), this.text(form, "max", "to", "2030-12-31"),
        this.choice(form, "size", "bins of", WIDTHS),
      );
    fields.append(this.more(form));
  }

  numbers(form, fields) {
    const isEdges = form.binning === "edges";
    if (!isEdges) fields.append(this.text(form, "min", "from"), this.text(form, "max", "to"));
    fields.append(this.choice(form, "binning", "bins", Object.entries(BINNINGS[form.kind]), true));
    if (!SIZED.includes(form.binning)) return;
    const [hint, kind] = isEdges ? ["0, 1, 5, 10", "wide"] : ["5", ""];
    fields.append(this.text(form, "size", "", hint, kind, `Bins of ${form.name}`));
  }

  values(form, fields) {
    const area = typed(
      `Values of ${form.name}`, form.values, (text) => this.set(form, "values", text),
      {
        rows: Math.min(6, Math.max(1, form.values.split("\n").length)), spellcheck: "false",
        placeholder: "values, separated by commas",
      },
      "textarea",
    );
    const ordered = ticked(`Values of ${form.name} are in order`, form.ordered, (isOrdered) =>
      this.set(form, "ordered", isOrdered),
    );
    fields.append(
      area, this.text(form, "other", "all others as", "other"), element("label", {}, ordered, "in order"),
    );
    if (form.rest.aliases)
      fields.append(element("span", { class: "quiet" }, "with other spellings: see the schema file"));
  }

  more(form) {
    const kinds = [["own", "counted by themselves"], ["as", "counted as"]];
    if (form.missing === "unstated") kinds.push(["unstated", "not stated"]);
    const isAs = form.missing === "as";
    const label = `Missing values of ${form.name} count as`;
    const place = element(
      "div", {}, this.choice(form, "missing", "missing values are", kinds, true),
      ...(isAs ? [this.text(form, "missing_as", "", "a value", "", label)] : []),
      this.text(form, "label", "label", form.name), this.text(form, "unit", "unit", "years"),
    );
    const isOpen = form.missing !== "own" || Boolean(form.label || form.unit);
    return element("details", { open: isOpen }, element("summary", { class: "quiet" }, "more"), place);
  }

  text(form, key, words, placeholder = "", kind = "", label = `${words} of ${form.name}`) {
    const change = (text) => this.set(form, key, text);
    const input = typed(label, form[key], change, { class: kind, placeholder, "data-key": key });
    if (form[key] && this.guesses.has(form.name) && SHOWN.includes(key)) input.classList.add("suggested");
    return words ? element("label", {}, words, input) : input;
  }

  choice(form, key, words, options, redraw = false) {
    const select = selectOf(`${words} of ${form.name}`, options, form[key], () => {
      this.set(form, key, select.value);
      if (redraw) this.fill(form);
    });
    return element("label", {}, words, select);
  }

  set(form, key, value) {
    form[key] = value;
    this.touched.add(form.name);
    this.guesses.delete(form.name);
    for (const node of this.rows.get(form.name).fields.querySelectorAll(".suggested"))
      node.classList.remove("suggested");
    this.page.changed();
  }

  /** Incomplete columns for which there is a suggestion. */
  suggestable() {
    const { told, check } = this.page;
    return this.page
      .used()
      .filter((form) => check.problems[form.name] && told.suggestions[form.name]?.[form.kind]);
  }

  useSuggestions() {
    for (const form of this.suggestable()) {
      const suggestion = Object.entries(this.page.told.suggestions[form.name][form.kind]);
      Object.assign(form, Object.fromEntries(suggestion.filter(([key]) => !CURATORS.includes(key))));
      this.guesses.add(form.name);
      this.fill(form);
    }
    this.page.checkNow();
  }

  /** The settings of the file format. */
  source() {
    const { source } = this.page.document;
    const change = (key, read = (text) => text) => (text) => {
      source[key] = read(text);
      this.page.changed();
    };
    const fields = (all) =>
      all.map(([key, words, remark]) => field(words, typed(words, source[key], change(key)), remark));
    const dates = typed("Date formats", source.dates, change("dates"), { rows: 2 }, "textarea");
    const words = (text) => ["", ...text.split(/\s+/).filter(Boolean)];
    const missing = typed(
      "Texts for missing values", source.missing.filter(Boolean).join(" "), change("missing", words),
      { class: "wide" },
    );
    const format = [
      source.encoding || "utf-8", source.separator ? `fields separated by ${source.separator}` : "",
      source.decimal ? `decimal ${source.decimal}` : "", source.dates.split("\n").join(" "),
    ];
    const summary = element("span", { class: "quiet" }, format.filter(Boolean).join(" · "));
    return element(
      "details", { class: "panel", id: "source" },
      element("summary", {}, "File format: ", summary),
      element(
        "div", { class: "two" }, element("div", {}, ...fields(SIGNS)),
        element(
          "div", {}, ...fields(NUMBERS),
          field("Date formats besides ISO", dates, "one per line, such as %d.%m.%Y"),
          field("Texts that mean “missing”", missing, "separated by spaces"),
        ),
      ),
    );
  }

  learning() {
    this.price = { epsilon: "0.2", delta: "1e-9" };
    const price = (key, label) =>
      typed(label, this.price[key], (text) => {
        this.price[key] = text;
      });
    this.learnError = errorLine();
    this.learnSaid = paragraph("", "quiet", { role: "status", id: "learnt" });
    this.learnButton = button("", () => this.learn(), { id: "learn" });
    this.whose = element("span");
    return element(
      "details", { class: "panel", id: "learning" },
      element("summary", {}, "Estimate bounds from the data (uses budget)"),
      paragraph(
        "Bounds and frequent values of incomplete columns are estimated with noise. The budget is charged " +
          "before any value is read. It is divided among the columns and adds to the cost of views of this " +
          "table.",
      ),
      element(
        "div", { class: "row" }, this.whose,
        element("label", {}, "epsilon ", price("epsilon", "Epsilon for learning")),
        element("label", {}, "delta ", price("delta", "Delta for learning")), this.learnButton,
      ),
      paragraph("Learning text values needs a delta, because the list of values is itself private.", "quiet"),
      this.learnError, this.learnSaid,
    );
  }

  openColumns() {
    const open = this.page.check.open_columns ?? [];
    return this.page.used().filter((form) => open.includes(form.name));
  }

  async learn() {
    const { page } = this;
    const columns = this.openColumns().map((form) => form.name);
    this.learnError.textContent = "";
    if (!page.settings.unitIsChosen) {
      this.learnError.textContent =
        "First choose the column that identifies the person: learning protects rows or persons, like the " +
        `view.${page.steps.choose.proposal()}`;
      this.whose.replaceChildren(page.steps.choose.unit("Whose row is it, for learning"));
      return;
    }
    this.learnSaid.textContent = "Learning …";
    this.learnButton.disabled = true;
    const { privacy_unit, max_rows } = page.order();
    try {
      const request = { columns, ...this.price, privacy_unit, max_rows };
      const answer = await page.saving("api/learn", request);
      for (const form of page.document.columns)
        if (answer.columns[form.name]) {
          Object.assign(form, answer.columns[form.name]);
          this.fill(form);
        }
      page.document.learnt = answer.learnt;
      page.commands.learn = answer.command;
      page.showLedger(answer.ledger);
      const open = answer.open.length
        ? `. This budget was too small to learn anything about ${answer.open.join(", ")}`
        : "";
      this.learnSaid.textContent =
        `Learnt about ${counted(Object.keys(answer.columns).length, "column")} for epsilon ` +
        `${this.price.epsilon}${open}. The charge is recorded in ${page.ledger.path}.`;
    } catch (problem) {
      this.learnError.textContent = problem.message;
      this.learnSaid.textContent = "";
    }
    await page.checkNow();
  }

  /** Show the result of the server's check. */
  checked() {
    for (const form of this.page.document.columns) this.#showStatus(form);
    this.#summarise();
    const able = this.suggestable().length;
    this.suggest.textContent = able
      ? `Use the suggestions for ${counted(able, "column")}`
      : "No suggestions left";
    this.suggest.disabled = !able;
    const open = this.openColumns().length;
    this.learnButton.textContent = open ? `Learn about ${counted(open, "column")}` : "Nothing is open";
    this.learnButton.disabled = !open;
  }

  /** Show the problem or the warnings of a column, or its bins. */
  #showStatus(form) {
    const { check } = this.page;
    const { said, fields } = this.rows.get(form.name);
    const problem = form.use ? check.problems[form.name] : "";
    const warnings = form.use ? check.warnings.filter((each) => each.attribute === form.name) : [];
    const isLost = warnings.some((each) => each.is_blocking);
    const bins = form.use ? check.bins[form.name] : undefined;
    const isWrong = isLost || (problem && this.touched.has(form.name));
    said.className = `said ${isWrong ? "wrong" : warnings.length ? "look" : "good"}`;
    const texts = warnings.map((each) => `${each.is_blocking ? "Lost: " : "Warning: "}${each.sentence}`);
    said.textContent =
      problem || texts.join(" ") || (bins ? `${counted(bins.n, "bin")}: ${bins.shown.join(", ")}` : "");
    for (const input of fields.querySelectorAll("input[type=text], textarea"))
      input.setAttribute("aria-describedby", said.id);
  }

  /** Show the status of the whole schema. */
  #summarise() {
    const { check, document: doc } = this.page;
    const n = Object.keys(check.problems).length;
    const blocking = check.warnings.filter((each) => each.is_blocking).length;
    const used = this.page.used().length;
    const table = check.warnings.filter((each) => !each.attribute).map((each) => ` ${each.sentence}`);
    const lost = blocking ? ` But it would lose much of the table (${counted(blocking, "warning")}).` : "";
    const whole = check.valid
      ? `The schema is complete: ${counted(used, "attribute")}, ${check.cells?.toExponential(1)} cells.` +
        `${lost}${table.join("")}`
      : "";
    const open = `${n} of ${counted(used, "column")} ${n === 1 ? "is" : "are"} incomplete.`;
    this.summary.textContent = check.problems[""] ?? (n ? open : whole);
    const isWrong = Object.keys(check.problems).some((name) => this.touched.has(name));
    this.summary.classList.toggle("wrong", isWrong || blocking > 0);
    document.body.dataset.problems = String(n);
    if (doc.learnt.learnt_epsilon) {
      const words = ` Learnt for epsilon ${trim(fraction(doc.learnt.learnt_epsilon))}.`;
      this.summary.append(element("span", { class: "quiet" }, words));
    }
  }
}

/** The value of a fraction such as 1/5, or of a decimal number. */
function fraction(text) {
  const [above, below = "1"] = String(text).split("/");
  return Number(above) / Number(below);
}
