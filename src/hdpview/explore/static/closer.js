// Look closer: two attributes as a heatmap, group-by, means and quantiles, two filters side by side. All by
// SQL, under the active filter.

import { ask } from "./api.js";
import { rateTable, shareTable, verdict } from "./compare.js";
import { Heatmap } from "./heatmap.js";
import { dimmed, element, inFull, inferredNote, plain, rounded, say, shown } from "./parts.js";
import { save, saveMenu, savePicture } from "./picture.js";
import { between } from "./state.js";
import { facts, file, offline } from "./transport.js";

const PICTURE = 50_000;
const MOST_CELLS = 250_000; // cells of a picture drawn unasked, and asked for
const LISTED = 500; // groups in the table; a saved file has all
const MEASURES = { share: "share of", mean: "mean of", median: "median of", sum: "sum of" };
const CALLS = { mean: "AVG", median: "MEDIAN", sum: "SUM" };
// The columns of the panel of numbers, and how the published page is asked for them.
const STATISTICS = { mean: "mean", q1: 0.25, median: 0.5, q3: 0.75 };
const selectOf = (label, names, chosen) => {
  const made = element(
    "select",
    { "aria-label": label },
    ...names.map((name) => element("option", { value: name }, name || "nothing else")),
  );
  made.value = chosen ?? names[0];
  return made;
};

/** Choose what a link says, if the list has it. */
function choose(list, value) {
  if ([...list.options].some((option) => option.value === value)) list.value = value;
}

/**
 * The two attributes of the first picture: one that has an order, and one with which it makes no huge
 * picture.
 */
function firstPair(attributes) {
  const across = attributes.find((a) => a.ends) ?? attributes[0];
  const others = attributes.filter((a) => a !== across);
  const down = others.find((b) => across.labels.length * b.labels.length <= PICTURE) ?? others[0] ?? across;
  return [across.name, down.name];
}

