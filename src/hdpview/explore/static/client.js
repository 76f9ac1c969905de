// A client of the engine: a worker that holds one view and answers requests by number.

export class Client {
  /** content: the view as written by publish.py. */
  constructor(worker, content) {
    Object.assign(this, { worker, waiting: new Map(), asked: 0 });
    worker.addEventListener("message", ({ data: { id, answer, error, refused } }) => {
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      if (error === undefined) resolve(answer);
      else reject(Object.assign(new Error(error), { refused }));
    });
    this.#post({ content });
  }

  ask(path, body) {
    return this.#post({ path, body });
  }

  #post(message) {
    return new Promise((resolve, reject) => {
      const id = (this.asked += 1);
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, ...message });
    });
  }
}
