/** What trains a model on this thread: its parameters, sums of gradients and moments, on one device. */

import { Bundle } from "./bundle.js";
import { Graph, Weights } from "./executor.js";
import { Session } from "./session.js";
import { padded } from "./client.js";
import { Tensor, arrayOf, product, widthOf } from "./types.js";
import { check, sound } from "./soundness.js";
import { withParameters } from "./trained.js";

const ALIGNMENT = 256; // bytes at whose multiples a GPU reads a part of a buffer
export const MODEL = "model"; // the part that is the model itself

/** The parts of a training bundle, which run one after another and share what they change. */
export class Trainer {
  /** The trainer of a bundle that was opened, and of the Blob that it is, for a target on its device. */
  static async load(file, bundle, target, device) {
    try {
      const trainer = new Trainer(file, bundle, target, device);
      await trainer.fill();
      return trainer;
    } catch (error) {
      bundle.stream.close();
      device.close();
      throw error;
    }
  }

  constructor(file, bundle, target, device) {
    const { manifest, name } = bundle;
    const { training, targets } = manifest;
    Object.assign(this, { file, bundle, target, device, training });
    this.last = Promise.resolve();
    const told = targets[target];
    device.listed = told.codes;
    const plans = { [MODEL]: told.plans, ...told.training };
    const parts = { [MODEL]: { model: manifest.model, updates: {} }, ...training.parts };
    const kinds = { ...manifest.weights, ...training.state };
    this.parts = sound(name, () => {
      this.wholes = Object.entries(training.wholes).map(([whole, titles]) => new Whole(whole, titles.map((title) => [title, sizeOf(kinds[title])])));
      const weights = { ...kinds, ...Object.fromEntries(this.wholes.map(({ title, nbytes }) => [title, ["uint8", [nbytes]]])) };
      return Object.fromEntries(
        Object.entries(parts).map(([part, { model, updates }]) => {
          const graph = new Graph(plans[part], device);
          check({ ...manifest, weights, model }, { codes: told.codes, plans: plans[part] }, graph);
          const own = new Bundle(null, { model, strings: manifest.strings, targets: { [target]: { plans: plans[part] } } }, name);
          return [part, new Part(this, own, graph, updates)];
        }),
      );
    });
  }

  /** Lay out parameters and what begins as zeros, and read the bundle. */
  async fill() {
    const { bundle, device, training } = this;
    const graphs = Object.values(this.parts).map(({ graph }) => graph);
    const weights = new Weights(device, bundle.manifest.targets[this.target].codes, { plans: graphs.flatMap(({ plans }) => plans) });
    graphs.forEach((graph) => (graph.weights = weights));
    Object.values(training.parameters).forEach((title) => weights.wanted.add(title));
    this.places = weights.places;
    const zeros = (title, nbytes) => device.write(weights.reserve(title, nbytes), new Uint8Array(nbytes));
    for (const whole of this.wholes) {
      zeros(whole.title, whole.nbytes);
      whole.placed(weights.places);
    }
    for (const [title, kind] of Object.entries(training.state)) if (!weights.places.has(title)) zeros(title, sizeOf(kind));
    for await (const { title, nbytes, into } of bundle) {
      if (title === device.section) {
        const code = new Uint8Array(nbytes);
        await into((piece, at) => code.set(piece, at));
        await device.load(code);
      } else if (weights.wanted.has(title)) {
        const address = weights.places.get(title) ?? weights.reserve(title, nbytes);
        await into((piece, at) => device.write(address, piece, at));
        weights.wanted.delete(title);
      }
      weights.advance();
    }
    await device.settle();
    if (weights.wanted.size) throw new Error(`${bundle.name} lacks its weights ${[...weights.wanted]}; compile the model anew`);
  }

  /** What a function gives once all that was asked for before is over. */
  next(find) {
    const result = this.last.then(() => {
      if (!this.device) throw new Error("this session was released");
      return find();
    });
    this.last = result.catch(() => {});
    return result;
  }

