// Which charts are shown, in which order and how large. It is kept in the link.

export const AT_FIRST = 24; // charts that are shown unasked

export class Arrangement {
  constructor(names) {
    Object.assign(this, {
      names,
      order: [...names],
      hidden: new Set(),
      large: new Set(),
      most: AT_FIRST,
      text: "",
    });
  }

  /** The names of the charts that are shown. */
  visible() {
    const found = this.text
      ? this.order.filter((name) => name.toLowerCase().includes(this.text))
      : this.order.filter((name) => !this.hidden.has(name));
    return found.slice(0, this.most);
  }

  /** How many are not shown: put away, and for want of room. */
  left() {
    const away = this.hidden.size;
    const rest = this.text ? 0 : Math.max(0, this.order.length - away - this.most);
    return { away: this.text ? 0 : away, rest };
  }

  /** enlarge, hide, front, earlier or later. */
  change(name, how) {
    if (how === "enlarge") {
      if (!this.large.delete(name)) this.large.add(name);
      return;
    }
    if (how === "hide") {
      this.hidden.add(name);
      return;
    }
    const shown = this.visible();
    const place = shown.indexOf(name);
    const before = { front: shown[0], earlier: shown[place - 1], later: shown[place + 2] }[how];
    if (how === "earlier" && place <= 0) return;
    const rest = this.order.filter((other) => other !== name);
    const at = before === undefined ? rest.length : rest.indexOf(before);
    if (before !== name) this.order = [...rest.slice(0, at), name, ...rest.slice(at)];
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
  }
}
