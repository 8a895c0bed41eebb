// Both sides by onnxruntime-web's interface: sessions on WASM, by threads, or on WebGPU; their first answers and runs.

import { turns } from "./turns.mjs";

const ARRAYS = {
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array,
  int32: Int32Array, uint64: BigUint64Array, int64: BigInt64Array, float32: Float32Array, float64: Float64Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};

const PAUSE = 100; // onnxruntime-web's threads stay awake for some 30 ms after a run
const WARM = 100; // milliseconds of runs after a pause that do not count
const COUNTED = 3;

// Every memory that WebAssembly is asked for on this thread, to know how large they are.
const memories = [];
WebAssembly.Memory = new Proxy(WebAssembly.Memory, {
  construct(Memory, given) {
    memories.push(new Memory(...given));
    return memories.at(-1);
  },
});

let inputs = [];
const sides = {};

// Fetch what is fed: [[name, dtype, dims]].
export async function feed(kinds) {
  inputs = await Promise.all(
    kinds.map(async ([name, dtype, dims], k) => [name, dtype, dims, new ARRAYS[dtype](await (await fetch(`/data/input${k}`)).arrayBuffer())]),
  );
}

const ENGINES = {
  async "onnxruntime-web"(target, threads) {
    const wasmPaths = target === "webgpu" ? "/onnxruntime-gpu/" : "/onnxruntime/";
    const ort = await import(`${wasmPaths}ort.${target}.min.mjs`);
    Object.assign(ort.env.wasm, { numThreads: threads, proxy: false, wasmPaths });
    ort.env.logLevel = "error";
    return { ort, address: "/data/model.onnx", memory: () => memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0) };
  },
  async Sardonyx(target, threads) {
    const ort = await import("/sardonyx/sardonyx.min.mjs");
    ort.env.wasm.numThreads = threads;
    return { ort, address: `/data/${target}.sdx`, memory: ({ session }) => session.memory };
  },
};

// Milliseconds to the first answer of a side, bytes of its memory, and the outputs' types and shapes; elements are posted.
export async function start(side, target, threads) {
  const begun = performance.now();
  const { ort, address, memory } = await ENGINES[side](target, threads);
  const session = await ort.InferenceSession.create(address, { executionProviders: [target] });
  const feeds = Object.fromEntries(inputs.map(([name, dtype, dims, data]) => [name, new ort.Tensor(dtype, data, dims)]));
  sides[side] = { run: () => session.run(feeds), handler: session.handler, feeds };
  const results = await session.run(feeds);
  const time = performance.now() - begun;
  const outputs = [];
  for (const [k, name] of session.outputNames.entries()) {
    const { type, data, dims } = results[name];
    outputs.push([type, dims]);
    await fetch(`/${side}/${k}`, { method: "POST", body: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) });
  }
  return { time, memory: memory(session.handler), outputs };
}

// Milliseconds of runs of each side, in turns, for so many seconds, three at least. A turn is a pause, in which the
// threads of the other side fall asleep, runs that wake one's own and the processor, and runs that count.
export async function steady(runs, seconds) {
  const names = Object.keys(sides);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  for (const name of names) for (let i = 0; i < 3; i++) await sides[name].run();
  const end = performance.now() + 1e3 * seconds;
  for (let i = 0; i < runs && (i < 3 || performance.now() < end); i++) {
    for (const name of turns(names, i)) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      for (const end = performance.now() + WARM; performance.now() < end; ) await sides[name].run();
      for (let k = 0; k < COUNTED; k++) {
        const begun = performance.now();
        await sides[name].run();
        times[name].push(performance.now() - begun);
      }
    }
  }
  return times;
}

// Microseconds of a run by onnxruntime-web's interface, and without it, on the same session: medians of rounds.
export async function adapter(rounds, runs) {
  const { run, handler, feeds } = sides.Sardonyx;
  const ways = { interface: run, session: () => handler.session.run(feeds) };
  const times = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
  for (let i = 0; i < rounds; i++) {
    for (const way of turns(Object.keys(ways), i)) {
      const begun = performance.now();
      for (let k = 0; k < runs; k++) await ways[way]();
      times[way].push((1e3 * (performance.now() - begun)) / runs);
    }
  }
  return times;
}
