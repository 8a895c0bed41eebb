/** A trainer in a worker of its own, so that the thread of the page is free: the page's side of training_host.js. */

import { Tensor, copied } from "./types.js";
import { lent } from "./crew.js";

/** What a `Trainer` is, for one in the worker, which ends with it. */
export class RemoteTrainer {
  /** The trainer of a bundle, a Blob; null where the page's policy refuses workers. */
  static async load(file, name, threads) {
    const trainer = new RemoteTrainer();
    if (!(await trainer.isReady)) return null;
    await trainer.ask("load", { file, name, threads }).catch((error) => {
      trainer.end();
      throw error;
    });
    return trainer;
  }

  constructor() {
    this.count = 0;
    this.asked = new Map();
    this.pending = new Set();
    this.helpers = [];
    this.isReady = new Promise((resolve) => {
      try {
        this.worker = new Worker(new URL("./training_host.js", import.meta.url), { type: "module", name: "sardonyx-training" });
      } catch {
        return resolve(false);
      }
      this.worker.onmessage = ({ data, ports: [port] }) => {
        if (port) this.helpers.push(lent(port));
        else if (data.isReady) resolve(true);
        else this.hear(data);
      };
      this.worker.onerror = ({ message }) => {
        resolve(false);
        this.fail(new Error(`the worker of the session failed (${message}): load it anew`));
      };
    });
  }

  /** What the worker does with `given`. */
  ask(what, given, moved = []) {
    if (this.failure) return Promise.reject(this.failure);
    const number = this.count++;
    const answer = new Promise((resolve, reject) => {
      this.worker.postMessage({ number, what, given }, moved);
      this.asked.set(number, { resolve, reject });
    });
    const done = () => this.pending.delete(answer);
    answer.then(done, done);
    this.pending.add(answer);
    return answer;
  }

  hear({ number, result, error }) {
    const { resolve, reject } = this.asked.get(number);
    this.asked.delete(number);
    if (error) reject(error);
    else resolve(result);
  }

  fail(error) {
    this.failure = error;
    this.asked.forEach(({ reject }) => reject(error));
    this.asked.clear();
  }

  async run(part, feeds, names) {
    const [copies, moved] = copied(feeds);
    return tensorsOf(await this.ask("run", { part, feeds: copies, names }, moved));
  }

  async parameters(names) {
    return tensorsOf(await this.ask("parameters", { names }));
  }

  write(names, given) {
    const bytes = given.slice();
    return this.ask("write", { names, bytes }, [bytes.buffer]);
  }

  export(format, metadata) {
    return this.ask("export", { format, metadata });
  }

  /** End the worker, after what was asked for. */
  async release() {
    this.failure ??= new Error("this session was released");
    await Promise.allSettled(this.pending);
    this.end();
  }

  end() {
    [this.worker, ...this.helpers].forEach((worker) => worker?.terminate());
  }
}

const tensorsOf = (found) => Object.fromEntries(found.map(([name, type, data, dims]) => [name, new Tensor(type, data, dims)]));
