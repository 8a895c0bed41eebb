/** A model that is loaded on this thread. */

import { Caches, Conversation } from "./caches.js";
import { Graph, Mismatch, Weights } from "./executor.js";
import { Tensor, arrayOf, product, widthOf } from "./types.js";
import { check, sound } from "./soundness.js";

/** How errors end that say that a bundle is not for what it was fed. */
export const REMEDY = "compile it for other sizes (--size, or sizes)";

/** The session of a bundle for a target on its device, once all that it needs is there. */
export async function on(device, bundle, target) {
  try {
    return await prepared(device, bundle, target);
  } catch (error) {
    device.close();
    throw error;
  }
}

async function prepared(device, bundle, target) {
  const told = bundle.manifest.targets[target];
  device.listed = told.codes;
  const [graph, weights] = sound(bundle.name, () => {
    const graph = new Graph(told.plans, device);
    check(bundle.manifest, told, graph);
    return [graph, new Weights(device, told.codes, graph)];
  });
  graph.weights = weights;
  for await (const section of bundle) {
    if (section.title === device.section) {
      const code = new Uint8Array(section.nbytes);
      await section.into((piece, at) => code.set(piece, at));
      await device.load(code);
    } else if (weights.wanted.has(section.title)) {
      const address = weights.reserve(section.title, section.nbytes);
      await section.into((piece, at) => device.write(address, piece, at));
      weights.wanted.delete(section.title);
    }
    weights.advance();
    if (!weights.wanted.size && device.isLoaded) break;
  }
  await device.settle();
  if (weights.wanted.size) throw new Error(`${bundle.name} lacks its weights ${[...weights.wanted]}; compile the model anew`);
  return new Session(bundle, target, graph, device);
}

export class Session {
  constructor(bundle, target, graph, device) {
    Object.assign(this, { target, bundle, graph, device });
    [this.inputs, this.outputs] = bundle.ports;
    this.last = Promise.resolve();
  }

  get threads() {
    return this.device?.crew?.size ?? 1;
  }

  get memory() {
    return this.device?.nbytes ?? 0;
  }

  get gpu() {
    return this.device?.gpu?.device;
  }

  /**
   * On a GPU, inputs may be `{ type, dims, buffer }`,
   * as are outputs for which `places` has such a tensor, or `true`: then the caller destroys the buffer.
   */
  run(feeds = {}, names = this.outputs.map(({ name }) => name), places = {}) {
    const { graph, device } = this;
    return this.next(() => this.ran(graph, device, feeds, names, places));
  }

  /** What a function gives once the runs before it are over. */
  next(find) {
    const result = this.last.then(find);
    this.last = result.catch(() => {});
    return result;
  }

  async caches(batch = 1) {
    const caches = new Caches(this, batch);
    const runs = (feeds, names, length, count) => {
      const { graph, device } = this;
      return this.next(async () => {
        const found = await this.ran(graph, device, feeds, names, {}, graph && caches.fed(length, count));
        caches.length = length + count;
        return found;
      });
    };
    return new Conversation(runs, () => this.next(() => this.device && caches.release()));
  }

  async ran(graph, device, feeds, names, places, held = new Map()) {
    if (!graph) throw new Error("this session was released");
    const unknown = names.find((name) => !this.outputs.some((output) => output.name === name));
    if (unknown) throw new Error(`the model has no output ${JSON.stringify(unknown)}; it has ${list(this.outputs)}`);
    const extra = Object.keys(feeds).find((name) => !this.inputs.some((input) => input.name === name));
    if (extra) throw new Error(`the model has no input ${JSON.stringify(extra)}; it has ${list(this.inputs)}`);
    for (const each of [feeds, places].flatMap(Object.values)) await each?.admit?.();
    const texts = new Texts(this.bundle.manifest.strings);
    const tensors = this.inputs.map((input) => held.get(input.name) ?? fed(input, feeds[input.name], texts));
    try {
      const { results, release } = await graph.call(tensors);
      try {
        return await this.found(device, results, names, texts, places);
      } finally {
        release();
      }
    } catch (error) {
      if (error instanceof Mismatch) throw new Error(this.refusal(tensors));
      graph.reset();
      await device.settle(); // which says better what happened
      if (error instanceof WebAssembly.RuntimeError) error.message = `${this.bundle.name} fails (${error.message}): compile it anew`;
      throw error;
    }
  }

