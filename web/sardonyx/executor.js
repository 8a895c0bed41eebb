/** Replays plans on one device. */

import { broken, evaluate, fit, isKnown, place, roomsOf, symbolsOf, termsOf } from "./sizes.js";
import { Tensor, arrayOf, bytesOf, product, widthOf } from "./types.js";
import { Turns } from "./turns.js";

const SLACK = 1 << 16; // bytes
const TURNS = 1 << 24; // of a loop in which another one has nothing to do
const TASK = 50; // milliseconds of loops without a rest
const HALTS = ["read", "branch", "loop", "host"];
/** The epoch of what lies in no chunk: caches, which callers hold. */
export const OUTSIDE = -1;

/** These sizes are not those of a plan. */
export class Mismatch extends Error {}

const MISMATCH = new Mismatch(); // one, as stacks are slow

/** A plan as bundles store it, with its epochs: what lies between two halts. */
class Plan {
  constructor(data) {
    const term = termsOf(data.sizes ?? []);
    const step = (each) => (Array.isArray(each) ? [each[0], each[1], each[2].map(term)] : each);
    const port = ([name, dtype, shape, buffer, symbols = []]) => ({ name, dtype, shape: shape.map(term), buffer, symbols });
    this.inputs = (data.inputs ?? []).map(port);
    this.outputs = (data.outputs ?? []).map(port);
    this.symbols = Object.entries(data.symbols ?? {});
    this.buffers = (data.buffers ?? []).map(
      ([dtype, sizes, epoch = 0, beneath = [], weight = "", once = 0, elements]) => {
        const shape = sizes.map(term);
        return { dtype, shape, epoch, beneath, weight, once, elements: elements === undefined ? ["*", 1, ...shape] : term(elements) };
      },
    );
    /** The numbers of the inputs that are caches: what is fed ends with the room that they have. */
    this.caches = [...this.inputs.keys()].filter((k) => this.buffers[this.inputs[k].buffer]?.epoch === OUTSIDE);
    this.setup = (data.setup ?? []).map(step);
    this.functions = data.functions ?? [];
    const guards = (data.guards ?? []).map(([size, ...truth]) => [term(size), ...truth]);
    this.guards = guards.length;
    this.epochs = this.split((data.steps ?? []).map(step), guards);
  }

  split(steps, guards) {
    const halts = steps.filter((step) => HALTS.includes(step.do));
    const later = new Set(halts.flatMap(defines));
    const epochs = [];
    let waiting = guards;
    for (let number = 0; number <= halts.length; number++) {
      const ready = (guard) => [...symbolsOf(guard[0])].every((symbol) => !later.has(symbol));
      const buffers = [...this.buffers.keys()].filter((k) => !this.buffers[k].weight && this.buffers[k].epoch === number);
      epochs.push({ buffers, launches: [], guards: waiting.filter(ready), halt: halts[number] });
      waiting = waiting.filter((guard) => !ready(guard));
      defines(halts[number] ?? {}).forEach((symbol) => later.delete(symbol));
    }
    let number = 0;
    for (const step of steps) {
      if (Array.isArray(step)) epochs[number].launches.push(step);
      else number++;
    }
    return epochs;
  }
}

export const defines = ({ symbols = [] }) => symbols.map((symbol) => (Array.isArray(symbol) ? symbol[0] : symbol));

/** Bind launches, of which none goes further than it has bytes. */
function bind(device, launches) {
  for (const { code, addresses, params } of launches) {
    const [name, , , [...extents]] = device.listed[code];
    const most = SLACK + addresses.reduce((sum, { nbytes }) => sum + nbytes, 0);
    const value = (size) => (typeof size === "number" ? size : params[size.slice(1)]);
    const steps = extents.pop().map(value);
    const walked = extents.map((sizes) => sizes.map(value));
    const isEmpty = walked.some((sizes) => sizes.includes(0));
    const turns = isEmpty ? Math.max(most, TURNS) : most;
    const isFar = walked.some((sizes) => !(Math.min(...sizes, 0) >= 0 && product(sizes) <= turns));
    if (isFar || !(isEmpty || steps.every((step) => Math.abs(step) <= most))) {
      throw new Error(`${name} is to go further than its ${most} bytes: the bundle is damaged; compile the model anew`);
    }
  }
  return device.bind(launches);
}

