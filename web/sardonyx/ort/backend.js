/** What `onnxruntime-common` makes sessions with. */

import { env } from "onnxruntime-common";
import { load } from "../runtime.js";
import { Handler } from "./handler.js";
import { bundleOf } from "./source.js";

const LIGHT = 1 << 22; // bytes of a bundle whose runs are short: messages to a worker would take as long
const TARGETS = { webgpu: "webgpu", wasm: "wasm", cpu: "wasm" };

export const backend = {
  /** Raises an Error where a provider does not work here. */
  async init(name) {
    if (name === "webgpu" && !(await globalThis.navigator?.gpu?.requestAdapter())) throw new Error("this browser offers no GPU");
  },

  /** A session for a model's address, or its bytes, on the first of the providers that it has code for. */
  async createInferenceSessionHandler(given, options) {
    const wanted = targetsOf(options.executionProviders ?? []);
    const { signal, progress, worker: told } = options.extra ?? {};
    const name = typeof given === "string" ? given : "the model";
    const target = [...new Set([...wanted, "wasm", "webgpu"])];
    const { device } = options.executionProviders?.find((each) => each.name === "webgpu") ?? {};
    const threads = env.wasm.numThreads || undefined;
    const loaded = (source) => {
      const size = source.headers?.get("content-length") ?? source.byteLength;
      const worker = told ?? (size < LIGHT && !env.wasm.proxy ? false : undefined);
      return load(source, { target, name, device, threads, worker, signal, progress });
    };
    const source = await bundleOf(given, { target: wanted, externalData: options.externalData, signal, progress, load: loaded });
    if (source.run) return new Handler(source, options);
    const session = await loaded(source);
    if (!wanted.includes(session.target)) {
      console.warn(`${name} runs on ${session.target}, the only one it has code for; compile it with --target ${wanted}`);
    }
    return new Handler(session, options);
  },

  /** The same, as `onnxruntime-common` calls it up to 1.16. */
  createSessionHandler: (given, options) => backend.createInferenceSessionHandler(given, options),
};

/** What bundles call the providers that were asked for, each once; "wasm" where none was. */
function targetsOf(providers) {
  const names = providers.map((each) => (typeof each === "string" ? each : each.name));
  const found = names.map((name) => TARGETS[name]).filter(Boolean);
  return found.length ? [...new Set(found)] : ["wasm"];
}
