/**
 * Models of one node without weights, which packages carry as bytes and have no bundle for: transformers.js resizes
 * pictures, takes spectra and finds the likeliest tokens so. They run on the thread that calls, in JavaScript.
 */

import { OPERATORS } from "./operators.js";
import { all, port, text } from "./protobuf.js";

const TYPES = ["float32", "int64"];
const [NODE, INITIALIZER, INPUT, OUTPUT] = [1, 5, 11, 12]; // of a graph

/** A session for the bytes of such a model; null where they are another. */
export function sessionOf(bytes) {
  const graphs = all(bytes, 7);
  const [nodes, weights, inputs, outputs] = [NODE, INITIALIZER, INPUT, OUTPUT].map((field) => all(graphs[0] ?? [], field));
  if (graphs.length !== 1 || nodes.length !== 1 || weights.length) return null;
  const [node] = nodes;
  const [operator] = all(node, 4).map(text);
  const attributes = Object.fromEntries(all(node, 5).map(attribute));
  const known = all(node, 7).some(({ length }) => length) ? null : OPERATORS[operator];
  const [taken, given] = [inputs, outputs].map((each) => each.map(port));
  const names = all(node, 1).map(text);
  if (!known || [...taken, ...given].some(({ type }) => !TYPES.includes(type))) return null;
  if (taken.find(({ name }) => name === names[0])?.type !== "float32" || (known.wants && !names[known.wants])) return null;
  if (known.since > versionOf(bytes)) return null;
  if (Object.keys(attributes).some((name) => !known.takes.includes(name))) return null;
  return new Small(known.run, attributes, [taken, given], [names, all(node, 2).map(text)]);
}

/** What `load` gives, as far as a handler of onnxruntime's interface needs it. */
class Small {
  target = "wasm";

  constructor(compute, attributes, [inputs, outputs], [taken, given]) {
    Object.assign(this, { compute, attributes, inputs, outputs, taken, given });
  }

  async run(feeds) {
    for (const { name, type } of this.inputs) {
      if (feeds[name]?.type !== type) throw new Error(`input ${JSON.stringify(name)} wants ${type}, not ${feeds[name]?.type}`);
    }
    const results = this.compute(this.taken.map((name) => feeds[name]), this.attributes);
    return Object.fromEntries(this.given.map((name, k) => [name, results[k]]));
  }

  release() {}
}

/** The operator set of ONNX in which a model is written. */
const versionOf = (bytes) => Number(all(bytes, 8).map((each) => all(each, 2)[0])[0] ?? 1);

/** The name of an attribute, and its number or text. */
function attribute(bytes) {
  const [[number], [string]] = [all(bytes, 3), all(bytes, 4)];
  return [text(all(bytes, 1)[0]), number === undefined ? text(string ?? []) : Number(BigInt.asIntN(64, number))];
}
