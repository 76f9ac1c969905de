// Undo and redo on top of the browser's history, so that the back button also undoes.

/** In an iframe the steps are kept here, so that they do not fill the history of the embedding page. */
export class Steps {
  /** onArrive(link): callback that shows a link. */
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

  /** Number a link typed into the address bar as the step after the last one. */
  #noteStep() {
    if (!this.own && history.state === null) history.replaceState({ step: (this.last += 1) }, "");
  }

  /** Record the link of the current state, as a new step or in place of the current one. */
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
      return; // some browsers refuse more than 100 steps in 30 seconds
    }
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
      // The browser refused: the address keeps an earlier link.
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
