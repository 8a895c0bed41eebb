// A model and its twin of static int8, in a page, by both libraries: milliseconds of their runs.

import { turns } from "./turns.mjs";

const ARRAYS = { uint8: Uint8Array, int8: Int8Array, int32: Int32Array, int64: BigInt64Array, float32: Float32Array };
const WASM = { executionProviders: ["wasm"] };

async function library(name) {
  if (name === "Sardonyx") return import("/sardonyx/ort/index.js");
  const ort = await import("/onnxruntime/ort.wasm.min.mjs");
  Object.assign(ort.env.wasm, { proxy: false, wasmPaths: "/onnxruntime/" });
  ort.env.logLevel = "error";
  return ort;
}

// Milliseconds of each side, [[side, library, address]], in turns, for so many seconds, three runs at least.
export async function measure(sides, kinds, runs, seconds) {
  const inputs = await Promise.all(
    kinds.map(async ([name, dtype, dims], k) => [name, dtype, new ARRAYS[dtype](await (await fetch(`/data/input${k}`)).arrayBuffer()), dims]),
  );
  const ready = {};
  for (const [side, name, address] of sides) {
    const ort = await library(name);
    ort.env.wasm.numThreads = 1;
    const session = await ort.InferenceSession.create(address, WASM);
    const feeds = Object.fromEntries(inputs.map(([name, ...rest]) => [name, new ort.Tensor(...rest)]));
    ready[side] = () => session.run(feeds);
    for (let i = 0; i < 3; i++) await ready[side]();
  }
  const names = Object.keys(ready);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  const end = performance.now() + 1e3 * seconds;
  for (let i = 0; i < runs && (i < 3 || performance.now() < end); i++) {
    for (const name of turns(names, i)) {
      const begun = performance.now();
      await ready[name]();
      times[name].push(performance.now() - begun);
    }
  }
  return times;
}
