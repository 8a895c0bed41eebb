/** Processors: one memory, and the module of a bundle on it, which threads share where the page may have them. */

import { Crew, maySleep } from "./crew.js";
import { Memory } from "./memory.js";
import { instantiate } from "./helper.js";
import { Trial } from "./trial.js";
import { bytesOf } from "./types.js";

const SCRATCH = 1 << 20;
const STATE = 4; // words; the second says that nobody may sleep
const HEADER = 4;
const COUNTERS = 2;
const SHARED = 1 << 20; // bytes that a segment touches, from which on threads help

const PROBES = {
  simd: [0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
  "relaxed-simd": [0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11],
};

export class WasmDevice {
  /**
   * `modules` are those of a bundle; the first that the engine takes counts. Who `hurries` does not wait for helpers to
   * start: only those whose every run comes as a message, since runs in a row would keep this thread from hearing them.
   */
  constructor({ modules }, { threads, hurries = false }) {
    this.hurries = hurries;
    this.told = modules.find(({ features }) => features.every(isThere));
    if (modules.length && !this.told) throw new Error("this browser's WebAssembly lacks SIMD; use a newer one");
    this.section = this.told?.section;
    this.isLoaded = !this.told;
    this.threads = modules.length ? threads : 1;
    this.held = new Set(); // ranges
    this.home = Memory.take(this.threads > 1, this.held);
    this.memory = this.home.memory;
    dropped.register(this, [this.home, this.held], this);
  }

  watch = (act) => act();

  get nbytes() {
    return this.memory.buffer.byteLength;
  }

  /** Take the code, whose bytes this may change. */
  async load(binary) {
    const { memory, data, align, table } = this.told;
    binary[memory] = this.threads > 1 ? 3 : 1;
    const base = data ? this.allocate(data, align).start : 0;
    let module;
    try {
      module = await WebAssembly.compile(binary);
      this.exports = await instantiate(module, this.memory, { table, base });
    } catch (error) {
      throw new Error(`this browser refuses ${this.section} (${error.message}): compile anew, or have the policy say 'wasm-unsafe-eval'`);
    }
    this.isLoaded = true;
    this.scratch = this.allocate(SCRATCH * this.threads).start;
    if (this.threads > 1) this.joining = this.join(module, { table, base }); // weights are loaded meanwhile
  }

  async join(module, told) {
    const crew = await Crew.join(this.threads, module, this.memory, told);
    if (this.exports) this.crew = crew;
    else crew.close();
  }

  /** The bytes of the memory as it is now; growing makes a new array of it. */
  get bytes() {
    const { buffer } = this.memory;
    if (this.view?.buffer !== buffer) this.view = new Uint8Array(buffer);
    return this.view;
  }

  allocate(nbytes, align) {
    const start = this.home.allocate(nbytes, align);
    this.held.add(start);
    return { start };
  }

  free({ start }) {
    this.held.delete(start);
    this.home.release(start);
  }

  write({ chunk, offset }, bytes, at = 0) {
    this.bytes.set(bytes, chunk.start + offset + at);
  }

  read({ chunk, offset }, nbytes) {
    const start = chunk.start + offset;
    return this.bytes.slice(start, start + nbytes);
  }

  readAll(tensors) {
    return tensors.map(([address, nbytes]) => this.read(address, nbytes));
  }

  copy(source, target, nbytes) {
    const from = source.chunk.start + source.offset;
    this.bytes.copyWithin(target.chunk.start + target.offset, from, from + nbytes);
  }

  /** What runs these launches, `{ code, addresses, params }`, in order; call `release` when it is needed no more. */
  bind(launches) {
    const words = launches.flatMap(({ code, addresses, params }) => [
      code,
      addresses.length + params.length,
      ...addresses.map(({ chunk, offset }) => chunk.start + offset),
      ...params,
    ]);
    const touched = launches.reduce((sum, { addresses }) => sum + addresses.reduce((a, b) => a + b.nbytes, 0), 0);
    const counters = COUNTERS * launches.length;
    const size = STATE + HEADER + words.length;
    const { start: block } = this.allocate(4 * (size + counters));
    const end = block + 4 * size;
    const all = [0, Number(!maySleep), 0, 0, this.scratch, block, end, end, ...words, ...Array(counters).fill(0)];
    this.bytes.set(bytesOf(Uint32Array.from(all, (word) => word >>> 0)), block);
    const start = block + 4 * STATE;
    const isLarge = touched >= SHARED;
    const trial = new Trial();
    const alone = () => this.exports.run(start, 0, 1);
    const helped = () => {
      this.bytes.fill(0, end, end + 4 * counters);
      this.crew.run(this.exports.run, start);
    };
    const run = () => void (isLarge && this.crew ? trial.run(helped, alone) : alone());
    /** Take turns of a loop whose body this is, by the record at an address. */
    const repeat = (record, count) => this.exports.turns(start, record, count);
    return { run, repeat: isLarge && this.threads > 1 ? null : repeat, release: () => this.free({ start: block }) };
  }

  /** Nothing fails later here. */
  async settle() {
    if (!this.hurries) await this.joining;
  }

  close() {
    const { home, held } = this;
    dropped.unregister(this);
    this.crew?.close();
    Promise.resolve(this.joining).finally(() => home.leave(held)); // who joins writes data there
    this.exports = this.memory = this.home = this.view = this.crew = null;
  }
}

/** Sessions that nobody holds, nor has released. */
const dropped = new FinalizationRegistry(([home, held]) => home.leave(held));

/** Whether the engine has a feature: whether it takes a module with one of its instructions. */
function isThere(feature) {
  const start = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1];
  return WebAssembly.validate(Uint8Array.from([...start, ...(PROBES[feature] ?? [])]));
}
