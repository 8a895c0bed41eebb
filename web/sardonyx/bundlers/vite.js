/**
 * A plugin for Vite, whose options are those of compiler.js:
 *
 *     import sardonyx from "sardonyx/vite";
 *     export default { plugins: [sardonyx({ sizes: { batch: 1 } })] };
 *
 * `import url from "./net.onnx?url"` and `new URL("./net.onnx", import.meta.url)` give the address of its bundle, and in
 * place of each model of the public folder its bundle is served, and built.
 */

import { createReadStream } from "node:fs";
import { access, copyFile, readdir, stat } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { CACHE, compiled } from "./compiler.js";

const NAMES = ["sardonyx", "onnxruntime-web"]; // what the package may be called
const MODEL = /\.onnx(\?url)?$/;
const COMPONENT = /\.(vue|svelte)$/; // files in which code stands in a script
const ADDRESS = /new URL\(\s*(["'`])(\.{1,2}\/[^"'`]+\.onnx)\1\s*,\s*import\.meta\.url\s*\)/g;

export default function sardonyx(options = {}) {
  let config;
  const told = (file) => ({ cache: join(config.root, CACHE), ...(typeof options === "function" ? options(file) : options) });
  return {
    name: "sardonyx",
    enforce: "pre",
    // workers lie beside the scripts that start them, so the server must leave those where they are
    config: () => ({ assetsInclude: ["**/*.onnx"], optimizeDeps: { exclude: NAMES } }),
    configResolved: (resolved) => void (config = resolved),

    async resolveId(source, importer) {
      if (!MODEL.test(source)) return null;
      const found = await this.resolve(source, importer, { skipSelf: true });
      const file = found?.id.split("?")[0];
      return file && (await isThere(file)) ? `${await compiled(file, told)}?url` : null;
    },

    /** Addresses of models become imports, on the first line of the code, so that the others keep their numbers. */
    transform(code, id) {
      const imports = [];
      const changed = code.replace(ADDRESS, (_, quote, path) => {
        const name = `sardonyx_model_${imports.length}`;
        imports.push(`import ${name} from ${JSON.stringify(`${path}?url`)};`);
        return `new URL(${name}, import.meta.url)`;
      });
      if (!imports.length) return null;
      const script = COMPONENT.test(id) ? code.lastIndexOf("<script", code.search(ADDRESS)) : -1;
      const start = script < 0 ? 0 : code.indexOf(">", script) + 1;
      return { code: changed.slice(0, start) + imports.join("") + changed.slice(start), map: null };
    },

    configureServer({ middlewares, watcher, moduleGraph, ws }) {
      watcher.on("change", (file) => {
        if (!MODEL.test(file)) return;
        moduleGraph.invalidateAll();
        ws.send({ type: "full-reload" });
      });
      middlewares.use(async (request, response, next) => {
        const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
        const file = config.publicDir && resolve(config.publicDir, `.${path.replace(config.base, "/")}`);
        if (!file || !path.endsWith(".onnx") || relative(config.publicDir, file).startsWith("..") || !(await isThere(file))) return next();
        try {
          const bundle = await compiled(file, told);
          response.setHeader("Content-Type", "application/octet-stream");
          response.setHeader("Content-Length", (await stat(bundle)).size);
          response.setHeader("Cache-Control", "no-cache");
          createReadStream(bundle).pipe(response);
        } catch (error) {
          next(error);
        }
      });
    },

    async closeBundle() {
      if (config.command !== "build" || !config.publicDir || !config.build.copyPublicDir) return;
      const files = await readdir(config.publicDir, { recursive: true }).catch(() => []);
      for (const file of files.filter((name) => name.endsWith(".onnx"))) {
        await copyFile(await compiled(join(config.publicDir, file), told), resolve(config.root, config.build.outDir, file));
      }
    },
  };
}

const isThere = (file) => access(file).then(() => true, () => false);
