// Step 1: what each column is.

import { element, counted } from "./parts.js";
import { field, trim } from "./page.js";

const OF_INTEGERS = {
  "": "each number",
  every: "of width",
  bins: "number of",
  edges: "edges",
  age: "by age",
  percent: "percent",
  log: "log scale",
};
const BINNINGS = { integer: OF_INTEGERS, real: { ...OF_INTEGERS, "": "100 equal" } };
const WIDTHS = ["1h", "1d", "1w", "1mo", "1q", "1y"];
const SIZED = ["every", "bins", "edges"];
const SHOWN = ["min", "max", "binning", "size", "values", "ordered", "other", "rest"];

// What a suggestion does not change: it was said by the curator.
const OWN_WORDS = ["kind", "missing", "missing_as", "label", "unit"];

export class Describe {
  constructor(page, place) {
    this.page = page;
    this.rows = new Map();
    this.guesses = new Set(); // columns that hold a suggestion nobody has changed yet
    const { told } = page;
    this.summary = element("div", { class: "summary", role: "status", id: "summary" });
    this.suggest = element("button", { id: "suggest", onclick: () => this.useSuggestions() });
    this.list = element("div", { id: "columns" });
    for (const form of page.document.columns) this.list.append(this.row(form));
    place.append(
      element("h2", { tabindex: "-1" }, "Describe the columns"),
      element(
        "p",
        {},
        "Say what is known without looking at the data: from a law, a form, a code book. " +
          "Values beyond the bounds go to the nearest bound; values that are not listed go to “other”. " +
          "Leave out what nobody needs to ask about.",
      ),
      element("p", { class: "quiet" }, told.note),
      ...(told.is_text ? [this.source()] : []),
      element(
        "div",
        { class: "row" },
        this.suggest,
        element("span", { class: "quiet" }, "by the names of the columns alone; look them through"),
      ),
      this.learning(),
      this.summary,
      this.list,
      element(
        "div",
        { class: "next" },
        element(
          "button",
          { class: "primary", id: "to-choose", onclick: () => page.go("choose") },
          "Next: choose the budget",
        ),
      ),
    );
  }

  enter() {
    /* nothing to prepare */
  }

