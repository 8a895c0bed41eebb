/**
 * Runs compiled models in a page, without Python.
 *
 *     import { load, Tensor } from "./sardonyx/runtime.js";
 *     const session = await load("model.sdx", { progress: ({ loaded, total }) => ... });
 *     const { probabilities } = await session.run({ image: new Tensor("float32", pixels, [1, 1, 28, 28]) });
 *     session.release();
 */

import { Bundle } from "./bundle.js";
import { Host } from "./remote.js";
import { Tensor } from "./types.js";
import { WasmDevice } from "./wasm.js";
import { WebGpuDevice } from "./webgpu.js";
import { on } from "./session.js";
import { threadsFor } from "./crew.js";

export { Tensor };

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
export async function load(source, { target, threads, worker = isPage, device, ...options } = {}) {
  const isSure = target === "wasm" || !globalThis.navigator?.gpu;
  const early = worker && isSure ? Host.take() : null; // starts while the bundle comes
  try {
    const bundle = await Bundle.open(source, { downloads, ...options });
    try {
      return await opened(bundle, target, threadsFor(threads), worker, device);
    } catch (error) {
      bundle.stream.close();
      throw error;
    }
  } finally {
    early?.leave();
  }
}

const isPage = Boolean(globalThis.document);
const downloads = () => import("./downloads.js"); // here, since workers that Vite builds have no such

/** The session on the first device that there is. */
async function opened(bundle, target, threads, worker, gpu) {
  const { manifest, name } = bundle;
  const wanted = target ? [target].flat() : Object.keys(manifest.targets);
  const reasons = [];
  for (const each of wanted) {
    const told = manifest.targets[each];
    if (!told) reasons.push(`${name} has no code for ${each}, only for ${Object.keys(manifest.targets).join(" and ")}`);
    else if (each === "wasm") {
      const remote = worker && (await Host.load(bundle, threads));
      return remote || on(new WasmDevice(told, { threads }), bundle, each);
    } else {
      const device = await WebGpuDevice.open(told, gpu).catch((error) => reasons.push(error.message));
      if (device instanceof WebGpuDevice) return on(device, bundle, each);
    }
  }
  throw new Error(reasons.join("; "));
}