  async found(device, results, names, texts, places) {
    const of = (name) => results[this.outputs.findIndex((output) => output.name === name)];
    const sized = (name) => [of(name).address, product(of(name).dims) * widthOf(of(name).dtype)];
    const made = [];
    const left = (name) => {
      const { dtype: type, dims } = of(name);
      const { buffer = made[made.push(device.given(sized(name)[1])) - 1], fit } = places[name];
      fit?.(type, dims);
      device.copy(of(name).address, { chunk: { buffer }, offset: 0 }, sized(name)[1]);
      return [name, { type, dims, buffer }];
    };
    try {
      const stayed = device.watch(() => names.filter((name) => places[name]).map(left));
      const wanted = names.filter((name) => !places[name]);
      const read = (await device.readAll(wanted.map(sized))).map((bytes, k) => {
        const { dtype, dims } = of(wanted[k]);
        const data = new (arrayOf(dtype))(bytes.buffer);
        return [wanted[k], new Tensor(dtype, dtype === "string" ? texts.decode(data) : data, dims)];
      });
      return Object.fromEntries([...stayed, ...read]);
    } catch (error) {
      made.forEach((buffer) => device.gpu.free(buffer));
      throw error;
    }
  }

  refusal(tensors) {
    const { plans } = this.bundle.manifest.targets[this.target];
    const shapes = tensors.map(({ dims }, k) => `${this.inputs[k].name} [${dims}]`).join(", ");
    const accepted = [...new Set(plans.map(({ accepts }) => accepts))].join(", or ");
    return `${this.bundle.name} is not for ${shapes}; it takes ${accepted}; ${REMEDY}`;
  }

  release() {
    const { device } = this;
    this.device = this.graph = null;
    return this.last.then(() => device?.close());
  }
}

const list = (ports) => ports.map(({ name }) => JSON.stringify(name)).join(", ");

function fed({ name, type, dims }, given, texts) {
  if (!given) throw new Error(`input ${JSON.stringify(name)} (${type}[${dims ?? "?"}]) is missing from the feeds`);
  if (given.type !== type) throw new Error(`input ${JSON.stringify(name)} wants ${type}, not ${given.type}`);
  const tensor = given.buffer ? given : new Tensor(type, given.data ?? [], given.dims); // whoever has made it
  if (dims && dims.length !== tensor.dims.length) {
    throw new Error(`input ${JSON.stringify(name)} wants rank ${dims.length} ([${dims}]), not [${tensor.dims}]`);
  }
  dims?.forEach((size, axis) => {
    if (typeof size === "number" && size !== tensor.dims[axis]) {
      throw new Error(`input ${JSON.stringify(name)} wants [${dims}], but axis ${axis} is ${tensor.dims[axis]}, not ${size}`);
    }
  });
  if (tensor.buffer) return { address: { chunk: tensor, offset: 0, nbytes: tensor.buffer.size }, dtype: type, dims: tensor.dims };
  return { data: type === "string" ? texts.encode(tensor.data) : tensor.data, dtype: type, dims: tensor.dims };
}

/** Strings by number: those of the model from 0 on, others of a run from -1 down. */
class Texts {
  constructor(known) {
    this.known = known;
    this.numbers = new Map(known.map((text, k) => [text, k]));
    this.own = [];
  }

  encode(texts) {
    return Int32Array.from(texts, (text) => {
      if (!this.numbers.has(text)) this.numbers.set(text, -this.own.push(text));
      return this.numbers.get(text);
    });
  }

  decode(ids) {
    return Array.from(ids, (id) => (id >= 0 ? this.known[id] : this.own[~id]));
  }
}
