// Which charts are shown, in which order and how large. The link stores the arrangement.

const AT_FIRST = 24; // charts shown initially

export class Arrangement {
  constructor(names) {
    Object.assign(this, { names, shown: names.slice(0, AT_FIRST), large: new Set(), pinned: new Set() });
  }

  /** Names of the visible charts, pinned ones first. */
  visible() {
    const isPinned = (name) => this.pinned.has(name);
    return [...this.shown.filter(isPinned), ...this.shown.filter((name) => !isPinned(name))];
  }

  /** how: "enlarge", "pin" (both toggle), "hide", "show", "front", "earlier" or "later". */
  change(name, how) {
    const switched = { enlarge: this.large, pin: this.pinned }[how];
    if (how === "hide") {
      this.shown = this.shown.filter((other) => other !== name);
      this.pinned.delete(name);
      return;
    }
    if (!this.shown.includes(name)) this.shown = [...this.shown, name];
    if (switched) {
      if (!switched.delete(name)) switched.add(name);
      return;
    }
    const visible = this.visible();
    const place = visible.indexOf(name);
    const before = { front: visible[0], earlier: visible[place - 1], later: visible[place + 2] }[how];
    if (how === "show" || (how === "earlier" && place <= 0)) return;
    if (before !== name) this.#insert(name, (rest) => (before ? rest.indexOf(before) : rest.length));
  }

  showAll() {
    this.shown = [...this.shown, ...this.names.filter((name) => !this.shown.includes(name))];
  }

  /** Move a chart next to another one. */
  moveBeside(name, other, isAfter) {
    this.#insert(name, (rest) => rest.indexOf(other) + Number(isAfter));
  }

  /** Move a chart. place(rest): its new index among the other charts. */
  #insert(name, place) {
    const rest = this.shown.filter((other) => other !== name);
    const at = place(rest);
    this.shown = [...rest.slice(0, at), name, ...rest.slice(at)];
  }

  /** The arrangement for the link, as attribute numbers; null for the initial one. */
  packed() {
    const number = (name) => this.names.indexOf(name);
    const first = this.names.slice(0, AT_FIRST);
    const isFirst = this.shown.length === first.length && this.shown.every((name, i) => name === first[i]);
    const packed = {
      ...(isFirst ? {} : { shown: this.shown.map(number) }),
      ...(this.large.size ? { large: [...this.large].map(number) } : {}),
      ...(this.pinned.size ? { pinned: [...this.pinned].map(number) } : {}),
    };
    return Object.keys(packed).length ? packed : null;
  }

  /** Restore the arrangement from a link, ignoring what does not fit. */
  restore(packed) {
    const named = (key) =>
      Array.isArray(packed?.[key])
        ? [...new Set(packed[key].map((i) => this.names[i]).filter((name) => name !== undefined))]
        : null;
    this.shown = named("shown") ?? this.names.slice(0, AT_FIRST);
    this.large = new Set(named("large") ?? []);
    this.pinned = new Set(named("pinned") ?? []);
  }
}
