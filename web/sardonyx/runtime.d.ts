/**
 * Runs compiled models in a page, without Python.
 *
 *     import { load, Tensor } from "./sardonyx/runtime.js";
 *     const session = await load("model.sdx", { progress: ({ loaded, total }) => ... });
 *     const { probabilities } = await session.run({ image: new Tensor("float32", pixels, [1, 1, 28, 28]) });
 *     session.release();
 */

export type Data =
  | Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array | string[];

export interface TensorLike {
  type: string;
  data: Data;
  dims: readonly number[];
}

/**
 * An array with its type and shape.
 *
 *     new Tensor("float32", [1, 2, 3, 4], [2, 2])
 *
 * `data` is a typed array, or any array of numbers (bigints for int64 and uint64, strings for string).
 */
export class Tensor implements TensorLike {
  constructor(type: string, data: ArrayLike<number> | ArrayLike<bigint> | readonly string[], dims?: readonly number[]);
  readonly type: string;
  readonly data: Data;
  readonly dims: readonly number[];
}

export interface Port {
  name: string;
  type?: string;
  /** A size that is open is a name or null. */
  dims?: (number | string | null)[];
}

export interface Session {
  readonly target: Target;
  readonly inputs: Port[];
  readonly outputs: Port[];
  /** How many threads a run has by now. */
  readonly threads: number;
  /** Bytes of WebAssembly's memory. */
  readonly memory: number;
  /** The outputs by name for tensors by input name; runs one after another. */
  run(feeds: Record<string, TensorLike>, names?: string[]): Promise<Record<string, Tensor>>;
  /** Keys and values that stay on the device, of a bundle that was compiled with `--caches`. */
  caches(batch?: number): Promise<Conversation>;
  /** Give all back, after the runs asked for. */
  release(): Promise<void>;
}

export interface Conversation {
  /** How many tokens there are; fewer are the first of them. */
  length: number;
  /** The outputs of these names for what is fed beside keys and values, which have `count` tokens more then. */
  run(feeds: Record<string, TensorLike>, names: string[], count: number): Promise<Record<string, Tensor>>;
  release(): Promise<void>;
}

export type Target = "wasm" | "webgpu";

/** What is heard of progress: in bytes, but for "compile", which is 0 or 1 of 1; a total that is not known is 0. */
export interface Progress {
  stage: "pyodide" | "model" | "compile" | "weights";
  loaded: number;
  total: number;
}

/** Those of `fetch`, too. */
export interface LoadOptions extends Omit<RequestInit, "signal"> {
  target?: Target | Target[];
  threads?: number;
  worker?: boolean;
  progress?: (progress: Progress) => void;
  signal?: AbortSignal;
  /** What errors call the bundle. */
  name?: string;
}

export type Source = string | URL | Request | Response | Blob | ReadableStream<Uint8Array> | ArrayBuffer | ArrayBufferView;

/**
 * A session for a bundle: what `fetch` takes, a Response, a Blob, a stream or bytes, or a list of its parts.
 *
 * `target` is "wasm" or "webgpu", or both in the order in which they are wanted; without it the bundle's order counts.
 * `threads` is how many, for "wasm" in a page that is cross-origin isolated. `worker` says whether "wasm" runs in a
 * worker, as it does if a page's own thread loads it, or on this thread. `progress({ stage, loaded, total })` hears of
 * bytes, of "weights", `total` being 0 if nobody says. `signal` ends the loading; `fetch` gets it, `integrity`,
 * `headers` and the like. `name` is what errors call the bundle, if not by its address. `device` is a GPUDevice for this
 * session alone.
 */
export function load(source: Source | Source[], options?: LoadOptions): Promise<Session>;
