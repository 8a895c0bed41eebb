/**
 * Trains models in a page, without Python: what `sardonyx compile --train` made.
 *
 *     import { Tensor, TrainingSession } from "./sardonyx/training.js";
 *     const session = await TrainingSession.create("model.sdx");
 *     for (const feeds of batches) {
 *       const { loss } = await session.trainStep(feeds); // inputs of the model, and labels or target
 *       await session.optimizerStep();
 *       await session.lazyResetGrad();
 *     }
 *     const { probabilities } = await session.run({ image });
 *     const file = await session.export("onnx");
 */

import { Bundle, Stream } from "./bundle.js";
import { Graph, Weights } from "./executor.js";
import { Session } from "./session.js";
import { check, sound } from "./soundness.js";
import { threadsFor } from "./crew.js";
import { Tensor, arrayOf, bytesOf, product, widthOf } from "./types.js";
import { WasmDevice } from "./wasm.js";
import { WebGpuDevice } from "./webgpu.js";
import { withParameters } from "./trained.js";

export { Tensor };

const RATE = 0.001;
const MODEL = "model"; // the part that is the model itself
const FORMATS = ["onnx", "sdx", "safetensors"];

/** A model with its gradients and its optimizer, whose parameters and moments stay on one device. */
export class TrainingSession {
  /** A session for what `load` takes, and `load`'s options. It runs on the thread that calls. */
  static async create(source, { target, threads, device: gpu, ...options } = {}) {
    const bytes = await whole(source, options);
    const bundle = await Bundle.open(bytes, { name: options.name ?? (typeof source === "string" ? source : undefined) });
    const { manifest, name } = bundle;
    if (!manifest.training) throw new Error(`${name} has no plans for training: make it with \`sardonyx compile model.onnx --train all\``);
    const reasons = [];
    for (const each of target ? [target].flat() : Object.keys(manifest.targets)) {
      const told = manifest.targets[each];
      if (!told) reasons.push(`${name} has no code for ${each}, only for ${Object.keys(manifest.targets).join(" and ")}`);
      const device = told && (await opened(each, told, threads, gpu).catch((error) => void reasons.push(error.message)));
      if (device) return new TrainingSession(bytes, bundle, each, device).load();
    }
    throw new Error(reasons.join("; "));
  }

  constructor(bytes, bundle, target, device) {
    const { manifest, name } = bundle;
    const { training, targets } = manifest;
    Object.assign(this, { bytes, bundle, target, device, training });
    /** What the next steps of the optimizer take. */
    this.learningRate = RATE;
    /** How many steps the optimizer has made. */
    this.steps = 0;
    this.isAnew = true;
    this.last = Promise.resolve();
    const told = targets[target];
    device.listed = told.codes;
    const plans = { [MODEL]: told.plans, ...told.training };
    const parts = { [MODEL]: { model: manifest.model, updates: {} }, ...training.parts };
    const weights = { ...manifest.weights, ...training.state };
    this.sessions = sound(name, () =>
      Object.fromEntries(
        Object.entries(parts).map(([part, { model, updates }]) => {
          const graph = new Graph(plans[part], device);
          check({ ...manifest, weights, model }, { codes: told.codes, plans: plans[part] }, graph);
          const own = { name, manifest: { targets: { [target]: { plans: plans[part] } } } };
          return [part, new Step(this, own, graph, model, manifest.strings, updates)];
        }),
      ),
    );
  }

