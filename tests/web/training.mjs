// Training in a page: {task, ...} -> whatever the task tells. Arrays are [type, elements, dims].
import { Tensor, TrainingSession } from "/sardonyx/training.js";
import { load } from "/sardonyx/runtime.js";
import { serve } from "/support/worker.mjs";

const ARRAYS = { float32: Float32Array, int64: BigInt64Array };
const tensor = ([type, elements, dims]) => new Tensor(type, ARRAYS[type].from(elements, type === "int64" ? BigInt : Number), dims);
const fed = (feeds) => Object.fromEntries(Object.entries(feeds).map(([name, array]) => [name, tensor(array)]));
const plain = ({ data, dims }) => [Array.from(data, Number), [...dims]];
const refusal = (asked) => asked.then(() => "", (error) => error.message);
const post = (name, bytes) => fetch(`/${name}`, { method: "POST", body: bytes });

/** The loss of each step, whose batches are numbers of `batches`; several in a step add their gradients. */
async function trained(session, batches, steps) {
  const losses = [];
  for (const numbers of steps) {
    for (const number of numbers) losses.push((await session.trainStep(batches[number])).loss.data[0]);
    await session.optimizerStep();
    await session.lazyResetGrad();
  }
  return losses;
}

const TASKS = {
  // What training makes of a model, and what its files are.
  async train({ target, worker, rate, batches, steps }) {
    const session = await TrainingSession.create("/data/model.sdx", { target, worker });
    session.learningRate = rate;
    const given = batches.map(fed);
    const losses = await trained(session, given, steps);
    const { loss, ...outputs } = await session.evalStep(given[0]);
    const files = {};
    for (const format of ["onnx", "sdx", "safetensors"]) {
      files[format] = await session.export(format, { classes: "ä,b" });
      await post(`model.${format}`, files[format]);
    }
    const parameters = Object.entries(await session.parameters()).map(([name, each]) => [name, plain(each)]);
    const contiguous = await session.getContiguousParameters();
    const names = [session.trainingInputNames, session.trainingOutputNames, session.evalInputNames, session.evalOutputNames];
    await session.release();
    const again = await load(files.sdx, { target });
    const inputs = Object.fromEntries(session.inputs.map(({ name }) => [name, given[0][name]]));
    const run = await again.run(inputs);
    await again.release();
    const told = (found) => Object.entries(found).map(([name, each]) => [name, plain(each)]);
    if (session.trainer.constructor.name !== (worker ? "RemoteTrainer" : "Trainer")) throw new Error("it trains elsewhere");
    return { losses, loss: loss.data[0], outputs: told(outputs), run: told(run), parameters, contiguous: plain(contiguous), names };
  },

  // The loss with parameters that were changed, put back, and of a bundle that was trained and saved.
  async restore({ target, worker, batches }) {
    const [feeds] = batches.map(fed);
    const session = await TrainingSession.create("/data/model.sdx", { target, worker });
    const loss = async (of = session) => (await of.runEvalStep(feeds)).loss.data[0];
    const losses = [await loss()];
    const before = (await session.getContiguousParameters()).data;
    await session.runTrainStep(feeds);
    await session.runOptimizerStep();
    losses.push(await loss());
    const later = await TrainingSession.create(await session.export("sdx"), { target, worker });
    losses.push(await loss(later));
    await session.loadParametersBuffer(new Uint8Array(before.buffer));
    losses.push(await loss());
    const size = await session.getParametersSize();
    await later.release();
    const errors = [
      await refusal(session.trainStep({})),
      await refusal(session.loadParametersBuffer(new Uint8Array(3))),
      await refusal(session.export("txt")),
    ];
    await session.release();
    errors.push(await refusal(session.trainStep(feeds)), await refusal(TrainingSession.create("/data/plain.sdx", { target, worker })));
    return { losses, size, errors };
  },

  // What comes of calls that nobody waits for: losses, parameters between and after two steps, and a file.
  async hasty({ worker, rate, batches }) {
    const session = await TrainingSession.create("/data/model.sdx", { target: "wasm", worker });
    const [first, second] = batches.map(fed);
    session.learningRate = rate;
    const made = [];
    for (const feeds of [first, second]) {
      made.push(session.trainStep(feeds, ["loss"]), session.optimizerStep(), session.getContiguousParameters());
      session.lazyResetGrad();
      Object.values(feeds).forEach(({ data }) => worker && data.fill(data[0])); // which were copied
    }
    made.push(session.export("safetensors", { classes: "ä,b" }), session.release(), refusal(session.evalStep(first)));
    const [a, , p, b, , q, file, , error] = await Promise.all(made);
    await post("hasty", file);
    return { losses: [a.loss.data[0], b.loss.data[0]], parameters: [p, q].map(plain), error };
  },

  // Accuracy on the held-out part after each epoch, until it is enough.
  async learn({ target, rate, batch, epochs, enough, images, labels, held }) {
    const bytes = async (name) => (await fetch(`/data/${name}`)).arrayBuffer();
    const [pixels, classes] = [new Float32Array(await bytes(images)), new BigInt64Array(await bytes(labels))];
    const count = classes.length;
    const size = pixels.length / count;
    const side = Math.sqrt(size);
    const taken = (numbers) => ({
      image: new Tensor("float32", Float32Array.from(numbers.flatMap((k) => [...pixels.subarray(k * size, (k + 1) * size)])), [numbers.length, 1, side, side]),
      labels: new Tensor("int64", BigInt64Array.from(numbers, (k) => classes[k]), [numbers.length]),
    });
    const session = await TrainingSession.create("/data/model.sdx", { target });
    session.learningRate = rate;
    const all = [...Array(count).keys()];
    const [own, test] = [all.slice(held), taken(all.slice(0, held))];
    let seed = 1;
    const random = (end) => (seed = (seed * 48271) % 2147483647) % end;
    const began = performance.now();
    const accuracies = [];
    for (let epoch = 0; epoch < epochs && !(accuracies.at(-1) >= enough); epoch++) {
      for (let k = own.length - 1; k > 0; k--) {
        const other = random(k + 1);
        [own[k], own[other]] = [own[other], own[k]];
      }
      for (let start = 0; start < own.length; start += batch) {
        await session.trainStep(taken(own.slice(start, start + batch)), ["loss"]);
        await session.optimizerStep();
        await session.lazyResetGrad();
      }
      const scores = Object.values(await session.evalStep(test))[1].data;
      const right = [...test.labels.data].filter((label, k) => {
        const row = scores.subarray(10 * k, 10 * k + 10);
        return row.indexOf(Math.max(...row)) === Number(label);
      });
      accuracies.push(right.length / held);
    }
    const seconds = (performance.now() - began) / 1000;
    await post("learnt.onnx", await session.export("onnx"));
    await session.release();
    return { accuracies, seconds };
  },
};

serve(({ task, ...given }) => TASKS[task](given));
