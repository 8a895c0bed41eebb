// How long runs take by threads: each side is a session in a worker of its own, or on the page's thread, and sides run
// in turns. The page calls `open`, `measure` and `blocked`; a worker of this script holds one side.
import { turns } from "./turns.mjs";

const NAME = "cores";
const ARRAYS = {
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array,
  int32: Int32Array, uint64: BigUint64Array, int64: BigInt64Array, float32: Float32Array, float64: Float64Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};

// What is fed: [[name, tensor]], for inputs [[name, dtype, dims]].
const fed = (inputs, Tensor) =>
  Promise.all(
    inputs.map(async ([name, dtype, dims], k) => {
      const data = await (await fetch(`/data/input${k}`)).arrayBuffer();
      return [name, new Tensor(dtype, new ARRAYS[dtype](data), dims)];
    }),
  );

const STARTS = {
  async "onnxruntime-web"({ inputs, threads }) {
    const ort = await import("/onnxruntime/ort.wasm.min.mjs");
    Object.assign(ort.env.wasm, { numThreads: threads, proxy: false, wasmPaths: "/onnxruntime/" });
    ort.env.logLevel = "error";
    const session = await ort.InferenceSession.create("/data/model.onnx");
    return { session, names: session.outputNames, feeds: Object.fromEntries(await fed(inputs, ort.Tensor)) };
  },
  async bundle({ inputs, threads, options }) {
    const { Tensor, load } = await import("/sardonyx/runtime.js");
    const session = await load("/data/model.sdx", { target: "wasm", threads, ...options });
    return { session, names: session.outputs.map(({ name }) => name), feeds: Object.fromEntries(await fed(inputs, Tensor)) };
  },
};

// A side in this realm: `run(times)` takes milliseconds a run, `outputs()` posts results and tells [[dtype, dims]].
async function here({ kind, ...told }) {
  const { session, names, feeds } = await STARTS[kind](told);
  let results;
  return {
    async run(duration) {
      const times = [];
      for (const end = performance.now() + duration; !times.length || performance.now() < end; ) {
        const begun = performance.now();
        results = await session.run(feeds);
        times.push(performance.now() - begun);
      }
      return times;
    },
    async outputs(side) {
      const found = [];
      for (const [k, name] of names.entries()) {
        const { type, data, dims } = results[name];
        const body = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
        await fetch(`/${side}/${k}`, { method: "POST", body });
        found.push([type, [...dims]]);
      }
      return found;
    },
  };
}

function inWorker(told) {
  const worker = new Worker(import.meta.url, { type: "module", name: NAME });
  const ask = (...message) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data: { error, result } }) => (error ? reject(new Error(error)) : resolve(result));
      worker.onerror = ({ message }) => reject(new Error(message));
      worker.postMessage(message);
    });
  const side = { run: (duration) => ask("run", duration), outputs: (name) => ask("outputs", name) };
  return ask("start", told).then(() => side);
}

if (globalThis.name === NAME) {
  let side;
  onmessage = async ({ data: [what, given] }) => {
    try {
      if (what === "start") side = await here(given);
      postMessage({ result: what === "start" ? null : await side[what](given) });
    } catch (error) {
      postMessage({ error: error.message || String(error) });
    }
  };
}

const sides = {};

// Start sides, {name: {kind, threads, where, inputs, options}}, one after another, and tell what they give.
export async function open(told) {
  const found = {};
  for (const [name, { where, ...given }] of Object.entries(told)) {
    sides[name] = await (where === "page" ? here(given) : inWorker(given));
    await sides[name].run(0);
    found[name] = await sides[name].outputs(name);
  }
  return found;
}

// Milliseconds of runs of each side, in turns: a pause, in which the threads of others fall asleep, then runs until
// the system has found its threads their cores, then those that count.
export async function measure(rounds, { pause, warm, span }) {
  const times = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
  for (let i = 0; i < rounds; i++) {
    for (const [name, side] of turns(Object.entries(sides), i)) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      await side.run(warm);
      times[name].push(await side.run(span));
    }
  }
  return times;
}

// The longest that the page did nothing else while a side ran so many times, in milliseconds.
export async function blocked(name, runs) {
  let longest = 0, going = true, last = performance.now();
  const tick = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (going) setTimeout(tick);
  };
  tick();
  for (let i = 0; i < runs; i++) await sides[name].run(0);
  await new Promise((resolve) => setTimeout(resolve));
  going = false;
  tick();
  return longest;
}
