/**
 * Where the code of a model comes from, in this order: the bytes are a bundle, whatever they are called; a bundle lies
 * beside the model, `model.onnx.sdx`, with the same query; `env.sardonyx.bundles` names one by the model's SHA-256;
 * bytes of a single node are run by `small.js`; the page compiles it, if `env.sardonyx.compile` is "page", or will do so
 * when runs begin (`deferred.js`).
 */

import { env } from "onnxruntime-common";
import { digestOf } from "../digest.js";
import { isAddress, lost } from "../bundle.js";

const ALONE = /^(blob|data):/i; // addresses with nothing beside them
const SCHEME = /^[a-z][a-z0-9+.-]+:/i;
const files = globalThis.process?.getBuiltinModule?.("node:fs"); // asked for so, no bundler looks for it
const SMALL = 1000; // bytes
const MAGIC = [0x89, 0x53, 0x44, 0x58, 0x0d, 0x0a, 0x1a, 0x0a];

/**
 * A bundle for a model's address or its bytes, as `load` takes it, or a session. `options` are those that the page would
 * compile with; its `signal` ends everything, and its `load` makes sessions of bundles.
 */
export async function bundleOf(given, options) {
  if (typeof given !== "string") return isBundle(given) ? given : listed(given, "the model", options);
  const response = await fetched(given, options);
  if (isBundle(await headOf(response.clone().body, MAGIC.length))) return response;
  response.body.cancel().catch(() => {});
  if (isHtml(response)) throw new Error(`${given} is HTML: is its address right?`);
  if (ALONE.test(given)) return listed(null, given, options);
  const address = isPath(given) ? `${given}.sdx` : given.replace(/[?#].*|$/, ".sdx$&");
  const beside = await answered(address, options);
  if (beside.status >= 500) throw refused(address, beside);
  return beside.ok && !isHtml(beside) ? beside : listed(null, given, options);
}

const isBundle = (bytes) => MAGIC.every((byte, k) => bytes[k] === byte);

/** What the page was told of a model, whose bytes are fetched only if that matters. */
async function listed(bytes, name, options) {
  const { bundles, compile } = env.sardonyx;
  if (bundles && !crypto.subtle) throw new Error("env.sardonyx.bundles needs crypto.subtle: serve the page by HTTPS, or from localhost");
  const model = bytes ?? ((bundles || compile === "page") && new Uint8Array(await (await fetched(name, options)).arrayBuffer()));
  const address = bundles && (await indexed(bundles, await digestOf(model)));
  if (address) return fetched(address, options);
  const small = bytes?.length < SMALL && (await import("./small.js")).sessionOf(bytes);
  if (small) return small;
  if (compile === "page") {
    const { sourceOf } = await import("./deferred.js");
    return sourceOf(model, options);
  }
  throw new Error(
    `${name} is no bundle, and none is known for it: serve what \`sardonyx compile\` makes in its place, or beside it as ` +
      `.onnx.sdx (\`sardonyx compile --site DIR\` does so); or set env.sardonyx.compile = "page", which fetches 10 MB of Python`,
  );
}

/** The address of the bundle for a digest: `bundles` says so itself, or is the address of what `--site` wrote. */
async function indexed(bundles, digest) {
  if (!isAddress(bundles)) return bundles[digest];
  const response = await fetched(bundles);
  const index = await response.json().catch(() => null);
  if (!index?.bundles) throw new Error(`${bundles} is no index of bundles: \`sardonyx compile --site DIR\` writes one, sardonyx.json`);
  const found = index.bundles[digest];
  return found && (isPath(bundles) ? bundles.replace(/[^/\\]*$/, found) : new URL(found, response.url).href);
}

/** In Node an address without a scheme is a path. */
const isPath = (address) => files && !SCHEME.test(address);

/** The answer to a request. */
async function answered(address, { signal }) {
  if (!isPath(address)) return fetch(address, { signal }).catch(lost(address));
  try {
    return new Response(await files.openAsBlob(address));
  } catch {
    return new Response(null, { status: 404 });
  }
}

async function fetched(address, options = {}) {
  const response = await answered(address, options);
  if (response.ok) return response;
  throw isPath(address) ? new Error(`${address}: there is no such file`) : refused(address, response);
}

/** Whether it is what servers of apps answer where no file is. */
const isHtml = ({ ok, headers }) => ok && headers.get("content-type")?.startsWith("text/html");

const refused = (address, { status, statusText }) => new Error(`${address}: the server answers ${status} ${statusText}`);

/** The first bytes of a stream, at least so many if there are; it ends. */
async function headOf(stream, count) {
  const reader = stream.getReader();
  const head = [];
  while (head.length < count) {
    const { value, done } = await reader.read();
    if (done) break;
    head.push(...value.subarray(0, count));
  }
  reader.cancel().catch(() => {});
  return head;
}
