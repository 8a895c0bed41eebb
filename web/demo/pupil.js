/** A network whose last layer is trained: examples in, what it recognises out. */

import { Tensor, TrainingSession } from "./sardonyx/training.js";

const PLAIN = { mean: [0, 0, 0], deviation: [1, 1, 1] };
const IMAGENET = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] };
const USUAL = 224; // the side of pictures for networks that do not say it
const SLACK = 1e-3; // by which probabilities may miss 1; else they are scores
const RATE = 0.01;
const BATCH = 16;
export const EPOCHS = 60;

export class Pupil {
  /** The bundle at an address. */
  static async load(address) {
    return new Pupil(await TrainingSession.create(address, { target: "wasm", threads: 1 }), PLAIN);
  }

  /** A network for pictures in an .onnx file, with a new last layer for some classes, compiled here. */
  static async compile(file, classes, progress) {
    const { loaded } = await import("./sardonyx/compile.js"); // which few want
    const training = { train: "head", classes };
    const create = (bundle) => TrainingSession.create(bundle, { target: "wasm", threads: 1 });
    const session = await loaded(file, { training, progress }, create);
    const [{ name, type, dims }, ...others] = session.inputs;
    if (others.length || type !== "float32" || dims?.length !== 4 || dims[1] !== 3 || session.outputs.length !== 1) {
      session.release();
      throw new Error(`${file.name} is no network for pictures: it takes ${name}, ${type} [${dims}], not one float32 [N, 3, height, width].`);
    }
    return new Pupil(session, IMAGENET);
  }

  constructor(session, { mean, deviation }) {
    session.learningRate = RATE;
    this.session = session;
    const [, channels, high, wide] = session.inputs[0].dims;
    const side = [high, wide].find(Number.isInteger) ?? USUAL;
    this.dims = [channels, side, side];
    this.view = { side, mean, deviation };
    [this.input] = session.inputs.map(({ name }) => name);
    [this.output] = session.outputs.map(({ name }) => name);
  }

  tensor(pixels) {
    return new Tensor("float32", pixels, [1, ...this.dims]);
  }

  /** What the layers before the last one make of an example, which is all that training needs of it. */
  async features(pixels) {
    const [found] = Object.values(await this.session.features({ [this.input]: this.tensor(pixels) }));
    return found.data;
  }

  /** The probability of each kind. */
  async recognise(pixels) {
    const found = Array.from((await this.session.run({ [this.input]: this.tensor(pixels) }))[this.output].data);
    const sum = (values) => values.reduce((a, b) => a + b);
    if (found.every((share) => share >= 0) && Math.abs(sum(found) - 1) < SLACK) return found;
    const powers = found.map((score) => Math.exp(score - Math.max(...found)));
    return powers.map((power) => power / sum(powers));
  }

  /** Train by `{ features, kind }`; `told({ epoch, loss, right })` is awaited after each round through them. */
  async learn(examples, told) {
    const { session } = this;
    const all = this.feeds(examples);
    for (let epoch = 1; epoch <= EPOCHS; epoch++) {
      const order = shuffled(examples);
      for (let start = 0; start < order.length; start += BATCH) {
        await session.trainStep(this.feeds(order.slice(start, start + BATCH)), ["loss"]);
        await session.optimizerStep();
        await session.lazyResetGrad();
      }
      const { loss, [this.output]: found } = await session.evalStep(all);
      const width = found.dims[1];
      const best = examples.map((_, k) => argmax(found.data.subarray(k * width, (k + 1) * width)));
      const right = best.filter((kind, k) => kind === examples[k].kind).length / examples.length;
      await told({ epoch, loss: loss.data[0], right });
    }
  }

  feeds(examples) {
    const [name] = this.session.training.features;
    const size = examples[0].features.length;
    const data = new Float32Array(examples.length * size);
    examples.forEach(({ features }, k) => data.set(features, k * size));
    const labels = BigInt64Array.from(examples, ({ kind }) => BigInt(kind));
    return { [name]: new Tensor("float32", data, [examples.length, size]), labels: new Tensor("int64", labels, [examples.length]) };
  }
}

export const argmax = (values) => values.indexOf(Math.max(...values));

function shuffled(examples) {
  const order = [...examples];
  for (let k = order.length - 1; k > 0; k--) {
    const other = Math.floor(Math.random() * (k + 1));
    [order[k], order[other]] = [order[other], order[k]];
  }
  return order;
}
