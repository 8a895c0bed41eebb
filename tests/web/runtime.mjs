// What tests ask of the page runtime in a worker: {task, ...} -> whatever the task tells.
import { Tensor, load } from "/sardonyx/runtime.js";
import { Work, limits } from "/sardonyx/queue.js";
import { serve, stage } from "/support/worker.mjs";

const messages = [];
for (const level of ["info", "warn", "error"]) {
  console[level] = (...given) => messages.push(`${level}: ${given.join(" ")}`);
}
const counts = ({ device }) => ({ ...device.queue.counts, ...device.counts });
const image = () => new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);

/** The sizes of buffers of GPUs that are made from now on, until they are destroyed. */
function metered() {
  const live = new Map();
  const { createBuffer } = GPUDevice.prototype;
  const { destroy } = GPUBuffer.prototype;
  GPUDevice.prototype.createBuffer = function (told) {
    const buffer = createBuffer.call(this, told);
    live.set(buffer, buffer.size);
    return buffer;
  };
  GPUBuffer.prototype.destroy = function () {
    live.delete(this);
    return destroy.call(this);
  };
  return live;
}

let live, kept;

/** What is held after a session that held so much, which is told with it. */
function held(memory) {
  gc(); // --js-flags=--expose-gc
  return { memory, buffers: live.size, bytes: [...live.values()].reduce((a, b) => a + b, 0), messages };
}

