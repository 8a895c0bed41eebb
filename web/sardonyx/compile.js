/**
 * Compiles models in the page, and keeps what was made: a second visit loads no Python.
 *
 *     import { compile, Tensor } from "./sardonyx/compile.js";
 *     const session = await compile("model.onnx", { progress: ({ stage, loaded, total }) => ... });
 *     const { probabilities } = await session.run({ image: new Tensor("float32", pixels, [1, 1, 28, 28]) });
 *
 * `sardonyx web DIR` puts beside each other the folders `sardonyx`, with this script, and `pyodide`, with Python.
 */

import { Compiler } from "./python.js";
import { Tensor, load } from "./runtime.js";
import { Store } from "./store.js";
import { digestOf } from "./digest.js";
import { isAddress, lost } from "./bundle.js";

export { Tensor };

const HERE = import.meta.url; // as in store.js

/**
 * A session for an ONNX model: an address, or a File, a Blob or bytes.
 *
 * `target` is "wasm" (the default) or "webgpu", or both in the order in which they are wanted; `shapes` tells the sizes
 * of inputs, `{ image: [1, 3, 224, 224] }`, or several such, `sizes` those of named dimensions, `{ batch: 1 }`; what is
 * not given stays open. A size is a number, "?16" for an open one that is typically 16, or in `sizes` "P + S".
 * `progress({ stage, loaded, total })` hears of "pyodide", "model" and "weights" in bytes, and of "compile", which is 0 or
 * 1 of 1; a total that is not known is 0. `externalData` lists the files that have the model's data, `{ path, data }`, where
 * `data` is an address, a Blob or bytes, or paths that are addresses, too. `training` has the bundle be one for
 * `TrainingSession.create`, `{ train: "head", loss: "cross-entropy", optimizer: "adamw", classes: 3 }`; `shapes` are left out. `pyodide` is where another Pyodide of the same Python lies, `threads`, `worker`
 * and `signal` are as for `load`.
 */
export async function compile(source, options = {}) {
  const { target = "wasm", threads, worker, signal, progress } = options;
  const name = isAddress(source) ? String(source) : source?.name || "the model";
  return loaded(source, options, (bundle) => load(bundle, { target, threads, worker, signal, progress, name }));
}

/** What `make` makes of the bundle that `compile` would run; one that was kept, and is damaged since, is compiled again. */
export async function loaded(source, options, make) {
  const bundle = await bundleOf(source, options);
  return make(bundle).catch((error) => {
    const fail = () => Promise.reject(error);
    const mayTry = bundle instanceof Response && !options.signal?.aborted;
    return mayTry ? bundleOf(source, options, true).then(make, fail) : fail();
  });
}

/** The bundle that `compile` would run, as something that `load` takes: a Response if it was kept. */
export async function bundleOf(source, { target = "wasm", shapes = {}, sizes = {}, training, externalData, pyodide, signal, progress } = {}, isAnew) {
  const tell = (stage, loaded, total) => progress?.({ stage, loaded, total });
  const engine = await engineOf();
  const [targets, adapter] = await usable([target].flat());
  const store = await Store.open(engine.digest);
  const files = await Promise.all((externalData ?? []).map((each) => fileOf(each, signal)));
  const marks = store.isThere ? await Promise.all(files.map(async ([path, data]) => [path, await digestOf(data)])) : [];
  const told = { shapes, sizes, ...(training && { training }) };
  const key = [targets, told, adapter, ...marks];
  const isRemote = isAddress(source);
  if (isAnew) store.get = () => {}; // what it has is damaged
  const origin = isRemote ? await Origin.find(store, source, key) : null;
  const compiler = new Compiler(pyodide ? toldOf(pyodide, engine) : engine, tell, signal);
  try {
    if (origin && !origin.isKnown) compiler.start(); // while the model is on its way
    const model = await (isRemote ? origin.fetch(tell, signal) : bytesOf(source, tell));
    if (model === null) return origin.bundle;
    const digest = store.isThere ? await digestOf(model) : "";
    let bundle = digest && (await store.get(digest, ...key));
    if (!bundle) {
      bundle = await compiler.compile(model, targets, told, files);
      await store.put(bundle, digest, ...key);
    }
    if (origin) await store.put(JSON.stringify({ ...origin.state, digest }), origin.address, ...key);
    return bundle;
  } finally {
    compiler.close();
  }
}

/** A model's address, and what an earlier visit knows of it. */
class Origin {
  static async find(store, source, key) {
    const address = addressOf(source);
    const state = await (await store.get(address, ...key))?.json().catch(() => {});
    return new Origin(address, state, state && (await store.get(state.digest, ...key)));
  }

  constructor(address, state, bundle) {
    this.address = address;
    this.state = state;
    this.bundle = bundle;
    this.isKnown = bundle !== undefined;
  }

