/** Python in a worker of the page, which compiles models one after another, and is kept for the next. */

const REST = 300_000; // milliseconds until a worker that nobody asks anything ends

const workers = new Map(); // by what they are told

/** What one model needs of the worker: start it, compile, and close, whatever happened. */
export class Compiler {
  constructor(told, tell, signal) {
    Object.assign(this, { told, tell, signal });
  }

  start() {
    try {
      this.python = pythonOf(this.told);
    } catch ({ message }) {
      throw new Error(`there are no workers here to compile in (${message}); use a page that may have some, or a bundle`);
    }
    this.python.enter(this);
  }

  /** The bundle's bytes; the model's go to the worker. */
  compile(model, targets, told, files) {
    if (!this.python) this.start();
    return this.python.ask({ model, targets, ...told, files }, this);
  }

  close() {
    this.python?.leave(this);
  }
}

function pythonOf(told) {
  const key = JSON.stringify(told);
  if (!workers.has(key)) workers.set(key, new Python(told, () => workers.delete(key)));
  return workers.get(key);
}

class Python {
  users = new Set();
  turn = Promise.resolve(); // when all that was asked is answered
  traffic = new AbortController();

  constructor(told, forget) {
    this.forget = forget;
    this.worker = new Worker(new URL("./compiler.js", import.meta.url), { type: "module", name: "sardonyx-compiler" });
    this.over = new Promise((_, reject) => (this.fail = reject));
    this.over.catch(() => this.end());
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = ({ message }) => this.fail(new Error(`compiler.js cannot run: ${message ?? "it is missing, or the page's policy refuses it"}`));
    this.worker.postMessage(told);
    this.supply(told).catch((error) => this.traffic.signal.aborted || this.fail(error));
  }

  /** Fetches for the worker, whose thread Python keeps busy: one group of files after another. */
  async supply({ files, total }) {
    let loaded = 0;
    const { signal } = this.traffic;
    const supply = async (address) => {
      const response = await fetch(address, { signal });
      if (!response.ok) throw new Error(`${address}: the server answers ${response.status}`);
      this.worker.postMessage({ address, type: response.headers.get("content-type") });
      const reader = response.body.getReader();
      for (let piece; !(piece = await reader.read()).done; ) {
        this.tell("pyodide", (loaded += piece.value.length), total);
        this.worker.postMessage({ address, piece: piece.value }, [piece.value.buffer]);
      }
      this.worker.postMessage({ address });
    };
    for (const group of files) await Promise.all(group.map(supply));
  }

  tell(...progress) {
    for (const { tell } of this.users) tell(...progress);
  }

  enter(user) {
    this.users.add(user);
    clearTimeout(this.timer);
  }

  /** Python cannot be interrupted: if the last who waits leaves early, the worker ends. */
  leave(user) {
    this.users.delete(user);
    if (this.users.size) return;
    if (user.signal?.aborted) this.end();
    else this.timer = setTimeout(() => this.end(), REST);
  }

  end() {
    this.traffic.abort();
    this.worker.terminate();
    this.forget();
  }

  ask(question, user) {
    const answered = this.turn.then(() => this.answer(question, user));
    this.turn = answered.catch(() => {});
    return Promise.race([answered, this.over, aborted(user.signal)]);
  }

  answer(question, user) {
    if (user.signal?.aborted) return undefined;
    this.asking = user;
    return new Promise((resolve, reject) => {
      this.settle = ({ bundle, error }) => (bundle ? resolve(bundle) : reject(new Error(error)));
      this.worker.postMessage(question, [question.model]);
    });
  }

  hear({ stage, loaded, total, ...answer }) {
    if (stage) this.asking.tell(stage, loaded, total);
    else if (answer.failure) this.fail(new Error(answer.failure));
    else this.settle(answer);
  }
}

/** Fails when the signal says so. */
const aborted = (signal) =>
  new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
