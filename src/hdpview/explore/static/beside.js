// Two views with the same schema side by side: same filter, same scale, one pair of charts per attribute.

import { ask } from "./api.js";
import { Chart } from "./chart.js";
import { about, inferred, makeReadable, say } from "./parts.js";
import { get } from "./transport.js";

const MOST_VIEWS = 12; // other views whose schemas are fetched

/** A key that is equal for schemas whose charts show the same values. */
export const shapeOf = (attributes) =>
  JSON.stringify(attributes?.map(({ name, kind, labels }) => [name, kind, labels]));

export class Beside {
  /** page: owner of the charts; line: element that shows the other view's count. */
  constructor(page, line) {
    Object.assign(this, { page, line, schemas: new Map(), charts: new Map(), name: null });
  }

  /** Names of the other views with the same schema. */
  get offered() {
    return [...this.schemas.keys()];
  }

  /** Find other views with the schema of the open one. */
  async find({ name, attributes }) {
    this.schemas = new Map();
    const others = this.page.views.filter((view) => view.name !== name).slice(0, MOST_VIEWS);
    const schemas = await Promise.all(
      others.map((view) => get(`/api/schema?view=${encodeURIComponent(view.name)}`).catch(() => null)),
    );
    if (name !== this.page.view) return; // the user has opened another view meanwhile
    for (const schema of schemas.filter(Boolean)) {
      makeReadable(schema);
      if (shapeOf(schema.attributes) === shapeOf(attributes)) this.schemas.set(schema.name, schema);
    }
  }

  /** Show another view side by side with the open one; null for none. */
  choose(name) {
    if (name === this.name) return;
    this.name = name;
    this.charts = new Map();
    for (const chart of this.page.charts.values()) chart.level(0);
    say(this.line, "");
    if (name)
      for (const attribute of this.page.schema.attributes)
        this.charts.set(attribute.name, new Chart(attribute, this.page, name));
    this.setGrains();
  }

  /** Use the same bars as the charts of the open view. */
  setGrains() {
    for (const [name, chart] of this.charts) chart.setGrain(this.page.charts.get(name).chosen);
  }

  /** The other view's answer to the same request; null if no other view is shown. */
  ask(question, lane) {
    return this.name ? ask("/api/histograms", { ...question, view: this.name }, `beside ${lane}`) : null;
  }

  /** Draw that answer, each pair of charts on one scale. */
  draw({ count, histograms, filtered }, moving) {
    say(this.line, `${this.name}: ${about(count.estimate, count.lower, count.upper)}`);
    for (const [name, chart] of this.charts) {
      if (!histograms[name]) continue;
      const inferredFrom = inferred(this.schemas.get(this.name), name, filtered);
      const { state } = this.page;
      const where = state.where(name);
      chart.draw(histograms[name], { filter: state.filters[name], where, inferredFrom, moving });
      const own = this.page.charts.get(name);
      own.level(0);
      const top = Math.max(own.end, chart.end);
      own.level(top);
      chart.level(top);
    }
  }
}
