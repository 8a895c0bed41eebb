/**
 * Compiles models for bundlers, by the Python program, and keeps what was made: a bundle lies at
 * `node_modules/.cache/sardonyx/DIGEST/net.onnx`, under the model's name, as what serves it may call it so.
 *
 * Options, an object or a function that gives one for a model's path:
 * `target` is "wasm" (the default) or "webgpu", or a list of both; `sizes` are those of named dimensions,
 * `{ batch: 1, sequence: "?16" }`; `weights` is "float16" or "int8"; `command` is the program, "sardonyx" or a list of words;
 * `cache` is another folder to keep bundles in.
 */

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, mkdir, readFile, rename } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

/** Where bundles are kept, in the folder where a build starts. */
export const CACHE = "node_modules/.cache/sardonyx";
const INSTALL = "install the Python package sardonyx (Python 3.11 or later), or name its program: { command: \".venv/bin/sardonyx\" }";

const running = new Map(); // by where the bundle will lie
const releases = new Map(); // by command

/** The path of the bundle of a model, which is made if it is not there yet. */
export async function compiled(model, options = {}) {
  const { target = "wasm", sizes = {}, weights, command = "sardonyx", cache = CACHE } = typeof options === "function" ? options(model) : options;
  const words = [command].flat();
  const sized = Object.entries(sizes).map((pair) => pair.join("="));
  const how = ["--target", [target].flat().join(), ...sized.flatMap((size) => ["--size", size]), ...(weights ? ["--weights", weights] : [])];
  const key = [await readFile(model), await releaseOf(words), JSON.stringify(how)];
  const digest = key.reduce((hash, part) => hash.update(part), createHash("sha256")).digest("hex").slice(0, 32);
  const bundle = resolve(cache, digest, basename(model));
  if (!running.has(bundle)) running.set(bundle, made(words, model, bundle, how).finally(() => running.delete(bundle)));
  return running.get(bundle);
}

async function made(words, model, bundle, how) {
  if (await access(bundle).then(() => true, () => false)) return bundle;
  await mkdir(join(bundle, ".."), { recursive: true });
  const draft = `${bundle}.${process.pid}.sdx`;
  await called(words, ["compile", model, "--output", draft, ...how]).catch((error) => {
    throw new Error(`${model} cannot be compiled: ${error.message}`);
  });
  await rename(draft, bundle);
  return bundle;
}

function releaseOf(words) {
  const name = words.join(" ");
  if (!releases.has(name)) releases.set(name, called(words, ["--version"]));
  return releases.get(name);
}

/** What the program prints; an Error with what it complains of. */
function called([program, ...words], more) {
  return new Promise((done, fail) => {
    execFile(program, [...words, ...more], { maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      if (error?.code === "ENOENT") fail(new Error(`there is no program ${program}: ${INSTALL}`));
      else if (error) fail(new Error(stderr.trim().replace(/^sardonyx: /, "") || error.message));
      else done(stdout);
    });
  });
}
