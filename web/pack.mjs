// node pack.mjs FOLDER TOOLS
// Packs the page runtime for npm into FOLDER. TOOLS is a folder with esbuild and onnxruntime-common in its node_modules.
//
// What has onnxruntime-common in it is made here: `sardonyx.min.js` for script tags, which sets the global `ort`, and the
// module `sardonyx.min.mjs`; so is `sardonyx.cjs` for `require`. They lie beside the workers' scripts, and find them there.
// The worker's script has its modules in it, since a page without a bundler would fetch each of them.
//
// Apps copy onnxruntime-web's engine from `dist`, or import it to tell `env.wasm.wasmPaths` its address: there an empty
// one is, under each of its names, so that they build as they are.
import { execFileSync } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ENGINES = ["", ".jsep", ".jspi", ".asyncify"];
const EMPTY = { wasm: Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0), mjs: "export {};\n" };
const HERE = fileURLToPath(new URL("./sardonyx/", import.meta.url));
const [folder, tools] = process.argv.slice(2).map((path) => resolve(path));
const { build } = createRequire(join(tools, "package.json"))("esbuild");

const draft = await mkdtemp(join(tmpdir(), "sardonyx-"));
try {
  const place = join(draft, "package");
  await cp(HERE, place, { recursive: true });
  const options = { bundle: true, nodePaths: [join(tools, "node_modules")], logLevel: "warning" };
  const index = { ...options, entryPoints: [join(place, "ort/index.js")] };
  const elsewhere = { ...index, define: { "import.meta.url": "SARDONYX_PLACE" } };
  await build({ ...index, outfile: join(place, "sardonyx.min.mjs"), format: "esm", minify: true });
  await build({
    ...elsewhere,
    outfile: join(place, "sardonyx.min.js"),
    format: "iife",
    globalName: "ort",
    minify: true,
    banner: { js: "var SARDONYX_PLACE = globalThis.document?.currentScript?.src ?? globalThis.location?.href;" },
    footer: { js: 'globalThis[Symbol.for("onnxruntime")] ??= ort;' },
  });
  await build({
    ...elsewhere,
    outfile: join(place, "sardonyx.cjs"),
    format: "cjs",
    platform: "node",
    minify: true,
    external: ["onnxruntime-common"],
    banner: { js: 'const SARDONYX_PLACE = require("node:url").pathToFileURL(__filename).href;' },
  });
  const host = join(place, "host.js");
  await build({ ...options, entryPoints: [host], outfile: host, allowOverwrite: true, format: "esm", minify: true });
  await cp(join(place, "ort/index.d.ts"), join(place, "ort/index.d.cts")); // for CommonJS in TypeScript
  await mkdir(join(place, "dist"));
  for (const engine of ENGINES) {
    for (const kind in EMPTY) await writeFile(join(place, "dist", `ort-wasm-simd-threaded${engine}.${kind}`), EMPTY[kind]);
  }
  execFileSync("npm", ["pack", "--silent", "--pack-destination", folder, place], { stdio: ["ignore", "ignore", "inherit"] });
} finally {
  await rm(draft, { recursive: true });
}
