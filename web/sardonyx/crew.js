/** Workers that help the thread that runs a plan, on one shared memory. */

import { instantiate } from "./wasm.js";

const NAME = "sardonyx crew"; // which tells a worker of the crew from one of the page that imports this
const WORDS = 8;
const [TURN, START, SIZE, OPEN, BUSY, END] = [0, 1, 2, 3, 4, 5]; // of the words by which they agree

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

export class Crew {
  /** Workers that have instantiated a module; fewer where the page's policy refuses some. */
  static async start(size, module, memory, told) {
    const words = new Int32Array(new SharedArrayBuffer(4 * WORDS));
    const started = [];
    for (let thread = 1; thread < size; thread++) {
      started.push(
        new Promise((resolve) => {
          try {
            const worker = new Worker(new URL("./crew.js", import.meta.url), { type: "module", name: NAME });
            worker.onmessage = () => resolve(worker);
            worker.onerror = () => resolve(null);
            worker.postMessage({ words, module, memory, told, thread });
          } catch {
            resolve(null);
          }
        }),
      );
    }
    return new Crew(words, (await Promise.all(started)).filter(Boolean));
  }

  constructor(words, workers) {
    this.words = words;
    this.workers = workers;
    this.size = workers.length + 1;
  }

  /** Run the launches at an address; who of the workers wakes in time takes a share. */
  run(run, start) {
    const { words, size } = this;
    words[START] = start;
    words[SIZE] = size;
    Atomics.store(words, OPEN, 1);
    Atomics.add(words, TURN, 1);
    Atomics.notify(words, TURN);
    run(start, 0, size);
    Atomics.store(words, OPEN, 0);
    while (Atomics.load(words, BUSY)); // they find nothing left, and are through in no time
  }

  close() {
    Atomics.store(this.words, END, 1);
    this.workers.forEach((worker) => worker.terminate());
  }
}

/** A worker's life: wait for a turn, take part while it is open. */
async function help({ data: { words, module, memory, told, thread } }) {
  const { run } = await instantiate(module, memory, told);
  let turn = Atomics.load(words, TURN);
  postMessage("ready");
  while (!Atomics.load(words, END)) {
    Atomics.wait(words, TURN, turn);
    turn = Atomics.load(words, TURN);
    Atomics.add(words, BUSY, 1);
    if (Atomics.load(words, OPEN)) run(words[START], thread, words[SIZE]);
    Atomics.sub(words, BUSY, 1);
  }
}

if (globalThis.WorkerGlobalScope && globalThis.name === NAME) globalThis.onmessage = help;
