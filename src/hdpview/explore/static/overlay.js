// The control “Compare with”: charts are compared with all records, filter A, or another view.

import { ask } from "./api.js";
import { isMeasured } from "./model.js";
import { element } from "./parts.js";

const MOST_COMPARED = 100; // values of an attribute up to which differences are marked
const MOST_KEPT = 20; // conditions whose histograms are cached

export class Overlay {
  /** list: the <select> element. */
  constructor(page, list) {
    Object.assign(this, { page, list, cache: new Map() });
  }

  /** The selection: "all", "A", "none", "view NAME" or "beside NAME". */
  get chosen() {
    return this.list.value;
  }

  /** Name of the view shown side by side, if any. */
  get beside() {
    return this.chosen.startsWith("beside ") ? this.chosen.slice("beside ".length) : null;
  }

  /** Empty the cache, because another view is opened. */
  forget() {
    this.cache.clear();
  }

  /** List the current options. */
  offer(chosen = this.chosen) {
    const { views, view, closer, beside } = this.page;
    const option = (value, text) => element("option", { value }, text);
    const kept = closer.compared.nameOf("A");
    this.list.replaceChildren(
      option("all", "all records"),
      ...(closer.compared.hasKept ? [option("A", kept === "A" ? "filter A" : `${kept} (filter A)`)] : []),
      ...views.filter(({ name }) => name !== view).map(({ name }) => option(`view ${name}`, `view ${name}`)),
      ...beside.offered.map((name) => option(`beside ${name}`, `${name}, side by side`)),
      option("none", "nothing"),
    );
    this.list.value = chosen;
    if (this.list.selectedIndex < 0) this.list.value = "all";
  }

  /** Histograms to compare with, their kind and name; null if there is nothing to compare with. */
  async ask({ where, attributes, groups, measure }, lane = "") {
    const kind = this.chosen;
    if (kind === "none" || this.beside || (kind === "all" && where === null)) return null;
    const isView = kind.startsWith("view ");
    const { view, closer } = this.page;
    const from = isView ? kind.slice("view ".length) : view;
    const condition = isView ? where : kind === "A" ? closer.compared.kept : null;
    const name = isView ? from : kind === "A" ? closer.compared.nameOf("A") : "all records";
    const settings = { groups, measure: isMeasured(measure) ? measure : null };
    const key = JSON.stringify([from, condition, settings]);
    const missing = attributes.filter((each) => !this.cache.get(key)?.[each]);
    if (missing.length) {
      const question = { view: from, where: condition, own: {}, attributes: missing, ...settings };
      const answer = await ask("/api/histograms", question, `other ${lane}`);
      if (!answer) return null;
      if (this.cache.size > MOST_KEPT) this.cache.clear();
      this.cache.set(key, { ...this.cache.get(key), ...answer.histograms });
    }
    return { kind: isView ? "view" : kind, name, histograms: this.cache.get(key) };
  }

  /** If charts are compared with filter A, mark values whose shares clearly differ, until a newer request. */
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
      // Some views have no intervals of differences; their charts get no marks.
      const answer = await ask("/api/shares", question, "differences").catch(() => null);
      if (answer && isWanted()) chart.differ(answer, names);
    }
  }
}
