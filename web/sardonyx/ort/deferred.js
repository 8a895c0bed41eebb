/**
 * Models that the page compiles. Where the sizes of inputs are open, a bundle may not be for those of a run, or cannot be
 * made before there is one: then it is made when the run begins, once for each number of axes, or for just these sizes.
 */

import { loaded } from "../compile.js";
import { REMEDY } from "../session.js";
import { all, port, text } from "./protobuf.js";

const [INITIALIZER, INPUT, OUTPUT] = [5, 11, 12]; // of a graph
const FEW = 64; // elements of a vector that may tell sizes
const MOST = 16; // sessions at a time
const TYPICAL = "say typical ones"; // where sizes that were made up made no sense

/** A session for the bytes of a model. `options` are the compiler's; its `load` makes sessions of bundles. */
export async function sourceOf(model, { load, ...options }) {
  const [graph = []] = all(model, 7);
  const held = all(graph, INITIALIZER).map((tensor) => text(all(tensor, 8)[0] ?? []));
  const inputs = all(graph, INPUT).map(port).filter(({ name }) => !held.includes(name));
  const isOpen = inputs.some(({ dims }) => !dims?.every(Number)) && inputs.every(({ type }) => type);
  if (!isOpen) return loaded(model, options, load);
  const given = [model.slice(), load, options, inputs, all(graph, OUTPUT).map(port)];
  if (inputs.some(({ dims }) => !dims)) return new Deferred(null, ...given);
  try {
    return new Deferred(await loaded(model, options, load), ...given);
  } catch (error) {
    if (error.message.includes(TYPICAL)) return new Deferred(null, ...given);
    throw error;
  }
}

/** What `load` gives, as far as a handler of onnxruntime's interface needs it; `first` is the session for all sizes. */
class Deferred {
  sessions = new Map(); // by numbers of axes, or by all that shapes may depend on
  last = Promise.resolve();

  constructor(first, model, load, options, inputs, outputs) {
    Object.assign(this, { first, model, load, options, inputs: first?.inputs ?? inputs, outputs: first?.outputs ?? outputs });
    this.target = first?.target ?? options.target[0];
    this.device = first?.device;
    this.graph = first ? first.graph : true; // runs begin later, so what they are fed is copied
  }

  run(feeds, ...wanted) {
    const result = this.last.then(() => this.ran(feeds, wanted));
    this.last = result.catch(() => {});
    return result;
  }

  async ran(feeds, wanted) {
    if (!this.sessions) throw new Error("this session was released");
    const fed = this.inputs.map(({ name }) => [name, feeds[name]]);
    const own = JSON.stringify(fed.map(([, tensor]) => [tensor.dims, isFew(tensor) ? [...tensor.data].map(String) : []]));
    if (!this.sessions.has(own)) {
      const axes = fed.map(([, { dims }]) => dims.length).join();
      const session = this.first ?? (await this.known(axes, () => this.made(fed, true).catch(() => null)));
      try {
        if (session) return await session.run(feeds, ...wanted);
      } catch (error) {
        if (!error.message.endsWith(REMEDY)) throw error;
      }
    }
    return (await this.known(own, () => this.made(fed, false))).run(feeds, ...wanted);
  }

  /** The session of this name, made if need be; the oldest makes room for it. */
  async known(name, make) {
    if (!this.sessions.has(name)) this.sessions.set(name, await make());
    if (this.sessions.size > MOST) {
      const [oldest, session] = this.sessions.entries().next().value;
      this.sessions.delete(oldest);
      session?.release();
    }
    return this.sessions.get(name);
  }

  /** A session for what a run is fed: for all sizes of so many axes, or for these. */
  async made(fed, isOpen) {
    const told = (tensor) => {
      const { type, dims, data } = tensor;
      if (isFew(tensor) && !(isOpen && type === "float32")) return { type, dims, data };
      return isOpen ? dims.map((size) => `?${size}`) : [...dims];
    };
    const shapes = Object.fromEntries(fed.map(([name, tensor]) => [name, told(tensor)]));
    return loaded(this.model, { ...this.options, shapes }, this.load);
  }

  release() {
    this.last = this.last.then(() => {
      [this.first, ...(this.sessions?.values() ?? [])].forEach((session) => session?.release());
      this.first = this.sessions = null;
    });
  }
}

/** Whether shapes may depend on a tensor's elements. */
const isFew = ({ type, dims, data }) =>
  data && dims.length < 2 && data.length <= FEW && /^(u?int(8|16|32|64)|float32)$/.test(type);
