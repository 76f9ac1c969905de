// The list of columns: find one, show or hide its chart, and rank columns by association with an outcome.

import { ask } from "./api.js";
import { grainsOf } from "./grain.js";
import { describing, element, inferred, percents, say } from "./parts.js";

const MOST_GROUPS = 12; // groups of an ordered attribute's bins when associations are computed
const MOST_VALUES = 200; // a category with more values is taken as one group

export class Columns {
  constructor(page, root) {
    Object.assign(this, { page, root, associations: null, text: "" });
    this.field = root.querySelector("#find");
    this.list = root.querySelector("ul");
    this.status = root.querySelector("#columns-status");
    this.field.addEventListener("input", () => {
      this.text = this.field.value.trim().toLowerCase();
      this.draw();
    });
    root.querySelector("#associate").addEventListener("click", () => this.associate());
    root.querySelector("#show-all").addEventListener("click", () => {
      page.arrangement.showAll();
      page.arranged();
    });
  }

  /** Drop the associations, because the view or the outcome has changed. */
  forget() {
    this.associations = null;
    this.turn = (this.turn ?? 0) + 1;
  }

  reset() {
    this.forget();
    this.field.value = this.text = "";
  }

  /** Why a column matches the search: "" for its name or label, or the matching value; null for no match. */
  #match({ name, label, labels }) {
    if (!this.text || [name, label ?? ""].some((each) => each.toLowerCase().includes(this.text))) return "";
    const value = labels.find((each) => each.toLowerCase().includes(this.text));
    return value === undefined ? null : value;
  }

  draw() {
    const { schema, arrangement } = this.page;
    const shown = new Set(arrangement.shown);
    const matches = schema.attributes
      .map((attribute) => ({ attribute, why: this.#match(attribute) }))
      .filter(({ why }) => why !== null);
    const item = ({ attribute, why }) => this.#item(attribute, shown.has(attribute.name), why);
    if (this.associations) this.list.replaceChildren(...this.#ranked(matches, item));
    else this.list.replaceChildren(...matches.map(item));
    const nHidden = schema.attributes.length - shown.size;
    this.root.querySelector("#show-all").hidden = !nHidden;
    const none = `No column matches “${this.field.value.trim().slice(0, 40)}”.`;
    const hidden = nHidden ? `${nHidden} of ${schema.attributes.length} hidden.` : "";
    say(this.status, matches.length ? hidden : none);
  }

  #item(attribute, isShown, why, strength = null) {
    const { name } = attribute;
    const box = element("input", {
      type: "checkbox", "aria-label": `Show ${name}`,
      onchange: () => this.page.arrange(name, box.checked ? "show" : "hide"),
    });
    box.checked = isShown;
    const title = [name, describing(attribute)].filter(Boolean).join(": ");
    const open = element(
      "button", { class: "bare", title, "aria-label": `Go to ${name}`, onclick: () => this.#open(name) },
      name,
    );
    const about = why ? `has “${why}”` : (attribute.label ?? "");
    const texts = [about, strength].filter(Boolean);
    return element("li", {}, box, open, ...texts.map((text) => element("small", { class: "quiet" }, text)));
  }

  /** Move a column's chart to the front, or pin it while associations are shown. */
  #open(name) {
    const how = this.associations ? "pin" : "front";
    if (!(how === "pin" && this.page.arrangement.pinned.has(name))) this.page.arrange(name, how);
    this.page.charts.get(name).card.scrollIntoView({ block: "nearest" });
  }

  /** List items by strength of association: clear, unclear, only modelled, not compared. */
  #ranked(matches, item) {
    const of = ({ attribute }) => this.associations.get(attribute.name);
    const known = matches.filter((each) => of(each) && !of(each).reason);
    const by = (x, y) => of(y).lower - of(x).lower || of(y).estimate - of(x).estimate;
    const isModelled = (each) => of(each).modelled.length > 0;
    const measured = known.filter((each) => !isModelled(each)).sort(by);
    const parts = [
      ["Clearly associated", measured.filter((each) => of(each).lower > 0)],
      ["No clear association", measured.filter((each) => !(of(each).lower > 0))],
      ["Only modelled: not counted together", known.filter(isModelled).sort(by)],
      ["Not compared", matches.filter((each) => !known.includes(each))],
    ];
    const entry = (each) => {
      const { attribute, why } = each;
      const span = of(each);
      const isKnown = span && !span.reason;
      const strength = isKnown ? strengthWords(span) : null;
      return this.#item(attribute, this.page.arrangement.shown.includes(attribute.name), why, strength);
    };
    const modelled = parts[2][1];
    const focus = modelled.length
      ? [element("li", { class: "quiet" }, `To measure one: hdpview build … ${focusOf(of(modelled[0]))}`)]
      : [];
    return parts.flatMap(([title, some], i) =>
      some.length
        ? [element("li", { class: "title" }, title), ...some.map(entry), ...(i === 2 ? focus : [])]
        : [],
    );
  }

  /** The two groups of records to compare, and the attributes that define them; null for none. */
  #sides() {
    const { page } = this;
    const { kind, attribute, code } = page.measure;
    const where = page.state.where();
    const under = page.state.custom ? `(${where})` : where;
    const and = (condition) => (where ? `${under} AND ${condition}` : condition);
    if (kind === "rate") {
      const outcome = page.attribute(attribute);
      const condition = `${outcome.sql} = ${outcome.literals[code]}`;
      const other = outcome.literals.filter((_, i) => i !== code);
      return {
        name: `${attribute} = ${outcome.labels[code]}`, names: [attribute], first: and(condition),
        second: and(`${outcome.sql} IN (${other.join(", ")})`),
      };
    }
    if (kind === "mean") {
      const { sql } = page.attribute(attribute);
      const { estimate } = page.overall ?? {};
      if (typeof estimate !== "number") return null;
      const [above, below] = [">=", "<"].map((sign) => and(`${sql} ${sign} ${estimate}`));
      return { name: `${attribute} above its mean`, names: [attribute], first: above, second: below };
    }
    if (page.closer.compared.hasKept) {
      const [a, b] = ["A", "B"].map((letter) => page.closer.compared.nameOf(letter));
      return { name: `${a} against ${b}`, names: [], first: page.closer.compared.kept, second: where };
    }
    return null;
  }

  async associate() {
    const sides = this.#sides();
    if (!sides) {
      say(this.status, "Choose “rate of” or “mean of” under Show, or keep a filter as A, and try again.");
      return;
    }
    this.forget();
    const { turn } = this;
    const { page } = this;
    const associations = new Map();
    const { first, second, names, name } = sides;
    for (const attribute of page.schema.attributes) {
      if (names.includes(attribute.name)) continue;
      const groups = coarse(attribute);
      const question = { view: page.view, first, second, attribute: attribute.name, groups };
      const answer = await ask("/api/association", question, "association").catch((problem) => ({
        reason: problem.message,
      }));
      if (!answer || turn !== this.turn) return;
      const modelled = inferred(page.schema, attribute.name, [...names, ...page.filtered]);
      associations.set(attribute.name, { ...answer, modelled, attribute: attribute.name });
      say(this.status, `Comparing: ${associations.size} of ${page.schema.attributes.length}…`);
    }
    this.associations = associations;
    this.draw();
    say(
      this.status,
      `${name}: the share of records that would have to change their value for both groups to be alike. ` +
        "Click a name to pin its chart.",
    );
  }
}

const focusOf = ({ attribute, modelled }) => `--focus ${attribute},${modelled[0]}`;

const strengthWords = ({ estimate, lower, upper }) => {
  const [share, low] = percents(estimate, lower, Math.min(upper, 2 * estimate - lower));
  return lower > 0 ? `${share}, at least ${low}` : `${share}, not clear`;
};

/** Groups of codes to compare, as [first, last]; null to compare each code. */
function coarse(attribute) {
  const all = attribute.labels.length;
  if (!attribute.edges) return all > MOST_VALUES ? [[0, all - 1]] : null;
  const grains = grainsOf(attribute);
  const { groups } = grains.find((each) => each.groups.length <= MOST_GROUPS) ?? grains.at(-1);
  if (groups.length <= MOST_GROUPS) return groups.map(({ first, last }) => [first, last]);
  const n = attribute.edges.length - 1;
  const each = Math.ceil(n / MOST_GROUPS);
  const part = (_, i) => [i * each, Math.min(n, (i + 1) * each) - 1];
  const parts = Array.from({ length: Math.ceil(n / each) }, part);
  return attribute.nullable ? [...parts, [n, n]] : parts;
}