  /** Lay out parameters and what begins as zeros, and read the bundle. */
  async load() {
    const { bundle, device, training } = this;
    try {
      const graphs = Object.values(this.sessions).map(({ graph }) => graph);
      const weights = new Weights(device, bundle.manifest.targets[this.target].codes, { plans: graphs.flatMap(({ plans }) => plans) });
      graphs.forEach((graph) => (graph.weights = weights));
      Object.values(training.parameters).forEach((title) => weights.wanted.add(title));
      this.places = weights.places;
      for (const [title, [dtype, shape]] of Object.entries(training.state)) {
        const zeros = new Uint8Array(product(shape) * widthOf(dtype));
        device.write(weights.reserve(title, zeros.length), zeros);
      }
      for await (const { title, nbytes, into } of bundle) {
        if (title === device.section) {
          const code = new Uint8Array(nbytes);
          await into((piece, at) => code.set(piece, at));
          await device.load(code);
        } else if (weights.wanted.has(title)) {
          const address = weights.reserve(title, nbytes);
          await into((piece, at) => device.write(address, piece, at));
          weights.wanted.delete(title);
        }
        weights.advance();
      }
      await device.settle();
      if (weights.wanted.size) throw new Error(`${bundle.name} lacks its weights ${[...weights.wanted]}; compile the model anew`);
      return this;
    } catch (error) {
      device.close();
      throw error;
    }
  }

  /** What a function gives once all that was asked for before is over. */
  next(find) {
    const result = this.last.then(find);
    this.last = result.catch(() => {});
    return result;
  }

  get trainingInputNames() {
    return this.evalInputNames;
  }

  get trainingOutputNames() {
    return this.evalOutputNames;
  }

  get evalInputNames() {
    const { features } = this.training;
    const others = namesOf(this.sessions.evaluation.inputs).filter((name) => !features.includes(name));
    return [...new Set([...namesOf(this.inputs), ...others])];
  }

  get evalOutputNames() {
    return namesOf(this.sessions.evaluation.outputs);
  }

  /** What the model takes and gives, as of a session that `load` gives. */
  get inputs() {
    return this.sessions[MODEL].inputs;
  }

  get outputs() {
    return this.sessions[MODEL].outputs;
  }

  /** The outputs of the model with its parameters as they are now. */
  run(feeds, names) {
    return this.sessions[MODEL].run(feeds, names);
  }

  /**
   * What training begins with, for inputs of the model: where its head alone is trained, what the rest of it makes of them.
   * Who trains with the same inputs again spares time by feeding this instead.
   */
  features(feeds) {
    return this.sessions.encoder ? this.sessions.encoder.run(feeds) : Promise.resolve(feeds);
  }

  /** The loss and the outputs; the gradients are added to those since `lazyResetGrad`. */
  async trainStep(feeds, names) {
    const isAnew = this.isAnew;
    this.isAnew = false;
    const flag = new Tensor("bool", Uint8Array.of(Number(isAnew)), []);
    const fed = { ...(await this.fed(feeds)), [this.sessions.training.inputs.at(-1).name]: flag };
    return this.sessions.training.run(fed, fetched(names) ?? this.trainingOutputNames);
  }

  /** The loss and the outputs, without gradients. */
  async evalStep(feeds, names) {
    return this.sessions.evaluation.run(await this.fed(feeds), fetched(names));
  }

  /** Have the optimizer make a step by the gradients. */
  async optimizerStep() {
    const step = BigInt64Array.of(BigInt(++this.steps));
    const rate = Float32Array.of(this.learningRate);
    const feeds = { learning_rate: new Tensor("float32", rate, [1]), step: new Tensor("int64", step, [1]) };
    await this.sessions.optimizer.run(feeds, []);
  }

  /** Have the next gradients take the place of those so far. */
  async lazyResetGrad() {
    this.isAnew = true;
  }

  runTrainStep(feeds, fetches) {
    return this.trainStep(feeds, fetches);
  }

  runEvalStep(feeds, fetches) {
    return this.evalStep(feeds, fetches);
  }

  runOptimizerStep() {
    return this.optimizerStep();
  }

  /** The parameters by name, as tensors. */
  parameters(trainableOnly = true) {
    const names = this.names(trainableOnly);
    const kinds = names.map((name) => this.bundle.manifest.weights[this.training.parameters[name]]);
    return this.next(async () => {
      const ranges = names.map((name, k) => [this.places.get(this.training.parameters[name]), sizeOf(kinds[k])]);
      const found = await this.alive.readAll(ranges);
      return Object.fromEntries(
        names.map((name, k) => [name, new Tensor(kinds[k][0], new (arrayOf(kinds[k][0]))(found[k].buffer), kinds[k][1])]),
      );
    });
  }

