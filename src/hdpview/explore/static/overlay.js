// What every chart is compared with: the shape of all records, of filter A, or of another view.

import { ask } from "./api.js";
import { isMeasured } from "./model.js";
import { element } from "./parts.js";

const MOST_COMPARED = 100; // values of an attribute whose differences are asked for unasked
const MOST_KEPT = 20; // conditions whose histograms are kept

export class Overlay {
  /** list: the element to choose from. */
  constructor(page, list) {
    Object.assign(this, { page, list, known: new Map() });
  }

  /** What is chosen: all, A, none, “view NAME” or “beside NAME”. */
  get chosen() {
    return this.list.value;
  }

  /** The view that stands beside this one, if any. */
  get beside() {
    return this.chosen.startsWith("beside ") ? this.chosen.slice("beside ".length) : null;
  }

  /** Another view was opened. */
  forget() {
    this.known.clear();
  }

  /** List the choices that there are now. */
  offer(chosen = this.chosen) {
    const { views, view, closer, beside } = this.page;
    const option = (value, text) => element("option", { value }, text);
    this.list.replaceChildren(
      option("all", "all records"),
      ...(closer.compared.hasKept ? [option("A", `${closer.compared.nameOf("A")} (filter A)`)] : []),
      ...views.filter(({ name }) => name !== view).map(({ name }) => option(`view ${name}`, `view ${name}`)),
      ...beside.offered.map((name) => option(`beside ${name}`, `${name}, side by side`)),
      option("none", "nothing"),
    );
    this.list.value = chosen;
    if (this.list.selectedIndex < 0) this.list.value = "all";
  }

  /** Histograms of some attributes to compare with, their kind and name; null where there is nothing to. */
  async ask({ where, attributes, groups, measure }, lane = "") {
    const kind = this.chosen;
    if (kind === "none" || this.beside || (kind === "all" && where === null)) return null;
    const isView = kind.startsWith("view ");
    const { view, closer } = this.page;
    const from = isView ? kind.slice("view ".length) : view;
    const condition = isView ? where : kind === "A" ? closer.compared.kept : null;
    const name = isView ? from : kind === "A" ? closer.compared.nameOf("A") : "all records";
    const asked = { groups, measure: isMeasured(measure) ? measure : null };
    const key = JSON.stringify([from, condition, asked]);
    const missing = attributes.filter((each) => !this.known.get(key)?.[each]);
    if (missing.length) {
      const question = { view: from, where: condition, own: {}, attributes: missing, ...asked };
      const answer = await ask("/api/histograms", question, `other ${lane}`);
      if (!answer) return null;
      if (this.known.size > MOST_KEPT) this.known.clear();
      this.known.set(key, { ...this.known.get(key), ...answer.histograms });
    }
    return { kind: isView ? "view" : kind, name, histograms: this.known.get(key) };
  }

  /**
   * While charts are compared with group A: mark where the shares of A and of what is shown really differ,
   * chart by chart. isNewest(): whether no other filter was asked for meanwhile.
   */
  async markDifferences(isNewest) {
    const { page } = this;
    const isWanted = () => isNewest() && this.chosen === "A";
    if (!isWanted()) return;
    const conditions = { first: page.closer.compared.kept, second: page.state.where() };
    const names = [page.closer.compared.nameOf("A"), page.closer.compared.nameOf("B")];
    if (isMeasured(page.measure)) return;
    for (const name of page.arrangement.visible()) {
      const chart = page.charts.get(name);
      if (!isWanted()) return;
      if (chart.shown.groups.length > MOST_COMPARED || page.filtered.includes(name)) continue;
      const question = { view: page.view, ...conditions, attribute: name, groups: chart.asked };
      // A view without such intervals has no marks.
      const answer = await ask("/api/shares", question, "differences").catch(() => null);
      if (answer && isWanted()) chart.differ(answer, names);
    }
  }
}