export class Closer {
  constructor(page) {
    this.page = page;
    this.tabs = [...document.querySelectorAll('[role="tab"]')];
    this.tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => this.open(i));
      tab.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (move) {
          const next = (i + move + this.tabs.length) % this.tabs.length;
          this.open(next);
          this.tabs[next].focus();
        }
      });
    });
    this.current = 0;
  }

  setUp(schema) {
    const names = schema.attributes.map((a) => a.name);
    this.schema = schema;
    this.kept = null;
    this.hasKept = false;
    this.#heatmapPanel(names, ...firstPair(schema.attributes));
    this.#tablePanel(names);
    this.#numbersPanel(
      schema.attributes.filter((a) => a.kind === "integer" || a.kind === "real").map((a) => a.name),
    );
    this.#ratesPanel(names);
    this.#comparePanel(names);
    this.#selectPanel();
    this.tabs[2].hidden = this.lacksNumbers;
    this.tabs[5].hidden = offline; // statements are read by the server
  }

  /** What is looked at, for the link. */
  look() {
    const kept = this.hasKept ? { kept: this.kept, names: this.names.map((field) => field.value) } : {};
    return {
      tab: this.current,
      x: this.x.value,
      y: this.y.value,
      blocks: this.blocks.checked,
      by: this.group.value,
      and: this.group2.value,
      shared: this.shared.value,
      cells: this.cells.value,
      measure: this.measure.value,
      outcome: this.outcome.value,
      value: this.value.value,
      rateBy: this.rateBy.value,
      ...kept,
    };
  }

  /** Take over what a link says was looked at; what does not fit the view is left out. */
  take(text) {
    let look = null;
    try {
      look = JSON.parse(text);
    } catch {
      /* a broken link is an empty one */
    }
    if (typeof look !== "object" || look === null) look = {};
    const names = new Set(this.schema.attributes.map((a) => a.name));
    for (const [list, name] of [
      [this.x, look.x],
      [this.y, look.y],
      [this.group, look.by],
      [this.group2, look.and],
      [this.shared, look.shared],
    ])
      if (names.has(name) || (name === "" && list === this.group2)) list.value = name;
    for (const [list, value] of [
      [this.cells, look.cells],
      [this.measure, look.measure],
      [this.rateBy, look.rateBy],
    ])
      choose(list, value);
    this.#outcomes();
    choose(this.outcome, look.outcome);
    this.#values();
    choose(this.value, look.value);
    this.blocks.checked = look.blocks === true;
    if (Array.isArray(look.names))
      this.names.forEach((field, i) => {
        field.value = String(look.names[i] ?? field.value).slice(0, 40);
      });
    this.hasKept = typeof look.kept === "string" || look.kept === null;
    this.kept = look.kept ?? null;
    if (Number.isInteger(look.tab) && this.tabs[look.tab]) this.#turn(look.tab);
  }

  open(i) {
    this.#turn(i);
    this.changed();
  }

  /** Something else is looked at: show it, and let the link say so. */
  changed() {
    this.page.remember(false);
    return this.refresh();
  }

  #turn(i) {
    this.current = i;
    this.tabs.forEach((tab, j) => {
      tab.setAttribute("aria-selected", String(i === j));
      tab.tabIndex = i === j ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = i !== j;
    });
  }

  refresh() {
    this.turn = (this.turn ?? 0) + 1; // what was asked for before and comes later is not drawn
    const panel = this.current;
    const turn = this.turn;
    const drawn = [
      () => this.heatmap(),
      () => this.table(),
      () => this.numbers(),
      () => this.measured(),
      () => this.compare(),
      () => this.select(),
    ][this.current]();
    return dimmed(this.#panel(panel), drawn).catch((p) => {
      if (turn === this.turn) this.#say(p.message, panel);
    });
  }

  /** Whether means and quantiles cannot be computed: the published page has no engine for them of blocks. */
  get lacksNumbers() {
    return offline && this.schema.made_of === "block";
  }

  from() {
    const where = this.page.state.where();
    return `FROM view${where ? ` WHERE ${where}` : ""}`;
  }
  sql(text, kind) {
    return ask("/api/sql", { sql: text, view: this.page.view }, kind);
  }
  /** An attribute's name as statements write it. */
  #sqlOf(name) {
    return this.schema.attributes.find((a) => a.name === name).sql;
  }
  panel() {
    return this.#panel(this.current);
  }
  #attribute(name) {
    return this.schema.attributes.find((a) => a.name === name);
  }
  #panel(i) {
    return document.getElementById(this.tabs[i].getAttribute("aria-controls"));
  }
  #say(text, panel = this.current) {
    if (panel === 0) this.picture = null;
    this.#panel(panel)
      .querySelector(".result")
      ?.replaceChildren(element("p", { class: "error" }, text));
  }

  #heatmapPanel(names, across, down) {
    this.x = selectOf("Across", names, across);
    this.y = selectOf("Down", names, down);
    this.x.addEventListener("change", () => this.changed());
    this.y.addEventListener("change", () => this.changed());
    this.map = element("div", {
      class: "result scroll",
      role: "region",
      "aria-label": "Result",
      tabindex: 0,
    });
    this.cell = element("div", { class: "quiet", id: "cell", "aria-live": "polite" });
    this.cells = element(
      "select",
      { "aria-label": "Cells show", onchange: () => this.changed() },
      ...Object.entries({
        records: "records",
        row: "percent of the row",
        column: "percent of the column",
        all: "percent of all",
      }).map(([value, text]) => element("option", { value }, text)),
    );
    this.blocks = element("input", { type: "checkbox", id: "blocks", onchange: () => this.changed() });
    const saved = saveMenu("the heatmap", ["PNG", "SVG"], (kind) =>
      this.#saveHeatmap(kind).catch((p) => this.#say(p.message)),
    );
    const copy = element(
      "button",
      {
        onclick: () => this.#copyPython(`view.plot.heatmap(${this.#heatmapArguments()})`),
      },
      "Copy Python",
    );
    this.#panel(0).replaceChildren(
      element(
        "div",
        { class: "controls" },
        "across",
        this.x,
        "down",
        this.y,
        "show",
        this.cells,
        ...(this.schema.made_of === "block" && !offline
          ? [element("label", {}, this.blocks, " draw the blocks")]
          : []),
        saved,
        copy,
      ),
      this.cell,
      this.map,
    );
    this.#read("");
  }

  async #saveHeatmap(kind) {
    if (!this.picture) return;
    // Of what the picture shows, which may be older than what is asked for.
    const { names, where } = this.drawn;
    await savePicture(
      this.picture,
      [`Records by ${names[0]} (across) and ${names[1]} (down)`, this.page.caption(where)],
      `heatmap_${names.join("_").replace(/[^\w-]+/g, "_")}`,
      kind,
    );
  }

  #read(words) {
    say(this.cell, words || "Point at a cell to read it, click it to filter by it.");
  }

  async heatmap() {
    const [a, b] = [this.x.value, this.y.value].map((name) =>
      this.schema.attributes.find((x) => x.name === name),
    );
    const cells = a.labels.length * b.labels.length;
    const why =
      a === b
        ? "Choose two different attributes."
        : cells > MOST_CELLS
          ? `${shown(cells)} cells are too many for a picture. Choose an attribute with fewer values.`
          : null;
    if (why) {
      this.picture = null;
      this.map.replaceChildren(element("p", {}, why));
      return;
    }
    const turn = this.turn;
    const where = this.page.state.where();
    const [answer, drawn] = await Promise.all([
      ask("/api/pairs", { view: this.page.view, where, first: b.name, second: a.name }, "pairs"),
      this.blocks.checked
        ? ask("/api/blocks", { view: this.page.view, first: a.name, second: b.name }, "blocks")
        : null,
    ]);
    if (!answer || turn !== this.turn) return;
    const choose = (across, down) =>
      this.page.filterAll({ [a.name]: between(a, ...across), [b.name]: between(b, ...down) });
    const map = new Heatmap(
      a,
      b,
      answer,
      drawn?.blocks ?? [],
      this.map.clientWidth,
      this.cells.value,
      (words) => this.#read(words),
      choose,
    );
    const wasFocused = document.activeElement === this.picture;
    this.picture = map.picture;
    this.drawn = { names: [a.name, b.name], where };
    const notes = [
      ...answer.notes,
      ...inferredNote(this.schema, [...new Set([a.name, b.name, ...this.page.filtered])]),
    ];
    if (drawn)
      notes.push(
        drawn.of > drawn.blocks.length
          ? `Lines: the ${shown(drawn.blocks.length)} largest of ${shown(drawn.of)} outlines of blocks.`
          : `Lines: outlines of the view's blocks, ${shown(drawn.of)} different ones. Inside a block the ` +
              `view knows one number.`,
      );
    this.map.replaceChildren(this.picture, ...notes.map((note) => element("p", { class: "quiet" }, note)));
    if (wasFocused) this.picture.focus();
  }

  #copyPython(call) {
    this.page.copy(
      `import hdpview as hv\n\nview = hv.open(${JSON.stringify(this.page.view)})\n${call}\n`,
      "Python copied",
    );
  }

  #tablePanel(names) {
    this.group = selectOf("Group by", names);
    this.group2 = selectOf("and by", ["", ...names], "");
    for (const pick of [this.group, this.group2]) pick.addEventListener("change", () => this.changed());
    this.rows = element("div", {
      class: "result scroll",
      role: "region",
      "aria-label": "Result",
      tabindex: 0,
    });
    const saved = saveMenu("the table", offline ? ["CSV"] : ["CSV", "Parquet"], (kind) =>
      this.#saveTable(kind.toLowerCase()).catch((p) => this.#say(p.message)),
    );
    const copy = element(
      "button",
      { onclick: () => this.#copyPython(`view.sql(${JSON.stringify(this.tableSql)})`) },
      "Copy Python",
    );
    const copySql = element(
      "button",
      { onclick: () => this.page.copy(this.tableSql, "SQL copied") },
      "Copy SQL",
    );
    this.#panel(1).replaceChildren(
      element("div", { class: "controls" }, "by", this.group, "and", this.group2, saved, copySql, copy),
      this.rows,
    );
  }

  async table() {
    const names = [...new Set([this.group.value, this.group2.value].filter(Boolean))];
    const by = names.map((name) => this.#sqlOf(name)).join(", ");
    const only = names.length === 1 && this.schema.attributes.find((a) => a.name === names[0]);
    const order = only?.ends && only.labels.length <= LISTED ? by : "n DESC"; // a scale keeps its order
    this.tableSql =
      `SELECT ${by}, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share ` +
      `${this.from()} GROUP BY ${by} ORDER BY ${order}`;
    const turn = this.turn;
    const answer = await (offline
      ? this.#groups(names)
      : this.sql(`${this.tableSql} LIMIT ${LISTED + 1}`, "table"));
    if (!answer || turn !== this.turn) return;
    const more = answer.rows.length > LISTED;
    const told = { ...answer, rows: answer.rows.slice(0, LISTED) };
    const notes = [
      ...answer.notes,
      ...inferredNote(this.schema, [...new Set([...names, ...this.page.filtered])]),
      more ? `The ${LISTED} largest groups; a saved file has all.` : "",
      answer.rows.length
        ? "Values in italics cannot be told from 0: noise and the model's error alone could make them."
        : "No value of this view fits the filter.",
    ];
    this.rows.replaceChildren(
      asTable(told, names.length),
      element("p", { class: "quiet" }, notes.filter(Boolean).join(" ")),
    );
  }

  /** The same groups without SQL, for a page that has no server. */
  async #groups(names) {
    const where = this.page.state.where();
    const [a, b] = names.map((name) => this.schema.attributes.find((each) => each.name === name));
    const answer = await (b
      ? ask("/api/pairs", { where, first: a.name, second: b.name }, "table")
      : ask("/api/histograms", { where }, "table"));
    if (!answer) return null;
    const found = b ? answer : answer.histograms[a.name];
    const flat = (key) => found[key].flat();
    const columns = [...names, "n", "n_lower", "n_upper"];
    const rows = flat("estimate").map((n, i) => ({
      ...Object.fromEntries(
        b
          ? [
              [a.name, a.labels[Math.floor(i / b.labels.length)]],
              [b.name, b.labels[i % b.labels.length]],
            ]
          : [[a.name, a.labels[i]]],
      ),
      n,
      n_lower: flat("lower")[i],
      n_upper: flat("upper")[i],
    }));
    return {
      columns,
      aggregates: ["n"],
      rows: rows.filter(({ n_upper: most }) => most > 0),
      notes: answer.notes ?? answer.count.notes,
    };
  }

  /**
   * All groups as a file: CSV of rounded numbers below a line that says where they come from, or Parquet as
   * it is.
   */
  async #saveTable(format) {
    if (format !== "csv") {
      save(
        `groups.${format}`,
        await file("/api/table", { view: this.page.view, sql: this.tableSql, format }),
      );
      return;
    }
    const names = [...new Set([this.group.value, this.group2.value].filter(Boolean))];
    this.#saveCsv(
      "groups.csv",
      await (offline ? this.#groups(names) : this.sql(this.tableSql, "file")),
      names,
    );
  }

  /** What the heatmap shows, as arguments of a call in Python. */
  #heatmapArguments() {
    const shown = [this.x.value, this.y.value, this.page.state.where()];
    return shown
      .filter((each) => each !== null)
      .map((each) => JSON.stringify(each))
      .join(", ");
  }

  #saveCsv(name, answer, names) {
    if (!answer) return;
    const { columns, rows, aggregates } = answer;
    const where = this.page.state.where();
    const own = facts();
    const isEnd = (column) =>
      aggregates.find((each) => column === each || column === `${each}_lower` || column === `${each}_upper`);
    const number = (row, column) => {
      const key = isEnd(column);
      const [low, high] = key ? [row[`${key}_lower`], row[`${key}_upper`]] : [];
      if (typeof low !== "number" || typeof high !== "number") return String(row[column]);
      return rounded(row[column], low, high, key === "n" ? 1 : 0)[0].replaceAll(",", "");
    };
    const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const cell = (row, column) =>
      typeof row[column] === "number" && !names.includes(column)
        ? number(row, column)
        : quoted(row[column] === null || row[column] === undefined ? "" : String(row[column]));
    const origin = [
      `# ${this.page.view}${own ? `, checksum ${own.checksum}` : ""}`,
      where ?? "all records",
      "95 % typical intervals",
      this.page.spent(),
      ...(this.schema.private ? [] : ["NOT PRIVATE"]),
      ...(answer.cut_off ? [`the first ${inFull(rows.length)} rows`] : []),
    ].join("; ");
    save(
      name,
      [
        origin.replace(/\s+/g, " "),
        columns.map(quoted).join(","),
        ...rows.map((row) => columns.map((column) => cell(row, column)).join(",")),
      ].join("\n") + "\n",
      "text/csv",
    );
  }

  #numbersPanel(names) {
    this.numeric = names;
    this.#panel(2).replaceChildren(
      element("div", { class: "result scroll", role: "region", "aria-label": "Result", tabindex: 0 }),
    );
  }

  /** Means and quartiles by a statement: for each number, [value, lower, upper] by the name of the column. */
  async #statedNumbers() {
    const call = (x, share) => (share === "mean" ? `AVG(${x})` : `quantile_cont(${x}, ${share})`);
    const parts = this.numeric.flatMap((name, i) =>
      Object.entries(STATISTICS).map(([key, share]) => `${call(this.#sqlOf(name), share)} AS ${key}_${i}`),
    );
    const answer = await this.sql(`SELECT ${parts.join(", ")} ${this.from()}`, "numbers");
    if (!answer) return null;
    const [row] = answer.rows;
    const span = (name) => ["", "_lower", "_upper"].map((end) => row[`${name}${end}`]);
    const spans = this.numeric.map((_, i) =>
      Object.fromEntries(Object.keys(STATISTICS).map((key) => [key, span(`${key}_${i}`)])),
    );
    return { spans, notes: answer.notes };
  }

  /** The same, computed in the page. */
  async #computedNumbers() {
    const where = this.page.state.where();
    const measures = Object.values(STATISTICS);
    const answers = await Promise.all(
      this.numeric.map((name) =>
        ask("/api/statistics", { where, attribute: name, measures }, `numbers of ${name}`),
      ),
    );
    if (answers.includes(null)) return null;
    const spans = answers.map(({ found }) =>
      Object.fromEntries(
        Object.keys(STATISTICS).map((key, i) => [
          key,
          [found[i].estimate[0], found[i].lower[0], found[i].upper[0]],
        ]),
      ),
    );
    return { spans, notes: answers[0].notes };
  }

  /** A number with its interval; where that is nearly all that the attribute can be, it says so. */
  #numberCell(name, [value, low, high]) {
    if (typeof value !== "number") return element("td", { class: "faint" }, "—");
    const ends = this.#attribute(name).ends.map(Number);
    const isKnown = typeof low === "number" && typeof high === "number";
    const isVague = !isKnown || high - low > 0.8 * (ends.at(-1) - ends[0]);
    const [mid, from, to] = isKnown ? rounded(value, low, high, 0) : [shown(value)];
    return element(
      "td",
      { class: isVague ? "faint" : null },
      element("span", {}, element("strong", {}, mid), isKnown ? ` (${from} to ${to})` : " (no bound)"),
      isVague ? element("small", {}, "says nothing: could be almost anywhere") : "",
    );
  }

  async numbers() {
    const result = this.#panel(2).querySelector(".result");
    if (!this.numeric.length) {
      result.replaceChildren(element("p", {}, "This view has no attribute that is a number."));
      return;
    }
    const turn = this.turn;
    if (!result.childElementCount) result.replaceChildren(element("p", { class: "quiet" }, "Computing…"));
    const answer = await (offline ? this.#computedNumbers() : this.#statedNumbers());
    if (!answer || turn !== this.turn) return;
    const rows = this.numeric.map((name, i) => {
      const cells = Object.keys(STATISTICS).map((key) => this.#numberCell(name, answer.spans[i][key]));
      return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
    });
    const heads = ["attribute", "mean", "a quarter lies below", "median", "three quarters lie below"];
    result.replaceChildren(
      element(
        "table",
        { class: "numbers" },
        element(
          "thead",
          {},
          element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head))),
        ),
        element("tbody", {}, ...rows),
      ),
      element(
        "p",
        { class: "quiet" },
        [...answer.notes, "In brackets: 95 % typical intervals. Bins count as their middle."].join(" "),
      ),
    );
  }

  #ratesPanel(names) {
    const { attributes } = this.schema;
    const changed = () => this.changed();
    this.kinds = {
      share: attributes.filter((a) => a.literals?.length),
      mean: attributes.filter((a) => ["integer", "real"].includes(a.kind)),
    };
    this.kinds.median = this.kinds.mean;
    this.kinds.sum = this.kinds.mean;
    const offered = Object.keys(MEASURES).filter(
      (measure) => this.kinds[measure].length && (measure === "share" || !this.lacksNumbers),
    );
    this.measure = element(
      "select",
      {
        "aria-label": "Measure",
        onchange: () => {
          this.#outcomes();
          changed();
        },
      },
      ...offered.map((value) => element("option", { value }, MEASURES[value])),
    );
    this.outcome = element("select", {
      "aria-label": "Outcome",
      onchange: () => {
        this.#values();
        changed();
      },
    });
    this.value = element("select", { "aria-label": "Value of the outcome", onchange: changed });
    this.#outcomes();
    this.rateBy = selectOf(
      "Rate by",
      names,
      attributes.find((a) => a.name !== this.outcome.value && a.labels.length <= 24)?.name ?? names[0],
    );
    this.rateBy.addEventListener("change", changed);
    const asked = offered.length
      ? [this.measure, this.outcome, this.value, "by", this.rateBy]
      : ["This view has no attribute to measure."];
    this.#panel(3).replaceChildren(
      element("div", { class: "controls" }, ...asked),
      element("div", { class: "result scroll", role: "region", "aria-label": "Result", tabindex: 0 }),
    );
  }

  /** The attributes that the measure can be of: two values first. */
  #outcomes() {
    const all = this.kinds[this.measure.value] ?? [];
    const before = this.outcome.value;
    this.outcome.replaceChildren(...all.map(({ name }) => element("option", { value: name }, name)));
    this.outcome.value = all.some(({ name }) => name === before)
      ? before
      : ((all.find((a) => a.literals?.length === 2) ?? all[0])?.name ?? "");
    this.#values();
  }

  #values() {
    const attribute = this.#attribute(this.outcome.value);
    const before = this.value.value;
    this.value.hidden = this.measure.value !== "share";
    this.value.replaceChildren(
      ...(attribute?.literals ?? []).map((literal, i) =>
        element("option", { value: literal }, attribute.labels[i]),
      ),
    );
    if (attribute?.kind === "boolean") this.value.value = "TRUE";
    choose(this.value, before);
  }

  /** Show a measure by the values of an attribute: one gesture from its chart. */
  measureBy(name) {
    this.rateBy.value = name;
    if (this.outcome.value === name)
      this.outcome.value = [...this.outcome.options].find((option) => option.value !== name)?.value ?? name;
    this.#values();
    this.open(3);
    this.tabs[3].scrollIntoView({ block: "center" });
  }

  /**
   * How often an outcome holds, or a mean or median, by the values of another attribute: "readmitted by
   * age".
   */
  async measured() {
    const result = this.#panel(3).querySelector(".result");
    const turn = this.turn;
    const by = this.#attribute(this.rateBy.value);
    const { measure } = this;
    if (!this.outcome.value) return;
    if (by.labels.length > LISTED) {
      result.replaceChildren(
        element(
          "p",
          {},
          `${by.name} has ${inFull(by.labels.length)} values, too many to list. Choose another.`,
        ),
      );
      return;
    }
    const answer = await (measure.value === "share" ? this.#rates(by) : this.#means(by, measure.value));
    if (!answer || turn !== this.turn) return;
    const notes = [
      ...answer.notes,
      ...inferredNote(this.schema, [...new Set([this.outcome.value, by.name, ...this.page.filtered])]),
    ];
    result.replaceChildren(
      rateTable(
        answer,
        by,
        measure.value === "share" ? null : [measure.value, this.#attribute(this.outcome.value)],
        notes,
      ),
    );
  }

  #rates(by) {
    const outcome = `${this.#sqlOf(this.outcome.value)} = ${this.value.value}`;
    return ask(
      "/api/rates",
      { view: this.page.view, where: this.page.state.where(), outcome, attribute: by.name },
      "rates",
    );
  }

  /** Means, medians or sums of an attribute by the values of another, in the form of rates. */
  async #means(by, measure) {
    if (offline) return this.#computedMeans(by, measure);
    const group = this.#sqlOf(by.name);
    const answer = await this.sql(
      `SELECT ${group} AS g, ${CALLS[measure]}(${this.#sqlOf(this.outcome.value)}) AS m ${this.from()} ` +
        `GROUP BY ${group} ORDER BY ${group}`,
      "rates",
    );
    if (!answer) return null;
    const code = ({ g }) => (g === null ? by.labels.length - 1 : by.rawLabels.indexOf(String(g)));
    const rows = answer.rows
      .map((row) => ({ ...row, code: code(row) }))
      .filter((row) => row.code >= 0)
      .sort((x, y) => x.code - y.code);
    const column = (key) => rows.map((row) => (typeof row[key] === "number" ? row[key] : null));
    return {
      codes: rows.map((row) => row.code),
      estimate: column("m"),
      lower: column("m_lower"),
      upper: column("m_upper"),
      notes: answer.notes,
    };
  }

  async #computedMeans(by, measure) {
    const asked = { where: this.page.state.where(), attribute: this.outcome.value, by: by.name };
    const measures = [measure === "median" ? STATISTICS.median : measure];
    const answer = await ask("/api/statistics", { ...asked, measures }, "rates");
    return answer && { codes: answer.codes, ...answer.found[0], notes: answer.notes };
  }

  #comparePanel(names) {
    this.shared = selectOf("Share out by", names, this.schema.attributes.find((a) => !a.ends)?.name);
    this.shared.addEventListener("change", () => this.changed());
    this.sides = element("div", { class: "result" });
    this.names = ["A", "B"].map((letter) =>
      element("input", {
        "aria-label": `Name of group ${letter}`,
        value: letter,
        maxlength: 40,
        size: 10,
        onchange: () => {
          this.page.overlays();
          this.changed();
        },
      }),
    );
    const keep = element("button", { onclick: () => this.#keep() }, "Keep the active filter as A");
    this.#panel(4).replaceChildren(
      element(
        "div",
        { class: "controls" },
        keep,
        element("span", { class: "quiet" }, "then change the filter: it is B"),
        element("label", {}, "A is called ", this.names[0]),
        element("label", {}, "B ", this.names[1]),
      ),
      this.sides,
    );
  }

  /** Keep the filter as A: from now on every chart shows A's shape beside B's. */
  #keep() {
    this.kept = this.page.state.where();
    this.hasKept = true;
    const free = this.schema.attributes.find((a) => !a.ends && !this.page.filtered.includes(a.name));
    if (free && this.page.filtered.includes(this.shared.value)) this.shared.value = free.name;
    this.page.overlays("A");
    this.changed();
    this.page.show(false, false);
  }

  /** What a group is called. */
  nameOf(letter) {
    return this.names[letter === "A" ? 0 : 1].value.trim() || letter;
  }

  #selectPanel() {
    this.statement = element("textarea", {
      rows: 5,
      spellcheck: "false",
      "aria-label": "A SELECT statement over the table view",
    });
    const [first] = this.schema.attributes;
    this.statement.value =
      `SELECT ${first.sql}, COUNT(*) AS n\nFROM view\nGROUP BY ${first.sql}\n` + "ORDER BY n DESC\nLIMIT 10";
    const run = element("button", { class: "primary", onclick: () => this.changed() }, "Run the statement");
    const saved = saveMenu("the result", ["CSV"], () => this.#saveCsv("result.csv", this.result, []));
    this.statement.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.changed();
      }
    });
    this.#panel(5).replaceChildren(
      this.statement,
      element(
        "div",
        { class: "controls" },
        run,
        saved,
        element(
          "span",
          { class: "quiet" },
          "Any SELECT over the table view. The filter above does not apply.",
        ),
      ),
      element("div", { class: "result scroll", role: "region", "aria-label": "Result", tabindex: 0 }),
    );
  }

  /** The answer to a statement written by hand. */
  async select() {
    const turn = this.turn;
    const answer = await this.sql(this.statement.value, "select");
    if (!answer || turn !== this.turn) return;
    this.result = answer;
    const more = answer.rows.length > LISTED || answer.cut_off;
    const notes = [
      ...answer.notes,
      ...answer.inferred,
      more ? `The first ${LISTED} rows.` : "",
      answer.rows.length ? "" : "No rows.",
    ].filter(Boolean);
    this.#panel(5)
      .querySelector(".result")
      .replaceChildren(
        asTable(
          { ...answer, rows: answer.rows.slice(0, LISTED) },
          answer.columns.findIndex((column) => answer.aggregates.includes(column)),
        ),
        ...notes.map((note) => element("p", { class: "quiet" }, note)),
      );
  }

  async compare() {
    if (!this.hasKept) {
      this.sides.replaceChildren(
        element("p", {}, "Keep a filter first, change it, and see whether the two counts really differ."),
      );
      return;
    }
    const second = this.page.state.where();
    const turn = this.turn;
    const answer = await ask("/api/compare", { view: this.page.view, first: this.kept, second }, "compare");
    if (!answer || turn !== this.turn) return;
    const names = [this.nameOf("A"), this.nameOf("B")];
    const told = verdict(answer, [this.kept, second], names);
    if (offline && this.schema.made_of === "block") {
      this.sides.replaceChildren(...told);
      return;
    }
    const by = this.schema.attributes.find((a) => a.name === this.shared.value);
    const table = await shareTable(this.page.view, by, [this.kept, second], names);
    if (table && turn === this.turn)
      this.sides.replaceChildren(
        ...told,
        element("div", { class: "controls" }, "How their records share out by", this.shared),
        table,
      );
  }
}