/** The weights of a bundle on a device, by name, and what plans compute of them once. */
export class Weights {
  constructor(device, codes, graph) {
    this.device = device;
    this.places = new Map();
    const plans = graph.plans;
    const used = plans.flatMap(({ buffers }) => buffers.filter(({ weight, once }) => weight && !once));
    this.kept = new Set(used.map(({ weight }) => weight));
    this.setup = new Map(); // by what it makes, since plans share it
    for (const plan of plans) {
      for (const [code, numbers, params] of plan.setup) {
        const buffers = numbers.map((number) => plan.buffers[number]);
        const [read, written] = [buffers.slice(0, codes[code][1]), buffers.slice(codes[code][1])];
        const key = JSON.stringify([code, params, buffers.map(({ weight }) => weight)]);
        this.setup.set(key, { code, params, buffers, read, written });
      }
    }
    this.waiting = [...this.setup.values()];
    const all = plans.flatMap(({ buffers }) => buffers.map(({ weight }) => weight));
    /** The names of those that are to be loaded. */
    this.wanted = new Set(all.filter((name) => name && !name.startsWith("~")));
  }

  reserve(name, nbytes) {
    const room = Math.ceil(nbytes / 4) * 4;
    this.places.set(name, { chunk: this.device.allocate(room), offset: 0, nbytes: room });
    return this.places.get(name);
  }

  /** Compute what can be computed by now; what nobody wants any more is given back. */
  advance() {
    const isThere = ({ weight }) => this.places.has(weight) && !this.wanted.has(weight);
    while (this.device.isLoaded && this.waiting.length && this.waiting[0].read.every(isThere)) {
      const { code, params, buffers, written } = this.waiting.shift();
      for (const { weight, elements, dtype } of written) {
        if (!this.places.has(weight)) this.reserve(weight, evaluate(elements, {}) * widthOf(dtype));
      }
      const bound = bind(this.device, [{ code, params, addresses: buffers.map(({ weight }) => this.places.get(weight)) }]);
      bound.run();
      bound.release();
      const left = new Set(this.waiting.flatMap(({ read }) => read.map(({ weight }) => weight)));
      for (const { weight } of buffers) {
        if (this.kept.has(weight) || left.has(weight) || !this.places.has(weight)) continue;
        this.device.free(this.places.get(weight).chunk);
        this.places.delete(weight);
      }
    }
  }
}

/** A graph with the plans made for it: a model, or the body of control flow. */
export class Graph {
  constructor(plans, device) {
    this.executors = plans.map((data) => new Executor(new Plan(data), device));
  }

  /** All plans, those of functions too. */
  get plans() {
    return this.executors.flatMap(({ plan, functions }) => [plan, ...functions.flatMap((graph) => graph.plans)]);
  }

  set weights(weights) {
    for (const executor of this.executors) {
      executor.weights = weights;
      for (const graph of executor.functions) graph.weights = weights;
    }
  }

  /** Have no frames, after a run that failed: nobody knows what became of their memory. */
  reset() {
    for (const { frames, functions } of this.executors) {
      frames.splice(0).forEach((frame) => frame.free());
      functions.forEach((graph) => graph.reset());
    }
  }

  /** The results for these feeds, and what gives their memory back. The plan that was used last is tried first. */
  async call(feeds, symbols = {}, lent = 0) {
    for (const executor of [...this.executors]) {
      const frame = executor.frames.pop() ?? new Frame(executor);
      const release = () => executor.frames.push(frame);
      try {
        const results = await executor.run(frame, feeds, symbols, lent);
        if (executor !== this.executors[0]) this.executors = [executor, ...this.executors.filter((each) => each !== executor)];
        return { results, release, frame };
      } catch (error) {
        release();
        if (!(error instanceof Mismatch)) throw error;
      }
    }
    throw MISMATCH;
  }
}

