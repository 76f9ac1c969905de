// One history for undo and the browser's back button: undo goes back, redo goes forward.

/** Steps as the browser keeps them; a frame in another page keeps its own, so as not to fill the other's. */
export class Steps {
  /** onArrive(link): the page is to show what a link says. */
  constructor(onArrive) {
    this.own = window === window.top ? null : { links: [], at: -1 };
    this.onArrive = onArrive;
    this.last = history.state?.step ?? 0;
    window.addEventListener("popstate", () => {
      this.#noteStep();
      this.onArrive(location.hash);
    });
  }

  get step() {
    return this.own ? this.own.at : (history.state?.step ?? 0);
  }
  get canUndo() {
    return this.step > 0;
  }
  get canRedo() {
    return this.own ? this.own.at < this.own.links.length - 1 : this.step < this.last;
  }

  /** A link typed into the address bar has no number yet: it is the step after the last one. */
  #noteStep() {
    if (!this.own && history.state === null) history.replaceState({ step: (this.last += 1) }, "");
  }

  /** Another link is shown: as a step of its own, or in place of this one. */
  remember(link, isStep) {
    const isNew = isStep && this.link !== undefined;
    this.link = link;
    if (this.own) {
      this.#rememberOwn(link, isNew);
      return;
    }
    const step = this.step + Number(isNew);
    try {
      history[isNew ? "pushState" : "replaceState"]({ step }, "", link);
    } catch {
      return;
    } // some browsers refuse a hundred steps in half a minute
    this.last = isNew ? step : Math.max(this.last, step);
    this.link = location.hash;
  }

  #rememberOwn(link, isNew) {
    if (isNew || this.own.at < 0)
      this.own = { links: [...this.own.links.slice(0, this.own.at + 1), link], at: this.own.at + 1 };
    else this.own.links[this.own.at] = link;
    try {
      history.replaceState(null, "", link);
    } catch {
      /* the link is then that of an earlier step */
    }
  }

  undo() {
    this.#go(-1);
  }
  redo() {
    this.#go(1);
  }

  #go(by) {
    if (!(by < 0 ? this.canUndo : this.canRedo)) return;
    if (!this.own) {
      history.go(by);
      return;
    }
    this.own.at += by;
    this.onArrive(this.own.links[this.own.at]);
  }
}
