/**
 * Models of one node without weights, which packages carry as bytes and have no bundle for: transformers.js resizes
 * pictures, takes spectra and finds the likeliest tokens so. They run on the thread that calls, in JavaScript.
 */

import { OPERATORS } from "./operators.js";

const TYPES = { 1: "float32", 7: "int64" };
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
  if (!known || [...taken, ...given].some(({ type }) => !type)) return null;
  if (Object.keys(attributes).some((name) => !known.takes.includes(name))) return null;
  return new Small(known.run, attributes, [taken, given], [all(node, 1), all(node, 2)].map((names) => names.map(text)));
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

function port(bytes) {
  const [tensor] = all(all(bytes, 2)[0] ?? [], 1);
  const [type] = all(tensor ?? [], 1);
  const [shape] = all(tensor ?? [], 2);
  const size = (dim) => Number(all(dim, 1)[0] ?? 0) || (all(dim, 2).map(text)[0] ?? null);
  return { name: text(all(bytes, 1)[0]), type: TYPES[type], dims: shape && all(shape, 1).map(size) };
}

/** The name of an attribute, and its number or text. */
function attribute(bytes) {
  const [[number], [string]] = [all(bytes, 3), all(bytes, 4)];
  return [text(all(bytes, 1)[0]), number === undefined ? text(string ?? []) : Number(BigInt.asIntN(64, number))];
}

const text = (bytes) => new TextDecoder().decode(Uint8Array.from(bytes));

/** What a message of protocol buffers has in a field. */
const all = (bytes, field) => [...fields(bytes)].filter(([number]) => number === field).map(([, value]) => value);

/** The fields of a message, in order: integers as BigInt, all else as bytes. */
function* fields(bytes) {
  let at = 0;
  const integer = () => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = bytes[at++] ?? 0;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(integer());
    const kind = key & 7;
    if (!kind) yield [key >> 3, integer()];
    else {
      const size = kind === 2 ? Number(integer()) : kind === 5 ? 4 : 8;
      yield [key >> 3, bytes.subarray(at, (at += size))];
    }
  }
}