/** What one run needs: memory, and launches bound to it. */
class Frame {
  constructor({ plan, device, weights }) {
    this.plan = plan;
    this.device = device;
    this.addresses = plan.buffers.map(({ weight }) => weights.places.get(weight));
    this.epochs = plan.epochs.map(() => ({ symbols: "", chunk: null, room: -1, bound: null }));
    this.lent = new Map();
  }

  /** Note where caches and the last feeds lie, which are read there; of two at one place the second is copied. */
  lend(feeds, count) {
    const first = feeds.length - count;
    const lent = new Map();
    this.plan.inputs.forEach(({ buffer }, k) => {
      const { address } = feeds[k];
      if (k < first && !this.plan.caches.includes(k)) return;
      if (buffer !== null && address && ![...lent.values()].some((other) => same(other, address))) lent.set(buffer, address);
    });
    const isSame = lent.size === this.lent.size && [...lent].every(([k, address]) => same(this.lent.get(k), address));
    if (!isSame) this.epochs[0].symbols = "";
    this.lent = lent;
  }

  /** Lay out and bind an epoch, unless it was for these sizes. */
  enter(number, symbols) {
    const epoch = this.plan.epochs[number];
    const kept = this.epochs[number];
    const key = JSON.stringify(symbols);
    if (kept.symbols === key) return kept.bound;
    if (broken(epoch.guards, symbols)) throw MISMATCH;
    const rooms = roomsOf(epoch.buffers.map((k) => this.plan.buffers[k]), symbols);
    if (!rooms) throw MISMATCH;
    const [offsets, total] = place(epoch.buffers, this.plan, rooms);
    this.epochs.slice(number).forEach((later) => (later.symbols = "")); // what follows may fail
    kept.bound?.release();
    kept.bound = null;
    if (total > kept.room) this.grow(kept, total);
    epoch.buffers.forEach((k, i) => {
      this.addresses[k] = { chunk: kept.chunk, offset: offsets[i], nbytes: rooms[i] };
    });
    const launches = epoch.launches.map(([code, buffers, params]) => ({
      code,
      addresses: buffers.map((k) => this.address(k)),
      params: params.map((size) => evaluate(size, symbols)),
    }));
    kept.bound = launches.length ? bind(this.device, launches) : null;
    kept.symbols = key;
    return kept.bound;
  }

  /** Have a chunk of so many bytes; what grows once will grow again, and gets a quarter more where there is more. */
  grow(kept, total) {
    const more = kept.chunk ? 4 * Math.ceil((total * 5) / 16) : total;
    if (kept.chunk) this.device.free(kept.chunk);
    kept.chunk = null;
    kept.room = -1;
    try {
      kept.chunk = this.device.allocate(more);
      kept.room = more;
    } catch (error) {
      if (more === total) throw error;
      kept.chunk = this.device.allocate(total);
      kept.room = total;
    }
  }

  /** Give all back; the frame is of no use any more. */
  free() {
    for (const { bound, chunk } of this.epochs) {
      bound?.release();
      if (chunk) this.device.free(chunk);
    }
  }

  address(k) {
    return this.lent.get(k) ?? this.addresses[k];
  }
}

const same = (a, b) => a?.chunk === b.chunk && a.offset === b.offset && a.nbytes === b.nbytes;

let rested = performance.now();

/** Let others have their turn; not by a timer, which browsers slow down in hidden pages. */
async function rest() {
  const { port1, port2 } = new MessageChannel();
  await new Promise((resolve) => ((port1.onmessage = resolve), port2.postMessage(0)));
  port1.close();
  rested = performance.now();
}

/** Runs one plan on a device. A tensor there is `{ address, dtype, dims }`. */
class Executor {
  constructor(plan, device) {
    this.plan = plan;
    this.device = device;
    this.functions = plan.functions.map((plans) => new Graph(plans, device));
    this.frames = [];
  }

