/**
 * A loader for webpack, whose options are those of compiler.js:
 *
 *     module: { rules: [{ test: /\.onnx$/, type: "asset/resource", loader: "sardonyx/webpack", options: { sizes: { batch: 1 } } }] }
 *
 * Then `import url from "./net.onnx"` and `new URL("./net.onnx", import.meta.url)` give the address of the bundle.
 */

import { readFile } from "node:fs/promises";
import { compiled } from "./compiler.js";

export const raw = true;

export default async function load() {
  return readFile(await compiled(this.resourcePath, this.getOptions()));
}
