// Which charts are shown, in which order and how large. It is kept in the link.

export const AT_FIRST = 24; // charts that are shown unasked

export class Arrangement {
  constructor(names) {
    Object.assign(this, {
      names,
      order: [...names],
      hidden: new Set(),
      large: new Set(),
      pinned: new Set(),
      most: AT_FIRST,
      text: "",
    });
  }

  /** The names of the charts that are shown, pinned ones first. */
  visible() {
    const pinned = this.order.filter((name) => this.pinned.has(name));
    const isFound = (name) => (this.text ? name.toLowerCase().includes(this.text) : !this.hidden.has(name));
    const others = this.order.filter((name) => !this.pinned.has(name) && isFound(name));
    return [...pinned, ...others].slice(0, Math.max(this.most, pinned.length));
  }

  /** How many are not shown: put away, and for want of room. */
  left() {
    const away = this.hidden.size;
    const rest = this.text ? 0 : Math.max(0, this.order.length - away - this.most);
    return { away: this.text ? 0 : away, rest };
  }

  /** enlarge, pin, hide, front, earlier or later. */
  change(name, how) {
    const switched = { enlarge: this.large, pin: this.pinned }[how];
    if (switched) {
      if (!switched.delete(name)) switched.add(name);
      return;
    }
    if (how === "hide") {
      this.hidden.add(name);
      this.pinned.delete(name);
      return;
    }
    const shown = this.visible();
    const place = shown.indexOf(name);
    const before = { front: shown[0], earlier: shown[place - 1], later: shown[place + 2] }[how];
    if (how === "earlier" && place <= 0) return;
    if (before !== name) this.#insert(name, (rest) => (before ? rest.indexOf(before) : rest.length));
  }

  /** Move a chart beside another one. */
  moveBeside(name, other, isAfter) {
    this.#insert(name, (rest) => rest.indexOf(other) + Number(isAfter));
  }

  /** place(rest): where among the others the chart comes to stand. */
  #insert(name, place) {
    const rest = this.order.filter((other) => other !== name);
    const at = place(rest);
    this.order = [...rest.slice(0, at), name, ...rest.slice(at)];
  }

  showMore() {
    this.most += AT_FIRST;
  }
  showAll() {
    this.hidden.clear();
  }

  /** For the link, as numbers of attributes; nothing where all is as at first. */
  packed() {
    const number = (name) => this.names.indexOf(name);
    const isSorted = this.order.every((name, i) => name === this.names[i]);
    const found = {
      order: isSorted ? [] : this.order.map(number),
      hidden: [...this.hidden].map(number),
      large: [...this.large].map(number),
      pinned: [...this.pinned].map(number),
    };
    return Object.fromEntries(Object.entries(found).filter(([, numbers]) => numbers.length));
  }

  /** Take over what a link says; what does not fit is left out. */
  take(packed) {
    const named = (key) =>
      Array.isArray(packed?.[key])
        ? packed[key].map((i) => this.names[i]).filter((name) => name !== undefined)
        : [];
    const order = [...new Set(named("order"))];
    this.order = order.length === this.names.length ? order : [...this.names];
    this.hidden = new Set(named("hidden"));
    this.large = new Set(named("large"));
    this.pinned = new Set(named("pinned"));
  }
}
