/** Workers that help a thread to run plans: one crew for all of its sessions, so that they share the cores. */

import { BUSY, CALLS, MODULE, OPEN, PATIENCE, SIZE, START, TURN } from "./helper.js";

const WORDS = 8;

/** Whether this thread may sleep: a page's own may not. */
export const maySleep = !globalThis.document;

/** How many threads a run gets: as many as asked for, or half of the processors, four at most. */
export function threadsFor(wanted) {
  const most = globalThis.navigator?.hardwareConcurrency ?? 1;
  const count = wanted ?? Math.min(4, Math.ceil(most / 2));
  if (count <= 1) return 1;
  const missing = ["Worker", "SharedArrayBuffer"].find((name) => !globalThis[name]);
  if (!missing && globalThis.crossOriginIsolated) return Math.min(count, 64);
  if (!threadsFor.told) {
    threadsFor.told = true;
    console.info(
      missing === "Worker" || globalThis.crossOriginIsolated
        ? `sardonyx: one thread, since there is no ${missing} here`
        : "sardonyx: one thread, since this page is not cross-origin isolated; serve it with the headers" +
            " Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp",
    );
  }
  return 1;
}

/**
 * A helper that the page makes, for its worker, which hears it by a port: in Firefox, one of some fifty calls of
 * `new Worker` in a worker never returns.
 */
export function borrowed() {
  const { port1, port2 } = new MessageChannel();
  postMessage(port2, [port2]);
  port1.terminate = () => port1.postMessage(null);
  return port1;
}

/** The page's side of it: the helper, if there is one. */
export function lent(port) {
  const lost = () => port.postMessage(null);
  try {
    const helper = Crew.helper(lost);
    port.onmessage = ({ data }) => (data ? helper.postMessage(data) : helper.terminate());
    helper.onmessage = ({ data }) => port.postMessage(data);
    return helper;
  } catch {
    return lost();
  }
}

/** The part that a module has in the crew: `size` threads at most run its launches. */
export class Crew {
  static here = null;

  /** A worker that helps; `lost` is called if it fails. A worker of a page sets this, to `borrowed`. */
  static helper = (lost) => {
    const worker = new Worker(new URL("./helper.js", import.meta.url), { type: "module", name: "sardonyx-crew" });
    worker.onerror = (event) => {
      event.preventDefault(); // or whoever has made this thread would hear it as a fault of its own
      if (event.message) console.warn(`sardonyx: a thread less, since helper.js fails: ${event.message}`);
      lost();
    };
    return worker;
  };

  /** Have so many threads, this one among them, know a module. The workers that the page's policy refuses are none. */
  static async join(size, module, memory, told) {
    const here = (Crew.here ??= new Workers());
    const number = here.modules++;
    here.users++;
    const isThere = await here.tell(size - 1, { number, module, memory, told });
    return new Crew(here, number, isThere.filter(Boolean).length + 1);
  }

  constructor(workers, number, size) {
    this.workers = workers;
    this.number = number;
    this.size = size;
  }

  /** Run the launches at an address; who of the workers wakes in time takes a share. */
  run(run, start) {
    const { words } = this.workers;
    words[MODULE] = this.number;
    words[START] = start;
    words[SIZE] = this.size;
    Atomics.store(words, OPEN, 1);
    Atomics.add(words, TURN, 1);
    Atomics.notify(words, TURN);
    run(start, 0, this.size);
    Atomics.store(words, OPEN, 0);
    for (let turns = 0, busy; (busy = Atomics.load(words, BUSY)); turns++) {
      if (turns > PATIENCE && maySleep) Atomics.wait(words, BUSY, busy); // who is in finds nothing left
    }
  }

  close() {
    if (--this.workers.users) return void this.workers.tell(this.size - 1, { number: this.number });
    this.workers.close();
    if (Crew.here === this.workers) Crew.here = null;
  }
}

class Workers {
  constructor() {
    this.words = new Int32Array(new SharedArrayBuffer(4 * WORDS));
    this.modules = this.users = 0;
    this.all = [];
  }

  /** Tell a message to the first `count` workers, who start if they are new; whether each does as it says. */
  tell(count, message) {
    while (this.all.length < count) this.start();
    const heard = this.all.map(({ fails, worker, answers }, k) => {
      worker?.postMessage(k < count ? message : {});
      return k < count && Promise.race([fails, new Promise((resolve) => answers.set(message.number, resolve))]);
    });
    Atomics.add(this.words, CALLS, 1);
    Atomics.add(this.words, TURN, 1);
    Atomics.notify(this.words, TURN);
    return Promise.all(heard);
  }

  start() {
    const member = { answers: new Map() };
    member.fails = new Promise((resolve) => {
      try {
        member.worker = Crew.helper(() => resolve(false));
        member.worker.onmessage = ({ data }) => (data ? member.answers.get(data[0])?.(data[1]) : resolve(false));
        const { words } = this;
        member.worker.postMessage({ words, thread: this.all.length + 1, calls: Atomics.load(words, CALLS) });
      } catch {
        resolve(false);
      }
    });
    this.all.push(member);
  }

  close() {
    this.all.forEach(({ worker }) => worker?.terminate());
  }
}
