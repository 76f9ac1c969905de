// The filter: a range of bins or a set of codes per attribute, and custom SQL. Converts it to SQL, words and
// links, and back.

import { isMissing, read, shares } from "./conditions.js";
import { bound } from "./parts.js";

/** An edge of a bin as an SQL literal. */
function edgeInSql({ kind, edges }, i) {
  if (kind !== "datetime") return String(edges[i]);
  return `TIMESTAMP '${new Date(edges[i] / 1000).toISOString().replace("T", " ").replace(/(\.000)?Z$/, "")}'`;
}

const NAMED = 3; // values of an attribute that a chip names

/** The SQL condition of a filter on one attribute. */
export function condition(attribute, filter) {
  const name = attribute.sql;
  const parts = [];
  if (filter.range) {
    const [first, last] = filter.range;
    // The last bin of a number also counts values beyond it.
    const isOpen = attribute.kind !== "datetime" && last === attribute.edges.length - 2;
    const below = isOpen ? "" : ` AND ${name} < ${edgeInSql(attribute, last + 1)}`;
    parts.push(`${name} >= ${edgeInSql(attribute, first)}${below}`);
  }
  const values = (filter.codes ?? []).filter(
    (code) => attribute.literals && code < attribute.literals.length,
  );
  if (values.length) parts.push(`${name} IN (${values.map((code) => attribute.literals[code]).join(", ")})`);
  if (
    filter.missing ||
    (filter.codes ?? []).some((code) => attribute.nullable && code === attribute.labels.length - 1)
  )
    parts.push(`${name} IS NULL`);
  return parts.length > 1 ? `(${parts.join(" OR ")})` : parts[0];
}

/** A range of bins: "39 to 61", "60 or more". */
function rangeWords(labels, [first, last]) {
  if (first === last) return labels[first];
  const [start, end] = [bound(labels[first], false), bound(labels[last], true)];
  const [isOpen, isFromBelow] = [/ or more$/.test(end), / or less$/.test(start)];
  if (isOpen) return isFromBelow ? "any" : `${start} or more`;
  return isFromBelow ? `${end} or less` : `${start} to ${end}`;
}

/** A filter in words: "age: 39 to 61", "region: Northmoor, Harrowick". */
export function inWords({ name, labels }, { range, missing, codes }) {
  const none = missing ? [labels.at(-1)] : [];
  if (range) none.unshift(rangeWords(labels, range));
  if (range || missing) return `${name}: ${none.join(" or ")}`;
  const more = codes.length - NAMED;
  const named = codes.slice(0, NAMED).map((code) => labels[code]);
  return `${name}: ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** An attribute in the form that conditions.js reads: with raw labels and the number of values. */
const axisOf = (attribute) => ({
  ...attribute, labels: attribute.rawLabels ?? attribute.labels,
  nValues: attribute.labels.length - Number(attribute.nullable), size: attribute.labels.length,
});

/** The chart filters equivalent to a condition, or null if there are none. */
function asFilters(text, attributes) {
  const axes = attributes.map(axisOf);
  let asked;
  try {
    asked = read(text, axes);
  } catch {
    return null;
  }
  const filters = [...asked].map(([a, condition]) => [attributes[a].name, asFilter(axes[a], condition)]);
  return filters.length && filters.every(([, filter]) => filter) ? Object.fromEntries(filters) : null;
}

function asFilter(axis, ranges) {
  const share = shares(axis, ranges);
  const codes = [...share.keys()].filter((code) => share[code] === 1);
  if (share.some((value) => value % 1) || !codes.length) return null;
  if (!axis.edges) return { codes };
  const values = codes.filter((code) => code < axis.nValues);
  const none = isMissing(ranges) ? { missing: true } : {};
  if (!values.length) return none;
  const [first, last] = [values[0], values.at(-1)];
  return last - first === values.length - 1 ? { range: [first, last], ...none } : null;
}

/** The filter on codes first to last, inclusive. On an ordered attribute, missing is only selected alone. */
export function between({ labels, edges, nullable }, first, last) {
  if (!edges) return { codes: Array.from({ length: last - first + 1 }, (_, i) => first + i) };
  const end = labels.length - 1 - Number(nullable);
  return first > end ? { missing: true } : { range: [first, Math.min(last, end)] };
}

export class State {
  constructor(attributes = []) {
    this.filters = {};
    this.custom = null;
    this.attributes = attributes;
  }

  /** The condition as SQL, or null for all records. without: attribute whose own filter is left out. */
  where(without = null) {
    const parts = this.attributes
      .filter((a) => this.filters[a.name] && a.name !== without)
      .map((a) => condition(a, this.filters[a.name]));
    if (this.custom) parts.unshift(parts.length ? `(${this.custom})` : this.custom);
    return parts.length ? parts.join(" AND ") : null;
  }

  change(filters, custom = null) {
    this.filters = filters;
    this.custom = custom;
  }

  /** Set the filter to a condition: as chart filters if they are equivalent, otherwise as custom SQL. */
  run(text) {
    const filters = text ? asFilters(text, this.attributes) : {};
    this.change(filters ?? {}, filters ? null : text);
  }

  /** Change the filters of some attributes (null removes one). Custom SQL stays. */
  set(changes) {
    const filters = Object.entries({ ...this.filters, ...changes }).filter(([, filter]) => filter);
    this.change(Object.fromEntries(filters), this.custom);
  }

  restore(snapshot) {
    ({ filters: this.filters, custom: this.custom } = JSON.parse(snapshot));
  }

  snapshot() {
    return JSON.stringify({ filters: this.filters, custom: this.custom });
  }

  toLink(view, look) {
    return "#" + new URLSearchParams({ view, state: this.snapshot(), look: JSON.stringify(look) });
  }

  /** Restore the filter from a link, ignoring what does not fit the view. */
  fromLink(hash) {
    this.filters = {};
    this.custom = null;
    try {
      const { filters, custom } = JSON.parse(new URLSearchParams(hash.slice(1)).get("state") ?? "{}");
      if (typeof custom === "string") this.custom = custom;
      for (const attribute of this.attributes) {
        const filter = filters?.[attribute.name];
        if (filter && fits(attribute, filter)) this.filters[attribute.name] = filter;
      }
    } catch {
      // A broken link is treated as empty.
    }
  }
}

/** True if a filter from a link is valid for an attribute. */
function fits(attribute, filter) {
  const n = attribute.labels.length;
  const isCode = (code) => Number.isInteger(code) && code >= 0 && code < n;
  if (filter.range)
    return (
      Boolean(attribute.edges) &&
      filter.range.length === 2 &&
      filter.range.every(isCode) &&
      filter.range[0] <= filter.range[1] &&
      filter.range[1] < attribute.edges.length - 1
    );
  return (
    Boolean(filter.missing) ||
    (Array.isArray(filter.codes) && filter.codes.length > 0 && filter.codes.every(isCode))
  );
}