  row(form) {
    const said = element("div", { class: "said", id: `said-${this.rows.size}` });
    const row = element("div", { class: "column", "data-column": form.name });
    const use = element("input", {
      type: "checkbox",
      checked: form.use,
      "aria-label": `Use ${form.name}`,
      onchange: (event) => {
        form.use = event.target.checked;
        this.fill(form);
        this.page.changed();
      },
    });
    const kind = element(
      "select",
      {
        "aria-label": `Type of ${form.name}`,
        onchange: (event) => {
          form.kind = event.target.value;
          if (form.kind === "datetime") {
            form.binning = "every";
            form.size = "1mo";
          } else if (form.binning === "every" && WIDTHS.includes(form.size)) {
            form.binning = "";
            form.size = "";
          }
          this.fill(form);
          this.page.changed();
        },
      },
      ...this.page.told.kinds.map((each) =>
        element("option", { value: each, selected: each === form.kind }, each),
      ),
    );
    const fields = element("div", { class: "fields" });
    row.append(element("div", { class: "name" }, use, element("span", {}, form.name)), kind, fields, said);
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
      fields.append(
        element(
          "span",
          { class: "quiet" },
          this.page.told.identifiers.includes(form.name)
            ? "left out: its name is an identifier’s. It can identify the person, in step 2."
            : "left out",
        ),
      );
      return;
    }
    if (form.kind === "integer" || form.kind === "real") this.numbers(form, fields);
    else if (form.kind === "category") this.values(form, fields);
    else if (form.kind === "datetime")
      fields.append(
        this.text(form, "min", "from", "2015-01-31"),
        this.text(form, "max", "to", "2030-12-31"),
        this.choice(form, "size", "bins of", Object.fromEntries(WIDTHS.map((each) => [each, each]))),
      );
    fields.append(this.more(form));
  }

  numbers(form, fields) {
    const bounded = !["edges"].includes(form.binning);
    if (bounded) fields.append(this.text(form, "min", "from"), this.text(form, "max", "to"));
    fields.append(this.choice(form, "binning", "bins", BINNINGS[form.kind], true));
    if (SIZED.includes(form.binning))
      fields.append(
        this.text(
          form,
          "size",
          "",
          form.binning === "edges" ? "0, 1, 5, 10" : "5",
          form.binning === "edges" ? "wide" : "",
          `Bins of ${form.name}`,
        ),
      );
  }

  values(form, fields) {
    const area = element("textarea", {
      rows: Math.min(6, Math.max(1, form.values.split("\n").length)),
      spellcheck: "false",
      "aria-label": `Values of ${form.name}`,
      placeholder: "values, with commas or one per line",
      oninput: (event) => this.set(form, "values", event.target.value),
    });
    area.value = form.values;
    const ordered = element("input", {
      type: "checkbox",
      checked: form.ordered,
      "aria-label": `Values of ${form.name} are in order`,
      onchange: (event) => this.set(form, "ordered", event.target.checked),
    });
    fields.append(
      area,
      this.text(form, "other", "all others as", "other"),
      element("label", {}, ordered, "in order"),
    );
    if (form.rest.aliases)
      fields.append(element("span", { class: "quiet" }, "with other spellings, see the schema file"));
  }

  more(form) {
    const first = {
      own: "counted by themselves",
      as: "counted as",
      ...(form.missing === "unstated" ? { unstated: "not said" } : {}),
    };
    const place = element(
      "div",
      {},
      this.choice(form, "missing", "missing values are", first, true),
      ...(form.missing === "as"
        ? [this.text(form, "missing_as", "", "a value", "", `Missing values of ${form.name} count as`)]
        : []),
      this.text(form, "label", "label", form.name),
      this.text(form, "unit", "unit", "years"),
    );
    return element(
      "details",
      { open: form.missing !== "own" || Boolean(form.label || form.unit) },
      element("summary", { class: "quiet" }, "more"),
      place,
    );
  }

  text(form, key, words, placeholder = "", kind = "", label = "") {
    const input = element("input", {
      type: "text",
      class: kind,
      placeholder,
      "aria-label": label || `${words} of ${form.name}`,
      "data-key": key,
      oninput: (event) => this.set(form, key, event.target.value),
    });
    input.value = form[key];
    if (this.guesses.has(form.name) && SHOWN.includes(key)) input.classList.add("suggested");
    return words ? element("label", {}, words, input) : input;
  }

  choice(form, key, words, options, redraw = false) {
    const select = element(
      "select",
      {
        "aria-label": `${words} of ${form.name}`,
        onchange: (event) => {
          this.set(form, key, event.target.value);
          if (redraw) this.fill(form);
        },
      },
      ...Object.entries(options).map(([value, shown]) =>
        element("option", { value, selected: value === form[key] }, shown),
      ),
    );
    return element("label", {}, words, select);
  }

  set(form, key, value) {
    form[key] = value;
    this.guesses.delete(form.name);
    for (const node of this.rows.get(form.name).fields.querySelectorAll(".suggested"))
      node.classList.remove("suggested");
    this.page.changed();
  }

  /** Columns that a person still has to say something about and whose name suggests something. */
  suggestable() {
    const { told, check } = this.page;
    return this.page
      .used()
      .filter((form) => check.problems[form.name] && told.suggestions[form.name]?.[form.kind]);
  }

  useSuggestions() {
    for (const form of this.suggestable()) {
      const found = this.page.told.suggestions[form.name][form.kind];
      const kept = Object.entries(found).filter(([key]) => !OWN_WORDS.includes(key));
      Object.assign(form, Object.fromEntries(kept));
      this.guesses.add(form.name);
      this.fill(form);
    }
    this.page.checkNow();
  }

  /** A field for the formats of dates. */
  #dates() {
    const { source } = this.page.document;
    const oninput = (event) => {
      source.dates = event.target.value;
      this.page.changed();
    };
    const made = element("textarea", { rows: 2, "aria-label": "Date formats", oninput });
    made.value = source.dates;
    return made;
  }

  /** A field for the texts that stand for missing values. */
  #missing() {
    const { source } = this.page.document;
    const oninput = (event) => {
      source.missing = ["", ...event.target.value.split(/\s+/).filter(Boolean)];
      this.page.changed();
    };
    const label = "Texts for missing values";
    const made = element("input", { type: "text", class: "wide", "aria-label": label, oninput });
    made.value = source.missing.filter(Boolean).join(" ");
    return made;
  }

  /** How the file is written. */
  source() {
    const { source } = this.page.document;
    const input = (key, words, remark) => {
      const typed = element("input", {
        type: "text",
        "aria-label": words,
        oninput: (event) => {
          source[key] = event.target.value;
          this.page.changed();
        },
      });
      typed.value = source[key];
      return field(words, typed, remark);
    };
    const dates = this.#dates();
    const missing = this.#missing();
    const told = [
      source.encoding || "utf-8",
      source.separator ? `fields parted by ${source.separator}` : "",
      source.decimal ? `decimal ${source.decimal}` : "",
      source.dates.split("\n").join(" "),
    ];
    const summary = element("span", { class: "quiet" }, told.filter(Boolean).join(" · "));
    return element(
      "details",
      { class: "panel", id: "source" },
      element("summary", {}, "How the file is written: ", summary),
      element(
        "div",
        { class: "two" },
        element(
          "div",
          {},
          input("separator", "Separator", "empty: the one that parts the header best"),
          input("encoding", "Encoding", "utf-8, cp1252, latin-1, …"),
          input("decimal", "Decimal sign", "a point by default"),
        ),
        element(
          "div",
          {},
          input("thousands", "Sign between thousands", "none by default"),
          input("strip", "Signs around numbers", "such as $€%"),
          input("negative", "Numbers below zero", "parentheses, where (468.00) is one"),
          input("epoch", "Moments as numbers", "s or ms since 1970"),
          field("Date formats besides ISO", dates, "one per line, such as %d.%m.%Y"),
          field("Texts that stand for nothing", missing, "with blanks between them"),
        ),
      ),
    );
  }

  learning() {
    this.price = { epsilon: "0.2", delta: "1e-9" };
    const typed = (key, label) => {
      const input = element("input", {
        type: "text",
        "aria-label": label,
        oninput: (event) => {
          this.price[key] = event.target.value;
        },
      });
      input.value = this.price[key];
      return input;
    };
    this.learnError = element("div", { class: "error", role: "alert" });
    this.learnSaid = element("p", { role: "status", class: "quiet", id: "learnt" });
    this.learnButton = element("button", { id: "learn", onclick: () => this.learn() });
    return element(
      "details",
      { class: "panel", id: "learning" },
      element("summary", {}, "Estimate bounds from the data (uses budget)"),
      element(
        "p",
        {},
        "Bounds and frequent values of the columns that are still open are learnt with noise. It is " +
          "charged before a value is looked at, divided among the columns, and adds to what views of " +
          "this table cost.",
      ),
      element(
        "div",
        { class: "row" },
        (this.whose = element("span", {})),
        element("label", {}, "epsilon ", typed("epsilon", "Epsilon for learning")),
        element("label", {}, "delta ", typed("delta", "Delta for learning")),
        this.learnButton,
      ),
      element(
        "p",
        { class: "quiet" },
        "Learning text values needs a delta, because the list of values is itself private.",
      ),
      this.learnError,
      this.learnSaid,
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
        "First choose the column that identifies the person: learning protects rows or persons, as the view will." +
        page.steps.choose.proposal();
      this.whose.replaceChildren(page.steps.choose.unit("Whose row is it, for learning"));
      return;
    }
    this.learnSaid.textContent = "Learning …";
    this.learnButton.disabled = true;
    const order = page.order();
    try {
      const found = await page.saving("api/learn", {
        columns,
        ...this.price,
        privacy_unit: order.privacy_unit,
        max_rows: order.max_rows,
      });
      for (const form of page.document.columns)
        if (found.columns[form.name]) {
          Object.assign(form, found.columns[form.name]);
          this.fill(form);
        }
      page.document.learnt = found.learnt;
      page.commands.learn = found.command;
      page.showLedger(found.ledger);
      const unseen = found.open.length
        ? `. Nothing could be seen of ${found.open.join(", ")} with this budget`
        : "";
      this.learnSaid.textContent =
        `Learnt about ${counted(Object.keys(found.columns).length, "column")} for epsilon ` +
        `${this.price.epsilon}${unseen}. ${page.ledger.path} has the charge.`;
    } catch (problem) {
      this.learnError.textContent = problem.message;
      this.learnSaid.textContent = "";
    }
    await page.checkNow();
  }

  /** The server has looked at what is typed. */
  checked() {
    const { check } = this.page;
    for (const form of this.page.document.columns) {
      const { said, fields } = this.rows.get(form.name);
      const problem = form.use ? check.problems[form.name] : "";
      const warnings = form.use ? check.warnings.filter((each) => each.attribute === form.name) : [];
      const blocks = warnings.some((each) => each.is_blocking);
      const bins = form.use ? check.bins[form.name] : undefined;
      said.className = `said ${problem || blocks ? "wrong" : warnings.length ? "look" : "good"}`;
      said.textContent =
        problem ||
        (warnings.length
          ? warnings.map((each) => `${each.is_blocking ? "Lost: " : "Look: "}${each.sentence}`).join(" ")
          : bins
            ? `${counted(bins.n, "bin")}: ${bins.shown.join(", ")}`
            : "");
      for (const input of fields.querySelectorAll("input[type=text], textarea"))
        input.setAttribute("aria-describedby", said.id);
    }
    const n = Object.keys(check.problems).length;
    const blocking = check.warnings.filter((each) => each.is_blocking).length;
    const used = this.page.used().length;
    const cells = check.cells?.toExponential(1);
    const table = check.warnings.filter((each) => !each.attribute).map((each) => ` ${each.sentence}`);
    const lost = blocking ? ` But it loses much of the table (${counted(blocking, "warning")}).` : "";
    this.summary.textContent =
      check.problems[""] ??
      (n
        ? `${counted(n, "column")} of ${used} still ${n === 1 ? "needs" : "need"} something.`
        : check.valid
          ? `The schema is complete: ${counted(used, "attribute")}, ${cells} cells.${lost}${table.join("")}`
          : "");
    this.summary.classList.toggle("wrong", n > 0 || blocking > 0);
    const able = this.suggestable().length;
    this.suggest.textContent = able
      ? `Use the suggestions for ${counted(able, "column")}`
      : "No suggestions left";
    this.suggest.disabled = !able;
    const open = this.openColumns().length;
    this.learnButton.textContent = open ? `Learn about ${counted(open, "column")}` : "Nothing is open";
    this.learnButton.disabled = !open;
    document.body.dataset.problems = String(n);
    if (this.page.document.learnt.learnt_epsilon)
      this.summary.append(
        element(
          "span",
          { class: "quiet" },
          ` Learnt for epsilon ${trim(fraction(this.page.document.learnt.learnt_epsilon))}.`,
        ),
      );
  }
}

/** A fraction such as 1/5, or a decimal number. */
function fraction(text) {
  const [above, below = "1"] = String(text).split("/");
  return Number(above) / Number(below);
}
