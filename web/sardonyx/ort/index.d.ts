/** Sardonyx under onnxruntime-web's interface. */

import * as common from "onnxruntime-common";

export * from "onnxruntime-common";
export default common;

declare module "onnxruntime-common" {
  interface Env {
    sardonyx: {
      /** Bundles by the SHA-256 of their models, or the address of the index that `sardonyx compile --site` writes. */
      bundles?: Record<string, string> | string | URL;
      /** Whether the page may compile what has no bundle, for which it fetches 10 MB of Python. */
      compile?: "page";
    };
  }
}
