// The compiler in a worker. At most one request runs at a time: of those that wait, only the last
// is of interest, and one that runs for long ends as soon as another waits.

// Milliseconds that a request may run while another waits.
const PATIENCE = 250;

export class Compiler {
  #module = WebAssembly.compileStreaming(fetch("playground.wasm"));
  #worker = null;
  #running = null;
  #next = null;
  #number = 0;
  #timer = 0;

  // The answer to a request: its lines and files, or why it failed, and the milliseconds that it
  // took; `null` if a later request took its place or it was stopped.
  ask(request, files = {}) {
    this.#next?.done(null);
    return new Promise((done) => {
      this.#next = { request, files, done, number: ++this.#number };
      this.#start();
      if (this.#next && !this.#timer) {
        const left = this.#running.begin + PATIENCE - performance.now();
        this.#timer = setTimeout(() => this.#end(), Math.max(left, 0));
      }
    });
  }

  // Ends the request that runs, and whatever waits behind it.
  stop() {
    this.#next?.done(null);
    this.#next = null;
    if (this.#running) this.#end();
  }

  get isBusy() {
    return this.#running !== null;
  }

  #end() {
    this.#worker.terminate();
    this.#worker = null;
    this.#answered(null);
  }

  #start() {
    if (this.#running || !this.#next) return;
    if (!this.#worker) {
      this.#worker = new Worker("worker.js", { type: "module" });
      this.#worker.onmessage = ({ data }) => data.number === this.#running?.number && this.#answered(data);
    }
    [this.#running, this.#next] = [this.#next, null];
    this.#running.begin = performance.now();
    const { number, request, files } = this.#running;
    const worker = this.#worker;
    this.#module.then((module) => worker.postMessage({ number, request, files, module }));
  }

  #answered(answer) {
    const { done } = this.#running;
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#running = null;
    done(answer);
    this.#start();
  }
}
