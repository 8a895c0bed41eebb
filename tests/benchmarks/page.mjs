// What a page does until it has its first answer, and how fast it goes on: for each side `start()`, which loads all it
// needs, and `run()`. Nothing is imported before `start`.

import { turns } from "./turns.mjs";

const ARRAYS = {
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array,
  int32: Int32Array, uint64: BigUint64Array, int64: BigInt64Array, float32: Float32Array, float64: Float64Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};

// Every memory that WebAssembly is asked for, to know how large they are.
let memories = [];
WebAssembly.Memory = new Proxy(WebAssembly.Memory, {
  construct(Memory, given) {
    memories.push(new Memory(...given));
    return memories.at(-1);
  },
});
const held = () => memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);

let inputs = [];
let target = "wasm";
const sides = {};

// Choose the target of both sides, "wasm" or "webgpu".
export function aim(name) {
  target = name;
}

// Fetch what is fed: [[name, dtype, dims]].
export async function feed(kinds) {
  inputs = await Promise.all(
    kinds.map(async ([name, dtype, dims], k) => {
      const data = await (await fetch(`/data/input${k}`)).arrayBuffer();
      return [name, dtype, dims, new ARRAYS[dtype](data)];
    }),
  );
}

async function theirs() {
  const ort = await import(`/onnxruntime/ort.${target}.min.mjs`);
  Object.assign(ort.env.wasm, { numThreads: 1, proxy: false, wasmPaths: "/onnxruntime/" });
  ort.env.logLevel = "error";
  const session = await ort.InferenceSession.create("/data/model.onnx", { executionProviders: [target] });
  const feeds = Object.fromEntries(inputs.map(([name, dtype, dims, data]) => [name, new ort.Tensor(dtype, data, dims)]));
  return { run: () => session.run(feeds), names: session.outputNames };
}

async function session(make) {
  const { Tensor } = await import("/site/sardonyx/runtime.js");
  const made = await make();
  const feeds = Object.fromEntries(inputs.map(([name, dtype, dims, data]) => [name, new Tensor(dtype, data, dims)]));
  return { run: () => made.run(feeds), names: made.outputs.map(({ name }) => name) };
}

// Few integers may decide on shapes or branches, so the compiler is told their values.
async function compiled() {
  const { Tensor, compile } = await import("/site/sardonyx/compile.js");
  const isFew = (dtype, data) => /int/.test(dtype) && data.length <= 8;
  const shapes = Object.fromEntries(
    inputs.map(([name, dtype, dims, data]) => [name, isFew(dtype, data) ? new Tensor(dtype, data, dims) : dims]),
  );
  return compile("/data/model.onnx", { shapes, threads: 1, worker: false });
}

const STARTS = {
  "onnxruntime-web": theirs,
  bundle: () => session(async () => (await import("/site/sardonyx/runtime.js")).load("/data/model.sdx", { target, threads: 1, worker: false })),
  compile: () => session(compiled),
};

// Milliseconds to the first answer, bytes of memory, and the outputs' types and shapes; elements are posted.
export async function cold(side) {
  memories = [];
  const begun = performance.now();
  sides[side] = await STARTS[side]();
  const results = await sides[side].run();
  const time = performance.now() - begun;
  const memory = held();
  const outputs = [];
  for (const [k, name] of sides[side].names.entries()) {
    const { type, data, dims } = results[name];
    outputs.push([type, dims]);
    await fetch(`/${side}/${k}`, { method: "POST", body: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) });
  }
  return { time, memory, outputs };
}

// Milliseconds of a run of each side, in turns.
export async function steady(names, runs, warm = 3) {
  const times = Object.fromEntries(names.map((name) => [name, []]));
  for (const name of names) for (let i = 0; i < warm; i++) await sides[name].run();
  for (let i = 0; i < runs; i++) {
    for (const name of turns(names, i)) {
      const begun = performance.now();
      await sides[name].run();
      times[name].push(performance.now() - begun);
    }
  }
  return times;
}
