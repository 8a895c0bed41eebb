/** A worker of a crew: it hears what it is told, else waits for turns, and takes part while they are open. */

export const [TURN, MODULE, START, SIZE, OPEN, BUSY, CALLS] = [0, 1, 2, 3, 4, 5, 6]; // of the words by which they agree
export const PATIENCE = 10000; // turns of waiting awake: less than a tenth of a millisecond

/** The instance of a module, given a place for its data; threads share the memory, and each has a table. */
export async function instantiate(module, memory, { table, base }) {
  const functions = new WebAssembly.Table({ element: "anyfunc", initial: table });
  const number = (value) => new WebAssembly.Global({ value: "i32" }, value);
  const env = { memory, __indirect_function_table: functions, __memory_base: number(base), __table_base: number(0) };
  return (await WebAssembly.instantiate(module, { env })).exports;
}

class Helper {
  instances = new Map();
  last = Promise.resolve();

  constructor({ words, thread, calls }) {
    Object.assign(this, { words, thread, calls });
  }

  /** Messages one after another; nobody waits while one is under way, since who waits hears nothing. */
  hear(message) {
    this.last = this.last.then(() => this.learn(message)).then(() => {
      this.calls++;
      this.help();
    });
  }

  async learn({ number, module, memory, told }) {
    if (!module) return this.instances.delete(number);
    const instance = await instantiate(module, memory, told).catch(() => null); // there may be no room for it
    this.instances.set(number, instance);
    postMessage([number, instance !== null]);
  }

  help() {
    const { words, thread } = this;
    while (Atomics.load(words, CALLS) === this.calls) {
      const turn = Atomics.load(words, TURN);
      Atomics.add(words, BUSY, 1);
      if (Atomics.load(words, OPEN) && thread < words[SIZE]) this.instances.get(words[MODULE])?.run(words[START], thread, words[SIZE]);
      if (Atomics.sub(words, BUSY, 1) === 1) Atomics.notify(words, BUSY);
      for (let turns = 0; turns < PATIENCE && Atomics.load(words, TURN) === turn; turns++); // the next run may be near
      if (Atomics.load(words, CALLS) === this.calls) Atomics.wait(words, TURN, turn);
    }
  }
}

// whose name it is: others import this
if (globalThis.WorkerGlobalScope && globalThis.name === "sardonyx-crew") {
  let helper;
  onmessage = ({ data }) => (helper ? helper.hear(data) : (helper = new Helper(data)));
}
