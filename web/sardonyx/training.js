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
import { MODEL, Trainer } from "./trainer.js";
import { RemoteTrainer } from "./training_remote.js";
import { Tensor, bytesOf, product } from "./types.js";
import { WasmDevice } from "./wasm.js";
import { WebGpuDevice } from "./webgpu.js";
import { threadsFor } from "./crew.js";

export { Tensor };

const RATE = 0.001;
const FORMATS = ["onnx", "sdx", "safetensors"];
const isPage = Boolean(globalThis.document);

/** A model with its gradients and its optimizer, whose parameters and moments stay on one device. */
export class TrainingSession {
  /** A session for what `load` takes, and `load`'s options; "wasm" trains in a worker of its own where `load` has one run. */
  static async create(source, { target, threads, worker = isPage, device: gpu, ...options } = {}) {
    const file = await whole(source, options);
    const bundle = await Bundle.open(file, { name: options.name ?? (typeof source === "string" ? source : undefined) });
    try {
      const [each, trainer] = await opened(file, bundle, target, threadsFor(threads), worker, gpu);
      return new TrainingSession(bundle.manifest, each, trainer);
    } catch (error) {
      bundle.stream.close();
      throw error;
    }
  }

  constructor(manifest, target, trainer) {
    const { model, training, weights } = manifest;
    const ports = ([inputs, outputs]) => [inputs, outputs].map((list) => list.map(([name, told]) => ({ name, type: told?.[1], dims: told?.[2] })));
    this.target = target;
    this.trainer = trainer;
    this.training = training;
    /** What the model takes and gives, as of a session that `load` gives. */
    [this.inputs, this.outputs] = ports(model);
    [this.fed, this.found] = ports(training.parts.evaluation.model).map(namesOf);
    this.flag = training.parts.training.model[0].at(-1)[0];
    this.kinds = Object.fromEntries(Object.entries(training.parameters).map(([name, title]) => [name, weights[title]]));
    /** What the next steps of the optimizer take. */
    this.learningRate = RATE;
    /** How many steps the optimizer has made. */
    this.steps = 0;
    this.isAnew = true;
  }

  get trainingInputNames() {
    return this.evalInputNames;
  }

  get trainingOutputNames() {
    return this.evalOutputNames;
  }

  get evalInputNames() {
    const { features } = this.training;
    return [...new Set([...namesOf(this.inputs), ...this.fed.filter((name) => !features.includes(name))])];
  }

  get evalOutputNames() {
    return this.found;
  }

  /** The outputs of the model with its parameters as they are now. */
  run(feeds, names) {
    return this.trainer.run(MODEL, feeds, names);
  }

  /**
   * What training begins with, for inputs of the model: where its head alone is trained, what the rest of it makes of them.
   * Who trains with the same inputs again spares time by feeding this instead.
   */
  async features(feeds) {
    return this.training.features.length ? this.trainer.run("encoder", feeds) : feeds;
  }

  /** The loss and the outputs; the gradients are added to those since `lazyResetGrad`. */
  async trainStep(feeds, names) {
    const isAnew = this.isAnew;
    this.isAnew = false;
    const flag = new Tensor("bool", Uint8Array.of(Number(isAnew)), []);
    return this.trainer.run("training", { ...feeds, [this.flag]: flag }, fetched(names) ?? this.found);
  }

  /** The loss and the outputs, without gradients. */
  async evalStep(feeds, names) {
    return this.trainer.run("evaluation", feeds, fetched(names));
  }

  /** Have the optimizer make a step by the gradients. */
  async optimizerStep() {
    const step = BigInt64Array.of(BigInt(++this.steps));
    const rate = Float32Array.of(this.learningRate);
    const feeds = { learning_rate: new Tensor("float32", rate, [1]), step: new Tensor("int64", step, [1]) };
    await this.trainer.run("optimizer", feeds, []);
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
    return this.trainer.parameters(this.names(trainableOnly));
  }

  /** How many elements the parameters have. */
  async getParametersSize(trainableOnly = true) {
    return this.names(trainableOnly).reduce((sum, name) => sum + product(this.kinds[name][1]), 0);
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
    return this.trainer.write(this.names(trainableOnly), bytes);
  }

  /**
   * The trained model as bytes: an `onnx` file, a bundle, `sdx`, that `load` runs, or its parameters, `safetensors`; with
   * texts by name that are told of it.
   */
  async export(format = "onnx", metadata = {}) {
    if (!FORMATS.includes(format)) throw new Error(`there is no format ${JSON.stringify(format)}; use ${FORMATS.join(", ")}`);
    return this.trainer.export(format, metadata);
  }

  /** Give all back, after what was asked for. */
  release() {
    return this.trainer.release();
  }

  names(trainableOnly) {
    return trainableOnly ? this.training.trainable : Object.keys(this.training.parameters);
  }
}

const namesOf = (ports) => ports.map(({ name }) => name);

/** The names of outputs that are wanted: a list, or an object by name. */
const fetched = (names) => (names && !Array.isArray(names) ? Object.keys(names) : names);

/** The first target that there is a device for, and the trainer on it. */
async function opened(file, bundle, target, threads, worker, gpu) {
  const { manifest, name } = bundle;
  if (!manifest.training) throw new Error(`${name} has no plans for training: make it with \`sardonyx compile model.onnx --train all\``);
  const reasons = [];
  for (const each of target ? [target].flat() : Object.keys(manifest.targets)) {
    const told = manifest.targets[each];
    if (!told) reasons.push(`${name} has no code for ${each}, only for ${Object.keys(manifest.targets).join(" and ")}`);
    else if (each === "wasm") {
      const remote = worker && (await RemoteTrainer.load(file, name, threads));
      if (remote) bundle.stream.close();
      return [each, remote || (await Trainer.load(file, bundle, each, new WasmDevice(told, { threads })))];
    } else {
      const device = await WebGpuDevice.open(told, gpu).catch((error) => void reasons.push(error.message));
      if (device) return [each, await Trainer.load(file, bundle, each, device)];
    }
  }
  throw new Error(reasons.join("; "));
}

/** All bytes of what `load` takes. */
async function whole(source, { signal, progress, ...options }) {
  const stream = await Stream.of(source, { signal, downloads: () => import("./downloads.js"), ...options });
  stream.heed({ progress, signal });
  const pieces = [];
  for (let piece; (piece = await stream.next(Infinity)); ) pieces.push(piece);
  return new Blob(pieces);
}