  async run(frame, feeds, outer, lent) {
    const { plan } = this;
    const symbols = await this.symbols(feeds, { ...outer });
    const held = [];
    let results = [];
    frame.lend(feeds, lent);
    try {
      for (const [number, { halt }] of plan.epochs.entries()) {
        const bound = frame.enter(number, symbols);
        if (number === 0) {
          const fill = ({ buffer }, k) => {
            if (buffer !== null && !frame.lent.has(buffer)) this.move(feeds[k], frame.addresses[buffer]);
          };
          this.device.watch(() => plan.inputs.forEach(fill));
        }
        results.forEach(({ tensor, buffer }) => this.move(tensor, frame.address(buffer)));
        while (held.length) held.pop()();
        bound?.run();
        if (!halt) break;
        if (halt.do === "read") {
          const values = await this.values(frame, halt.buffer, halt.symbols.length);
          halt.symbols.forEach((symbol, k) => (symbols[symbol] = values[k]));
          results = [];
          continue;
        }
        const tensors = await this[halt.do](frame, halt, symbols, held);
        results = tensors.map((tensor, k) => ({ tensor, buffer: halt.results[k] }));
        this.learn(halt, results, symbols);
      }
    } finally {
      while (held.length) held.pop()();
    }
    return plan.outputs.map(({ buffer }) => this.tensor(frame, buffer, symbols));
  }

  async symbols(feeds, symbols) {
    for (const [name, places] of this.plan.symbols) {
      const sizes = places.map(([k, axis]) => feeds[k].dims[axis]).filter((size) => size >= 0);
      if (!sizes.length || sizes.some((size) => size !== sizes[0])) throw MISMATCH;
      [symbols[name]] = sizes;
    }
    for (const [k, port] of this.plan.inputs.entries()) {
      if (port.symbols.length) {
        const values = await this.fetch(feeds[k]);
        if (values.length !== port.symbols.length) throw MISMATCH;
        port.symbols.forEach((symbol, i) => (symbols[symbol] = Number(values[i])));
      }
    }
    for (const [k, { shape }] of this.plan.inputs.entries()) {
      const { dims } = feeds[k];
      if (shape.length !== dims.length || shape.some((size, axis) => evaluate(size, symbols) !== dims[axis])) throw MISMATCH;
    }
    return symbols;
  }

  /** The elements of a tensor, wherever it is. */
  async fetch({ address, dtype, dims, data }) {
    if (data) return data;
    const bytes = await this.device.read(address, product(dims) * widthOf(dtype));
    return new (arrayOf(dtype))(bytes.buffer);
  }

  move({ address, data, dtype, dims }, target) {
    fit(data ? data.byteLength : product(dims) * widthOf(dtype), target);
    if (data) this.device.write(target, bytesOf(data));
    else this.device.copy(address, target, Math.ceil((product(dims) * widthOf(dtype)) / 4) * 4);
  }

  tensor(frame, buffer, symbols) {
    const { dtype, shape } = this.plan.buffers[buffer];
    const [address, dims] = [frame.address(buffer), shape.map((size) => evaluate(size, symbols))];
    fit(product(dims) * widthOf(dtype), address);
    return { address, dtype, dims };
  }

  /** The first elements of an integer buffer. */
  async values(frame, buffer, count) {
    const { dtype } = this.plan.buffers[buffer];
    fit(count * widthOf(dtype), frame.address(buffer));
    const found = await this.fetch({ address: frame.address(buffer), dtype, dims: [count] });
    return Array.from(found, Number);
  }

  /** Take symbols from the shapes of results. */
  learn(step, results, symbols) {
    const { buffers } = this.plan;
    const alike = results.every(({ tensor, buffer }) => tensor.dims.length === buffers[buffer].shape.length);
    if (alike) step.symbols.forEach(([name, k, axis]) => (symbols[name] = results[k].tensor.dims[axis]));
    for (const { tensor, buffer } of results) {
      const fits = alike && buffers[buffer].shape.every((size, axis) => evaluate(size, symbols) === tensor.dims[axis]);
      if (!fits && !tensor.dims.includes(0)) {
        throw new Error(`the data led control flow to a result of shape [${tensor.dims}], which the bundle is not for`);
      }
    }
  }

  host() {
    return [{ data: crypto.getRandomValues(new Uint32Array(2)), dims: [2] }];
  }

  async branch(frame, step, symbols, held) {
    const [condition] = await this.values(frame, step.condition, 1);
    const chosen = condition ? 0 : 1;
    const operands = step.operands[chosen].map((k) => this.tensor(frame, k, symbols));
    const { results, release } = await this.functions[step.functions[chosen]].call(operands, symbols, operands.length);
    held.push(release);
    return results;
  }