  /** Outputs of a part, all of them without `names`. */
  run(name, feeds, names) {
    return this.next(async () => {
      const part = this.parts[name];
      return part.made(await this.begun(part, feeds), names ?? namesOf(part.outputs));
    });
  }

  /** What a part begins with: features, where those are its inputs, in place of inputs of the model. */
  async begun({ inputs }, feeds) {
    const { features } = this.training;
    const names = namesOf(inputs);
    if (features.every((name) => name in feeds) || !features.every((name) => names.includes(name))) return feeds;
    const own = new Set(namesOf(this.parts[MODEL].inputs));
    const [given, others] = [true, false].map((isOwn) => Object.fromEntries(Object.entries(feeds).filter(([name]) => own.has(name) === isOwn)));
    const { encoder } = this.parts;
    return { ...(await encoder.made(given, namesOf(encoder.outputs))), ...others };
  }

  /** The tensors of parameters, by name. */
  parameters(names) {
    return this.next(async () => {
      const kinds = names.map((name) => this.bundle.manifest.weights[this.training.parameters[name]]);
      const ranges = names.map((name, k) => [this.places.get(this.training.parameters[name]), sizeOf(kinds[k])]);
      const found = await this.device.readAll(ranges);
      return Object.fromEntries(
        names.map((name, k) => [name, new Tensor(kinds[k][0], new (arrayOf(kinds[k][0]))(found[k].buffer), kinds[k][1])]),
      );
    });
  }

  /** Take parameters from their bytes, one behind the other. */
  write(names, bytes) {
    return this.next(() => {
      let start = 0;
      for (const name of names) {
        const title = this.training.parameters[name];
        const nbytes = sizeOf(this.bundle.manifest.weights[title]);
        this.device.write(this.places.get(title), bytes.slice(start, start + nbytes));
        start += nbytes;
      }
    });
  }

  /** The trained model, a file's bytes. */
  async export(format, metadata) {
    const tensors = await this.parameters(Object.keys(this.training.parameters));
    return withParameters(format, new Uint8Array(await this.file.arrayBuffer()), this.bundle, tensors, metadata);
  }

  /** Give all back, after what was asked for. */
  release() {
    this.last = this.last.then(() => {
      this.device?.close();
      this.device = null;
    });
    return this.last;
  }
}

/** A constant that is others, one behind the other, so that an optimizer takes them for one; between them are zeros. */
class Whole {
  constructor(title, sizes) {
    this.title = title;
    this.nbytes = 0;
    this.parts = sizes.map(([part, nbytes]) => {
      const offset = this.nbytes;
      this.nbytes += padded(nbytes, ALIGNMENT);
      return { part, offset, nbytes: padded(nbytes) };
    });
  }

  /** Place the parts where the whole is. */
  placed(places) {
    const { chunk, offset: start } = places.get(this.title);
    for (const { part, offset, nbytes } of this.parts) places.set(part, { chunk, offset: start + offset, nbytes });
  }
}

/** A model of a trainer: some of its outputs become parameters, sums or moments, on the device. */
class Part extends Session {
  constructor(owner, bundle, graph, updates) {
    super(bundle, owner.target, graph, owner.device);
    this.owner = owner;
    this.updates = Object.entries(updates).map(([name, title]) => [this.outputs.findIndex((output) => output.name === name), title]);
  }

  made(feeds, names) {
    return this.ran(this.graph, this.device, feeds, names, {});
  }

  found(device, results, ...rest) {
    const keep = ([k, title]) => {
      const { address, dtype, dims } = results[k];
      device.copy(address, this.owner.places.get(title), product(dims) * widthOf(dtype));
    };
    device.watch(() => this.updates.forEach(keep));
    return super.found(device, results, ...rest);
  }
}

const namesOf = (ports) => ports.map(({ name }) => name);
const sizeOf = ([dtype, shape]) => product(shape) * widthOf(dtype);