  /** The model's bytes, null if they are those from which the bundle was made, or if nobody can be asked. */
  async fetch(tell, signal) {
    const { address, state, isKnown } = this;
    const isOwn = new URL(address).origin === location.origin; // elsewhere these headers would need permission
    const headers = {};
    if (isKnown && isOwn && state.etag) headers["If-None-Match"] = state.etag;
    else if (isKnown && isOwn && state.modified) headers["If-Modified-Since"] = state.modified;
    let response;
    try {
      response = await fetch(address, { signal, headers });
    } catch (error) {
      if (isKnown && !signal?.aborted) return null;
      lost(address)(error);
    }
    if (isKnown && (response.status === 304 || this.isSame(response.headers))) {
      response.body?.cancel();
      return null;
    }
    if (!response.ok) throw new Error(`${address}: the server answers ${response.status} ${response.statusText}`);
    this.state = stateOf(response.headers);
    const length = response.headers.has("content-encoding") ? 0 : Number(this.state.length);
    return collected(response.body, length, tell, lost(address));
  }

  isSame(headers) {
    const { etag, modified, length } = stateOf(headers);
    const { state } = this;
    return etag ? etag === state.etag : modified !== null && modified === state.modified && length === state.length;
  }
}

const stateOf = (headers) => ({
  etag: headers.get("etag"),
  modified: headers.get("last-modified"),
  length: headers.get("content-length"),
});

/** What `sardonyx web` tells of the engine. */
async function engineOf() {
  const address = HERE.replace(/[^/]*$/, "engine.json"); // no URL: bundlers would look for the file
  const asked = (cache) => fetch(address, { cache });
  const response = await asked("no-cache").catch(() => asked("force-cache")).catch(lost(address)); // the second is for who is offline
  const told = response.ok && (await response.json().catch(() => null));
  if (!told) throw new Error(`${address} is missing, so there is no compiler: \`sardonyx web DIR\` makes the whole folder`);
  const { digest, wheel, core, stdlib, packages, rest, bytes } = told;
  const at = (path) => new URL(path, address).href;
  const [glue, ...first] = core.map(at);
  const [numpy, own] = [packages.slice(0, -1), packages.slice(-1)].map((each) => each.map(at));
  return {
    digest, wheel: at(wheel), pyodide: at("../pyodide/"), glue, stdlib: at(stdlib), files: [[...first, at(stdlib)], numpy, own],
    packages: [...numpy, ...own], rest: rest.map(at), total: bytes,
  };
}

/** The whole address of what a page, or a worker, names. */
const addressOf = (name) => new URL(name, globalThis.document?.baseURI ?? location.href).href;

/** The same for a Pyodide that lies elsewhere, of which nothing is known. */
function toldOf(pyodide, { wheel }) {
  const place = addressOf(pyodide).replace(/\/?$/, "/");
  return { pyodide: place, files: [], packages: ["numpy", wheel], rest: [], total: 0 };
}

/** Those of the targets that there is a device for, and the name of the GPU. */
async function usable(targets) {
  if (!targets.includes("webgpu")) return [targets, ""];
  const adapter = await globalThis.navigator?.gpu?.requestAdapter();
  if (adapter) {
    const { vendor, architecture, device, description } = adapter.info;
    return [targets, [vendor, architecture, device, description].join(" ")];
  }
  const others = targets.filter((target) => target !== "webgpu");
  if (!others.length) throw new Error('this browser offers no GPU; use the target "wasm"');
  return [others, ""];
}

/** The path of a file of external data, and its bytes. */
async function fileOf(each, signal) {
  const { path, data } = typeof each === "string" ? { path: each, data: each } : each;
  if (typeof data !== "string") return [path, await bytesOf(data, () => {})];
  const response = await fetch(data, { signal }).catch(lost(data));
  if (!response.ok) throw new Error(`${data}: the server answers ${response.status} ${response.statusText}`);
  return [path, await response.arrayBuffer().catch(lost(data))];
}

/** The bytes of a File, a Blob or an array, which stays as it is. */
async function bytesOf(source, tell) {
  if (source instanceof Blob) return collected(source.stream(), source.size, tell);
  if (source instanceof ArrayBuffer) return source.slice();
  if (ArrayBuffer.isView(source)) return source.buffer.slice(source.byteOffset, source.byteOffset + source.byteLength);
  throw new TypeError("compile takes an address, a File, a Blob or bytes");
}

/** All that a stream gives, in place if it is as long as it says. */
async function collected(stream, length, tell, lost) {
  let bytes = new Uint8Array(length);
  let loaded = 0;
  for (let reader = stream.getReader(); ; ) {
    const { value, done } = await reader.read().catch(lost);
    if (done) break;
    if (loaded + value.length > bytes.length) {
      const larger = new Uint8Array(Math.max(2 * bytes.length, loaded + value.length));
      larger.set(bytes.subarray(0, loaded));
      bytes = larger;
    }
    bytes.set(value, loaded);
    loaded += value.length;
    tell("model", loaded, length);
  }
  return loaded === bytes.length ? bytes.buffer : bytes.buffer.slice(0, loaded);
}