/**
 * A result as a table, whose first columns name the rows: each aggregate with its interval in one cell; rows
 * that may be nothing but noise say so.
 */
export function asTable({ columns, rows, aggregates = [] }, nNames) {
  const ends = new Set(aggregates.flatMap((name) => [`${name}_lower`, `${name}_upper`]));
  const seen = columns.filter((column) => !ends.has(column));
  const isShare = (column) => column === "share";
  const all = (row, column) => {
    // the value and its ends, rounded as the interval allows
    const ends = [row[column], row[`${column}_lower`], row[`${column}_upper`]];
    const known = ends.every((end) => typeof end === "number");
    if (!known)
      return ends.map((value) =>
        value === null || value === undefined
          ? "—"
          : typeof value === "number"
            ? shown(value)
            : String(value),
      );
    return isShare(column)
      ? rounded(...ends.map((end) => 100 * end), 0.1).map((end, i) => (i === 1 ? end : `${end} %`))
      : rounded(...ends, column === "n" ? 1 : 0);
  };
  const isNumber = (column) => rows.some((row) => typeof row[column] === "number");
  const faint = (row) =>
    aggregates.length > 0 &&
    typeof row[`${aggregates[0]}_lower`] === "number" &&
    row[`${aggregates[0]}_lower`] <= 0;
  const cells = (row, column) => {
    const isName = seen.indexOf(column) < nNames;
    const content = isName
      ? plain(String(row[column] ?? "(missing)"))
      : aggregates.includes(column)
        ? all(row, column)[0]
        : typeof row[column] === "number"
          ? shown(row[column])
          : String(row[column] ?? "—");
    const made = [
      element(
        isName ? "th" : "td",
        { class: isNumber(column) ? "number" : null, scope: isName ? "row" : null },
        content,
      ),
    ];
    if (aggregates.includes(column))
      made.push(element("td", { class: "quiet interval" }, all(row, column).slice(1).join(" to ")));
    return made;
  };
  const heads = seen.flatMap((column) => [
    element(
      "th",
      { class: isNumber(column) ? "number" : null, scope: "col" },
      column === "n" ? "records" : column,
    ),
    ...(aggregates.includes(column) ? [element("th", { scope: "col", class: "quiet" }, "likely")] : []),
  ]);
  return element(
    "table",
    {},
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ...heads,
        element(
          "th",
          { scope: "col", class: "worth" },
          element("span", { class: "hidden" }, "What it is worth"),
        ),
      ),
    ),
    element(
      "tbody",
      {},
      ...rows.map((row) =>
        element(
          "tr",
          { class: faint(row) ? "faint" : null },
          ...seen.flatMap((column) => cells(row, column)),
          element("td", { class: "worth" }, faint(row) ? "not distinguishable from 0" : ""),
        ),
      ),
    ),
  );
}
