// What is filtered: per attribute a range of bins or a set of codes, and a condition written by hand. And its SQL, words, history and link.

import { bound } from "./parts.js";

const TOLD = 3; // values of one attribute that are told by name

/** The SQL condition of a filter on one attribute. */
export function condition(attribute, filter) {
  const name = attribute.sql;
  const parts = [];
  if (filter.range) {
    const [first, last] = filter.range;
    const below = attribute.kind === "real" && last === attribute.ends.length - 2 ? "<=" : "<"; // a real attribute's last bin holds its end
    parts.push(`${name} >= ${attribute.ends[first]} AND ${name} ${below} ${attribute.ends[last + 1]}`);
  }
  const values = (filter.codes ?? []).filter((code) => attribute.literals && code < attribute.literals.length);
  if (values.length) parts.push(`${name} IN (${values.map((code) => attribute.literals[code]).join(", ")})`);
  if (filter.missing || (filter.codes ?? []).some((code) => attribute.nullable && code === attribute.labels.length - 1)) parts.push(`${name} IS NULL`);
  return parts.length > 1 ? `(${parts.join(" OR ")})` : parts[0];
}

/** The same for people: "age: 39 to 61", "region: Northmoor, Harrowick". */
export function inWords({ name, labels }, { range, missing, codes }) {
  if (missing) return `${name}: ${labels.at(-1)}`;
  if (range) return `${name}: ${range[0] === range[1] ? labels[range[0]] : `${bound(labels[range[0]], false)} to ${bound(labels[range[1]], true)}`}`;
  const more = codes.length - TOLD;
  return `${name}: ${codes.slice(0, TOLD).map((code) => labels[code]).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** The filter that keeps the values from one code to another, both included; of an ordered attribute missing ones only if they are all. */
export function between({ labels, ends, nullable }, first, last) {
  if (!ends) return { codes: Array.from({ length: last - first + 1 }, (_, i) => first + i) };
  const end = labels.length - 1 - Number(nullable);
  return first > end ? { missing: true } : { range: [first, Math.min(last, end)] };
}

export class State {
  constructor() { this.past = []; this.future = []; this.filters = {}; this.custom = null; this.attributes = []; }

  /** The whole condition, or null for everything; `without` leaves one attribute's own filter out. */
  where(without = null) {
    const parts = this.attributes.filter((a) => this.filters[a.name] && a.name !== without).map((a) => condition(a, this.filters[a.name]));
    if (this.custom) parts.unshift(parts.length ? `(${this.custom})` : this.custom);
    return parts.length ? parts.join(" AND ") : null;
  }

  change(filters, custom = null) {
    this.past.push(this.snapshot());
    this.future = [];
    this.filters = filters;
    this.custom = custom;
  }

  /** Change the filters of some attributes, null for none; what was written by hand stays. */
  set(changes) {
    const filters = Object.entries({ ...this.filters, ...changes }).filter(([, filter]) => filter);
    this.change(Object.fromEntries(filters), this.custom);
  }

  /** Go back to a snapshot as if what came after had never been; without one, give up what was written by hand. */
  withdraw(snapshot) {
    if (snapshot === null) { this.custom = null; return; }
    ({ filters: this.filters, custom: this.custom } = JSON.parse(snapshot));
    while (this.past.length && this.past.at(-1) === snapshot) this.past.pop();
  }

  undo() { this.#swap(this.past, this.future); }
  redo() { this.#swap(this.future, this.past); }

  #swap(from, to) {
    if (!from.length) return;
    to.push(this.snapshot());
    ({ filters: this.filters, custom: this.custom } = JSON.parse(from.pop()));
  }

  snapshot() { return JSON.stringify({ filters: this.filters, custom: this.custom }); }

  toLink(view, look) { return "#" + new URLSearchParams({ view, state: this.snapshot(), look: JSON.stringify(look) }); }

  /** Go where a link leads, as a step that can be undone. */
  follow(hash) {
    this.past.push(this.snapshot());
    this.future = [];
    this.fromLink(hash);
  }

  /** Take over a link's state; anything in it that does not fit the view is left out. */
  fromLink(hash) {
    this.filters = {}; this.custom = null;
    try {
      const { filters, custom } = JSON.parse(new URLSearchParams(hash.slice(1)).get("state") ?? "{}");
      if (typeof custom === "string") this.custom = custom;
      for (const attribute of this.attributes) {
        const filter = filters?.[attribute.name];
        if (filter && fits(attribute, filter)) this.filters[attribute.name] = filter;
      }
    } catch { /* a broken link is an empty one */ }
  }
}

function fits(attribute, filter) {
  const n = attribute.labels.length;
  const isCode = (code) => Number.isInteger(code) && code >= 0 && code < n;
  if (filter.range) return Boolean(attribute.ends) && filter.range.length === 2 && filter.range.every(isCode) && filter.range[0] <= filter.range[1] && filter.range[1] < attribute.ends.length - 1;
  return Boolean(filter.missing) || (Array.isArray(filter.codes) && filter.codes.length > 0 && filter.codes.every(isCode));
}
