/**
 * Sardonyx under onnxruntime-web's interface: pages written for that run on this by a changed name.
 *
 *     <script type="importmap">
 *       { "imports": { "onnxruntime-common": "...", "onnxruntime-web": "./sardonyx/ort/index.js" } }
 *     </script>
 *
 * `Tensor`, `InferenceSession` and `env` are those of `onnxruntime-common`, which a page has once: packages ask whether
 * a tensor is an instance of its class. What runs sessions is registered there. `env.sardonyx` has `bundles` and
 * `compile`: see `source.js`.
 */

import { env, registerBackend } from "onnxruntime-common";
import { backend } from "./backend.js";
import { extend } from "./environment.js";

export * from "onnxruntime-common";
export { default } from "./common.js";

const PRIORITY = 20; // above onnxruntime-web's own, should it be there

for (const name of ["webgpu", "cpu", "wasm"]) registerBackend(name, backend, PRIORITY); // the last one is the default
env.sardonyx ??= {};
extend((env.webgpu ??= {})); // onnxruntime-common 1.14 has none
