/** Runs compiled models in a page, without Python; runtime.d.ts tells how to use it. */

import { Bundle } from "./bundle.js";
import { Host } from "./remote.js";
import { Tensor } from "./types.js";
import { WasmDevice } from "./wasm.js";
import { WebGpuDevice } from "./webgpu.js";
import { on } from "./session.js";
import { threadsFor } from "./crew.js";

export { Tensor };

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