  async loop(frame, step, symbols, held) {
    const most = step.trips >= 0 ? (await this.values(frame, step.trips, 1))[0] : Infinity;
    let going = step.condition < 0 || Boolean((await this.values(frame, step.condition, 1))[0]);
    const captured = step.captured.map((k) => this.tensor(frame, k, symbols));
    let carried = step.carried.map((k) => this.tensor(frame, k, symbols));
    const stacks = step.results.slice(carried.length).map(() => new Stack(this.device));
    const free = () => stacks.forEach((stack) => stack.free());
    let turns = null;
    try {
      for (let count = 0; going && count < most; ) {
        if (performance.now() - rested > TASK) await rest();
        if (turns) {
          [count, going] = turns.take(count, most);
          continue;
        }
        const turn = { data: BigInt64Array.of(BigInt(count)), dims: [] };
        const feeds = [turn, { data: Uint8Array.of(going), dims: [] }, ...carried, ...captured];
        const { results, release, frame: body } = await this.functions[step.function].call(feeds, symbols, captured.length);
        while (held.length) held.pop()();
        held.push(release);
        if (step.condition >= 0) going = Boolean((await this.fetch(results[0]))[0]);
        const made = results.slice(1, 1 + carried.length);
        for (const [k, stack] of stacks.entries()) await stack.push(results[1 + carried.length + k], (x) => this.fetch(x));
        turns = ++count < most && going ? Turns.of(body, results, carried, stacks, step.condition >= 0) : null;
        if (turns) held.push(() => turns.free());
        carried = turns?.carried ?? made;
      }
    } catch (error) {
      free();
      throw error;
    }
    held.push(free);
    return [...carried, ...stacks.map((stack, k) => stack.result ?? this.nothing(step.results[carried.length + k], symbols))];
  }

  /** A scan output of no turn; sizes that only a turn tells are 0. */
  nothing(buffer, symbols) {
    const { dtype, shape } = this.plan.buffers[buffer];
    const sizes = shape.slice(1).map((size) => (isKnown(size, symbols) ? evaluate(size, symbols) : 0));
    return { data: new (arrayOf(dtype))(0), dtype, dims: [0, ...sizes] };
  }
}

/** Equal slices of a scan output, one behind the other. */
class Stack {
  constructor(device) {
    this.device = device;
    this.count = 0;
    this.room = 0;
    this.rows = [];
  }

  async push(slice, fetch) {
    const nbytes = product(slice.dims) * widthOf(slice.dtype);
    this.first ??= slice;
    if (String(slice.dims) !== String(this.first.dims)) {
      throw new Error("the slices of a scan output differ in shape from iteration to iteration");
    }
    if (nbytes % 4) this.rows.push(await fetch(slice)); // devices copy words
    else this.device.copy(slice.address, this.reserve(1), nbytes);
    this.count++;
  }

  /** Have room for so many slices more; the address of the next one. */
  reserve(count) {
    const nbytes = product(this.first.dims) * widthOf(this.first.dtype);
    const used = this.count * nbytes;
    if (used + count * nbytes > this.room) this.grow(used, used + count * nbytes);
    return { chunk: this.chunk, offset: used };
  }

  grow(used, wanted) {
    const room = Math.max(4096, 2 * wanted);
    const chunk = this.device.allocate(room);
    this.room = room;
    if (used) this.device.copy({ chunk: this.chunk, offset: 0 }, { chunk, offset: 0 }, used);
    this.free();
    this.chunk = chunk;
  }

  get result() {
    if (!this.first) return null;
    const { dtype } = this.first;
    const dims = [this.count, ...this.first.dims];
    if (!this.rows.length) return { address: { chunk: this.chunk, offset: 0, nbytes: this.room }, dtype, dims };
    const data = new (arrayOf(dtype))(product(dims));
    this.rows.forEach((row, k) => data.set(row, k * row.length));
    return { data, dtype, dims };
  }

  free() {
    if (this.chunk) this.device.free(this.chunk);
    this.chunk = null;
  }
}
