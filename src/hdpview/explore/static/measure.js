// The control “Show”: charts show records, percent, the rate of an outcome, or the mean of a number.

import { choose, element, selectOf } from "./parts.js";

const KINDS = [["records", "records"], ["percent", "percent"], ["rate", "rate of …"], ["mean", "mean of …"]];

export class MeasureControl {
  /** changed: callback for a new measure. */
  constructor(root, changed) {
    const on = (update) => () => {
      update?.();
      changed();
    };
    this.kind = selectOf("Show", KINDS, "records", on(() => this.#offer()));
    this.outcome = selectOf("Outcome", [], undefined, on(() => this.#offerValues()));
    this.value = selectOf("Value of the outcome", [], undefined, on());
    this.missing = element("input", { type: "checkbox", id: "missing-no", onchange: on() });
    this.missingLabel = element("label", {}, this.missing, " count missing as no");
    root.append(this.kind, this.outcome, this.value, this.missingLabel);
  }

  setUp(attributes) {
    this.attributes = attributes;
    const rates = attributes.filter((a) => a.literals?.length > 1);
    const means = attributes.filter((a) => ["integer", "real"].includes(a.kind));
    this.offered = { records: [], percent: [], rate: rates, mean: means };
    for (const option of this.kind.options)
      option.disabled = ["rate", "mean"].includes(option.value) && !this.offered[option.value].length;
    this.restore({});
  }

  get measure() {
    const kind = this.kind.value;
    if (kind === "records" || kind === "percent") return { kind };
    if (kind === "mean") return { kind, attribute: this.outcome.value };
    const missing = this.missing.checked ? "no" : "out";
    return { kind, attribute: this.outcome.value, code: Number(this.value.value), missing };
  }

  /** Restore the measure from a link, as far as the view has it. */
  restore({ kind, attribute, code, missing }) {
    this.kind.value = "records";
    choose(this.kind, kind);
    if (!this.offered[this.kind.value].length && !["records", "percent"].includes(this.kind.value))
      this.kind.value = "records";
    this.#offer();
    choose(this.outcome, attribute);
    this.#offerValues();
    choose(this.value, String(code));
    this.missing.checked = missing === "no";
  }

  /** List the attributes that can be measured. The default is one with two values. */
  #offer() {
    const all = this.offered[this.kind.value];
    const before = this.outcome.value;
    const option = ({ name, label }) =>
      element("option", { value: name }, label ? `${name}: ${label}` : name);
    this.outcome.replaceChildren(...all.map(option));
    this.outcome.hidden = !all.length;
    const first = all.find((a) => a.literals?.length === 2) ?? all[0];
    if (first) this.outcome.value = first.name;
    choose(this.outcome, before);
    this.#offerValues();
  }

  #offerValues() {
    const attribute = this.attributes.find(({ name }) => name === this.outcome.value);
    const isRate = this.kind.value === "rate";
    const values = isRate ? (attribute?.literals ?? []) : [];
    this.value.hidden = !isRate;
    this.value.replaceChildren(...values.map((_, i) => element("option", { value: i }, attribute.labels[i])));
    if (values.length === 2) this.value.value = "1"; // usually “yes” or “true”
    this.missingLabel.hidden = !isRate || !attribute?.nullable;
  }
}
