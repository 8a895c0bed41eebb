// A step of training: {target, batch, rounds, rate, dims, shapes, sides} -> {times, losses} of each of these sides.
// Parameters, images and labels lie in the site's data, as PyTorch lays them out; theirs are turned to TensorFlow's order.

import { Tensor, TrainingSession } from "/sardonyx/training.js";
import { serve } from "/support/worker.mjs";
import { turns } from "./turns.mjs";

const WARM = 3;
const bytes = async (name) => (await fetch(`/data/${name}`)).arrayBuffer();

async function ours({ target, batch, rate, dims }, images, labels) {
  const session = await TrainingSession.create("/data/model.sdx", { target, threads: 1 });
  session.learningRate = rate;
  const feeds = { image: new Tensor("float32", images, [batch, ...dims]), labels: new Tensor("int64", labels, [batch]) };
  return async () => {
    const { loss } = await session.trainStep(feeds, ["loss"]);
    await session.optimizerStep();
    await session.lazyResetGrad();
    return loss.data[0];
  };
}

async function theirs({ target, batch, rate, dims: [channels, side], shapes }, images, labels) {
  const run = async (address) => (0, eval)(await (await fetch(address)).text());
  await run("/tfjs/tf.min.js");
  const { tf } = globalThis;
  if (target === "webgpu") await run("/webgpu/tf-backend-webgpu.min.js");
  await tf.setBackend(target === "webgpu" ? "webgpu" : "cpu");
  await tf.ready();
  const parameters = {};
  for (const [name, shape] of Object.entries(shapes)) {
    const given = tf.tensor(new Float32Array(await bytes(name)), shape);
    if (shape.length === 4) parameters[name] = tf.variable(given.transpose([2, 3, 1, 0]));
    else if (name === "w") {
      const [features, classes] = shape;
      const small = side / 4;
      parameters[name] = tf.variable(given.reshape([features / small ** 2, small, small, classes]).transpose([1, 2, 0, 3]).reshape(shape));
    } else parameters[name] = tf.variable(given);
  }
  const { c1, d1, c2, d2, w, b } = parameters;
  const image = tf.tensor(images, [batch, channels, side, side]).transpose([0, 2, 3, 1]);
  const wanted = tf.oneHot(tf.tensor1d(Int32Array.from(labels, Number), "int32"), shapes.b[0]);
  const optimizer = tf.train.adam(rate);
  const layer = (x, weight, bias) => tf.maxPool(tf.relu(tf.add(tf.conv2d(x, weight, 1, "same"), bias)), 2, 2, "valid");
  const loss = () => {
    const scores = tf.add(tf.matMul(tf.reshape(layer(layer(image, c1, d1), c2, d2), [batch, -1]), w), b);
    return tf.losses.softmaxCrossEntropy(wanted, scores);
  };
  return async () => {
    const cost = optimizer.minimize(loss, true);
    const [found] = await cost.data();
    cost.dispose();
    return found;
  };
}

serve(async (given) => {
  const [images, labels] = [new Float32Array(await bytes("images")), new BigInt64Array(await bytes("labels"))];
  const sides = {};
  const times = {};
  const losses = {};
  for (const side of given.sides) {
    sides[side] = await { ours, theirs }[side](given, images, labels);
    times[side] = [];
    losses[side] = [];
  }
  for (let round = -WARM; round < given.rounds; round++) {
    for (const side of turns(Object.keys(sides), round + WARM)) {
      const start = performance.now();
      losses[side].push(await sides[side]());
      if (round >= 0) times[side].push(performance.now() - start);
    }
  }
  return { times, losses };
});