const TASKS = {
  // The message of what `load` throws for each address.
  refuse: async ({ addresses }) =>
    Promise.all(addresses.map((address) => load(address).then(() => "", (error) => error.message))),

  // How many memories so many sessions have that are not released, whether all are right, and whether a later one is.
  crowd: async ({ count, threads }) => {
    const sessions = [];
    const read = async (session) => String((await session.run({ image: image() })).probabilities.data);
    for (let k = 0; k < count; k++) sessions.push(await load("/data/digits.sdx", { threads }));
    const memories = new Set(sessions.map(({ device }) => device.memory)).size;
    const answers = await Promise.all(sessions.map(read));
    await Promise.all(sessions.map((session) => session.release()));
    const late = await load("/data/digits.sdx", { threads });
    answers.push(await read(late));
    await late.release();
    return { memories, answers: [...new Set(answers)].length };
  },

  // The messages of what `run` throws for wrong feeds.
  misfeed: async () => {
    const session = await load("/data/digits.sdx");
    const wrong = [
      {},
      { image: image(), other: image() },
      { image: new Tensor("float64", new Float64Array(784), [1, 1, 28, 28]) },
      { image: new Tensor("float32", new Float32Array(784), [784]) },
      { image: new Tensor("float32", new Float32Array(783), [1, 1, 27, 29]) },
      { image: { type: "float32", data: new Float32Array(3), dims: [1, 1, 28, 28] } },
      { image: { type: "float32", data: new Float64Array(784), dims: [1, 1, 28, 28] } },
      { image: { type: "float32", data: new Float32Array(784), dims: [1.5, 1, 28, 28] } },
      { image: { type: "float32" } },
      undefined,
    ];
    const told = [];
    for (const feeds of wrong) told.push(await session.run(feeds).then(() => "", (error) => error.message));
    told.push(await session.run({ image: image() }, ["none"]).then(() => "", (error) => error.message));
    session.release();
    told.push(await session.run({ image: image() }).then(() => "", (error) => error.message));
    for (const wrong of [() => new Tensor("float33", []), () => new Tensor("float32", [1, 2], [3])]) {
      try {
        wrong();
      } catch (error) {
        told.push(error.message);
      }
    }
    return told;
  },

  // A bundle from whatever holds bytes, with progress.
  sources: async () => {
    const response = await fetch("/data/digits.sdx");
    const bytes = await (await fetch("/data/digits.sdx")).arrayBuffer();
    const heard = [];
    const progress = (event) => heard.push(event);
    const answers = [];
    for (const source of [response, bytes, new Uint8Array(bytes), new Blob([bytes]), new Blob([bytes]).stream()]) {
      const session = await load(source, { progress });
      const { probabilities } = await session.run({ image: image() });
      answers.push([...probabilities.data]);
      session.release();
    }
    return { answers, last: heard.at(-1), size: bytes.byteLength };
  },

  // What a bundle gives that is in these places, or why it cannot be loaded, and what was heard of progress.
  download: async ({ places }) => {
    const heard = [];
    const progress = (event) => heard.push(event);
    try {
      const session = await load(places, { progress });
      const { probabilities } = await session.run({ image: image() });
      session.release();
      return { answer: [...probabilities.data], heard };
    } catch (error) {
      return { error: error.message, heard };
    }
  },

  // What `load` says that is ended after the first bytes, from an address and from a stream.
  ended: async () => {
    const told = [];
    for (const source of ["/data/digits.sdx", (await fetch("/data/digits.sdx")).body, await (await fetch("/data/digits.sdx")).blob()]) {
      const end = new AbortController();
      const progress = () => end.abort();
      told.push(await load(source, { progress, signal: end.signal }).then(() => "no error", (error) => error.name));
    }
    return told;
  },

  // The same where nothing comes after the first bytes, and where it was ended before.
  silent: async () => {
    const head = (await (await fetch("/data/digits.sdx")).arrayBuffer()).slice(0, 40);
    const stream = () => new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(head)) });
    const told = [];
    for (const source of [() => new Response(stream()), stream, () => [stream()]]) {
      for (const signal of [AbortSignal.timeout(50), AbortSignal.abort()]) {
        told.push(await load(source(), { signal }).then(() => "no error", (error) => error.name));
      }
    }
    return told;
  },

  // What a run asks of the GPU: counts after the second and the third.
  counts: async () => {
    limits.submission = Infinity; // however busy the machine is
    const session = await load("/data/digits.sdx", { target: "webgpu" });
    const told = [];
    for (let k = 0; k < 3; k++) {
      await session.run({ image: image() });
      told.push(counts(session));
    }
    session.release();
    limits.submission = 50;
    return told.slice(1);
  },

  // Runs whose outputs stay on the GPU, in buffers of their own and in one of the page's.
  left: async () => {
    limits.submission = Infinity;
    const session = await load("/data/digits.sdx", { target: "webgpu" });
    await session.run({ image: image() });
    const [before, { memory }] = [counts(session), session];
    const usage = GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    const place = { type: "float32", dims: [1, 10], buffer: session.gpu.createBuffer({ size: 40, usage }) };
    const found = [];
    for (const each of [true, place, true]) found.push((await session.run({ image: image() }, ["probabilities"], { probabilities: each })).probabilities);
    const told = { running: session.device.queue.running.length, memory: [memory, session.memory] };
    for (const name of ["submits", "reads"]) told[name] = counts(session)[name] - before[name];
    told.answers = [];
    for (const { buffer } of found.slice(0, 2)) {
      const bytes = await session.device.read({ chunk: { buffer }, offset: 0 }, 40);
      told.answers.push([...new Float32Array(bytes.buffer)]);
    }
    session.release();
    limits.submission = 50;
    return told;
  },

  // How many dispatches each part of work has that takes so long, at first and after each time that it took.
  parts: async ({ costs, took }) => {
    const work = new Work(null, costs.map((cost) => ({ cost })));
    const sizes = () => work.passes.map(({ dispatches }) => dispatches.length);
    return [sizes(), ...took.map((time) => (work.learn(time), sizes()))];
  },

  // Many runs at the same time come one after another.
  queue: async () => {
    const session = await load("/data/digits.sdx", { threads: 1 });
    const runs = Array.from({ length: 20 }, (_, k) =>
      session.run({ image: new Tensor("float32", new Float32Array(784).fill(k / 20), [1, 1, 28, 28]) }),
    );
    const together = (await Promise.all(runs)).map(({ probabilities }) => [...probabilities.data]);
    const alone = [];
    for (let k = 0; k < 20; k++) {
      const feeds = { image: new Tensor("float32", new Float32Array(784).fill(k / 20), [1, 1, 28, 28]) };
      alone.push([...(await session.run(feeds)).probabilities.data]);
    }
    return { together, alone };
  },

  // Load, run and release sessions, from bytes: browsers keep what they fetched for a while.
  sessions: async ({ count, target }) => {
    live ??= metered();
    const bytes = await (await fetch("/data/digits.sdx")).arrayBuffer();
    let memory;
    for (let k = 0; k < count; k++) {
      stage(`session ${k}`);
      const session = await load(bytes, { target, threads: 1 });
      await session.run({ image: image() });
      ({ memory } = session);
      session.release();
      await session.last;
    }
    return held(memory);
  },

  // Runs of one session, of several sizes; on a GPU every other one leaves its output there.
  runs: async ({ count, target }) => {
    live ??= metered();
    const session = (kept ??= await load("/data/digits.sdx", { target, threads: 1 }));
    for (let k = 0; k < count; k++) {
      stage(`run ${k}`);
      const size = 1 + (k % 5);
      const isLeft = target === "webgpu" && k % 2 > 0;
      const feeds = { image: new Tensor("float32", new Float32Array(784 * size), [size, 1, 28, 28]) };
      const { probabilities } = await session.run(feeds, ["probabilities"], { probabilities: isLeft });
      probabilities.buffer?.destroy();
    }
    return held(session.memory);
  },

  // Runs in which the nth buffer that is made is none, as when memory has run out: what the GPU says comes later.
  scarce: async () => {
    const { createBuffer } = GPUDevice.prototype;
    let left = Infinity;
    GPUDevice.prototype.createBuffer = function (told) {
      return createBuffer.call(this, left-- === 0 ? { ...told, usage: 0 } : told);
    };
    const live = metered();
    const session = await load("/data/digits.sdx", { target: "webgpu" });
    const sized = (count) => ({ image: new Tensor("float32", new Float32Array(784 * count).fill(0.5), [count, 1, 28, 28]) });
    const run = async (count) => String((await session.run(sized(count))).probabilities.data);
    const [one, three] = [await run(1), await run(3)];
    const outcomes = [];
    const after = [];
    session.graph.reset();
    const before = live.size;
    for (let n = 0; n < 5; n++) {
      session.graph.reset();
      left = n;
      outcomes.push(await run(3).then((found) => (found === three ? "right" : "wrong"), (error) => (/^WebGPU: /.test(error.message) ? "wrong memory" : error.message)));
      left = Infinity;
      after.push((await run(3)) === three && (await run(1)) === one ? "right" : "wrong");
    }
    session.graph.reset();
    const told = { outcomes, after, before, left: live.size };
    session.release();
    GPUDevice.prototype.createBuffer = createBuffer;
    return told;
  },

  threads: async ({ threads, without }) => {
    if (without) delete globalThis[without];
    const session = await load("/data/digits.sdx", { threads });
    await session.device.joining;
    await session.run({ image: image() });
    const { size } = session.device.crew ?? { size: 1 };
    session.release();
    return { size, isolated: crossOriginIsolated, messages };
  },
};

serve((message) => TASKS[message.task](message));