  /** How many elements the parameters have. */
  async getParametersSize(trainableOnly = true) {
    return this.names(trainableOnly).reduce((sum, name) => sum + product(this.bundle.manifest.weights[this.training.parameters[name]][1]), 0);
  }

  /** All parameters one behind the other, a tensor of float32. */
  async getContiguousParameters(trainableOnly = true) {
    const arrays = Object.values(await this.parameters(trainableOnly)).map(({ data }) => data);
    const whole = new Float32Array(arrays.reduce((sum, { length }) => sum + length, 0));
    let start = 0;
    for (const array of arrays) {
      whole.set(array, start);
      start += array.length;
    }
    return new Tensor("float32", whole, [whole.length]);
  }

  /** Take all parameters from bytes of float32, in the order of `getContiguousParameters`. */
  async loadParametersBuffer(buffer, trainableOnly = true) {
    const bytes = ArrayBuffer.isView(buffer) ? bytesOf(buffer) : new Uint8Array(buffer);
    const size = 4 * (await this.getParametersSize(trainableOnly));
    if (bytes.length !== size) throw new RangeError(`the parameters have ${size} bytes, not ${bytes.length}`);
    return this.next(() => {
      let start = 0;
      for (const name of this.names(trainableOnly)) {
        const title = this.training.parameters[name];
        const nbytes = sizeOf(this.bundle.manifest.weights[title]);
        this.alive.write(this.places.get(title), bytes.slice(start, start + nbytes));
        start += nbytes;
      }
    });
  }

  /**
   * The trained model as bytes: an `onnx` file, a bundle, `sdx`, that `load` runs, or its parameters, `safetensors`; with
   * texts by name that are told of it.
   */
  async export(format = "onnx", metadata = {}) {
    if (!FORMATS.includes(format)) throw new Error(`there is no format ${JSON.stringify(format)}; use ${FORMATS.join(", ")}`);
    return withParameters(format, this.bytes, this.bundle, await this.parameters(false), metadata);
  }

  /** Give all back, after what was asked for. */
  release() {
    return this.next(() => {
      this.device?.close();
      this.device = null;
    });
  }

  get alive() {
    if (!this.device) throw new Error("this session was released");
    return this.device;
  }

  names(trainableOnly) {
    return trainableOnly ? this.training.trainable : Object.keys(this.training.parameters);
  }

  /** Feeds that training begins with. */
  async fed(feeds) {
    const { features } = this.training;
    if (!features.length || features.some((name) => name in feeds)) return feeds;
    const own = new Set(namesOf(this.inputs));
    const [given, others] = [true, false].map((isOwn) => Object.fromEntries(Object.entries(feeds).filter(([name]) => own.has(name) === isOwn)));
    return { ...(await this.features(given)), ...others };
  }
}

/** A model of a training session: some of its outputs become parameters, sums or moments, on the device. */
class Step extends Session {
  constructor(owner, bundle, graph, model, strings, updates) {
    super(bundle, owner.target, graph, owner.device, model, strings);
    this.owner = owner;
    this.updates = Object.entries(updates).map(([name, title]) => [this.outputs.findIndex((output) => output.name === name), title]);
  }

  run(feeds, names = namesOf(this.outputs)) {
    return this.owner.next(() => this.ran(this.owner.alive && this.graph, this.device, feeds, names, {}));
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

/** The names of outputs that are wanted: a list, or an object by name. */
const fetched = (names) => (names && !Array.isArray(names) ? Object.keys(names) : names);

async function opened(target, told, threads, gpu) {
  return target === "wasm" ? new WasmDevice(told, { threads: threadsFor(threads) }) : WebGpuDevice.open(told, gpu);
}

/** All bytes of what `load` takes. */
async function whole(source, { signal, progress, ...options }) {
  const stream = await Stream.of(source, { signal, downloads: () => import("./downloads.js"), ...options });
  stream.onprogress = (loaded, total) => (progress?.({ stage: "weights", loaded, total }), signal?.throwIfAborted());
  const pieces = [];
  for (let piece; (piece = await stream.next(Infinity)); ) pieces.push(piece);
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}
