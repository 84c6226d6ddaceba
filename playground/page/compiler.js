// The compiler in a worker. At most one request runs at a time: of those that wait, only the last
// is of interest.

export class Compiler {
  #worker = null;
  #running = null;
  #next = null;
  #number = 0;

  // The answer to a request: its lines, or why it failed, and the milliseconds that it took; `null`
  // if a later request took its place or it was stopped.
  ask(request) {
    this.#next?.done(null);
    return new Promise((done) => {
      this.#next = { request, done, number: ++this.#number };
      this.#start();
    });
  }

  // Ends the request that runs, and whatever waits behind it.
  stop() {
    this.#worker?.terminate();
    this.#worker = null;
    for (const one of [this.#running, this.#next]) one?.done(null);
    this.#running = this.#next = null;
  }

  get isBusy() {
    return this.#running !== null;
  }

  #start() {
    if (this.#running || !this.#next) return;
    if (!this.#worker) {
      this.#worker = new Worker("worker.js", { type: "module" });
      this.#worker.onmessage = ({ data }) => this.#answered(data);
    }
    [this.#running, this.#next] = [this.#next, null];
    const { number, request } = this.#running;
    this.#worker.postMessage({ number, request });
  }

  #answered(answer) {
    if (this.#running?.number !== answer.number) return;
    const { done } = this.#running;
    this.#running = null;
    done(answer);
    this.#start();
  }
}
