/**
 * What an ONNX file says of itself, read in the page before anything is compiled: a reader of the few fields that a
 * person asks for, and of those that tell what cannot run here.
 */

import { entries, merged, message, numbers, text } from "./protobuf.js";

const TYPES = [
  null, "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64", "uint32",
  "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",
  "int4", "float4e2m1", "float8e8m0", "uint2", "int2", "float6e2m3", "float6e3m2",
];
const OTHERS = [[4, "sequence"], [5, "map"], [9, "optional"], [8, "sparse tensor"]];
const PASSING = new Set(["Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"]); // values stay what they are

/**
 * `{ name, producer, opsets, inputs, outputs, nodes, operators, parameters, used, files, makers, metadata }`: ports are
 * `{ name, type, dims }` as a session has them, operators `[name, count]`, the most frequent first. `used` has a list of
 * node names for each operator that is no function of the model, `files` are those with weights that lie elsewhere,
 * `makers` the operators whose results the outputs are. Throws a RangeError where bytes are no model.
 */
export function outline(bytes) {
  const model = message(bytes);
  const graph = merged(model(7));
  if (!graph) throw new RangeError("no graph is in it");
  const functions = new Map(model(25).map(message).map((each) => [title(each(1), each(10)), each]));
  const survey = new Survey(functions).graph(graph);
  const counts = [...survey.used].map(([key, names]) => [key, names.length]);
  const parameters = survey.sizes.reduce((sum, each) => sum + each, 0);
  for (const key of survey.called) survey.nodes(functions.get(key)(7)); // which may call more
  const initializers = new Set(graph(5).map((tensor) => text(message(tensor)(8)[0])));
  const opsets = model(8).map(message).map((each) => [text(each(1)[0]) || "ai.onnx", each(2)[0] ?? 0]);
  return {
    name: text(graph(2)[0]),
    producer: [...model(2), ...model(3)].map(text).join(" "),
    opsets,
    inputs: graph(11).map(port).filter(({ name }) => !initializers.has(name)),
    outputs: graph(12).map(port),
    nodes: counts.reduce((sum, [, count]) => sum + count, 0),
    operators: counts.sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)),
    parameters,
    used: [...survey.used].filter(([key]) => !functions.has(key)),
    files: [...survey.files],
    makers: makersOf(graph),
    metadata: entries(model(14)),
  };
}

/** What is in graphs, those inside them too. */
class Survey {
  constructor(functions) {
    this.functions = functions;
    this.used = new Map();
    this.sizes = [];
    this.files = new Set();
    this.called = new Set();
  }

  graph(graph) {
    graph(5).forEach((tensor) => this.tensor(message(tensor)));
    return this.nodes(graph(1));
  }

  nodes(list) {
    for (const node of list.map(message)) {
      const key = title(node(4), node(7));
      if (!this.used.has(key)) this.used.set(key, []);
      this.used.get(key).push(text(node(3)[0]) || text(node(2)[0]));
      if (this.functions.has(key)) this.called.add(key);
      for (const attribute of node(5).map(message)) {
        if (key === "Constant") attribute(5).forEach((tensor) => this.tensor(message(tensor)));
        for (const inner of [...attribute(6), ...attribute(11)]) this.graph(message(inner));
      }
    }
    return this;
  }

  tensor(tensor) {
    this.sizes.push(numbers(tensor(1)).reduce((a, b) => a * b, 1));
    if (tensor(14)[0] === 1) this.files.add(entries(tensor(13)).location ?? "?");
  }
}

/** An operator's name with its domain, ONNX's own left out. */
function title([name], [domain]) {
  const place = text(domain);
  return !place || place === "ai.onnx" ? text(name) : `${place}.${text(name)}`;
}

/** The operator that makes each output, `{ output: name }`; operators that only pass values on are not asked. */
function makersOf(graph) {
  const makers = new Map();
  for (const node of graph(1).map(message)) node(2).forEach((output) => makers.set(text(output), node));
  const made = (name) => {
    const node = makers.get(name);
    makers.delete(name); // a circle ends
    const key = node && title(node(4), node(7));
    return PASSING.has(key) && node(1).length ? made(text(node(1)[0])) : key;
  };
  return Object.fromEntries(graph(12).map(message).map((each) => text(each(1)[0])).map((name) => [name, made(name)]));
}

function port(bytes) {
  const value = message(bytes);
  const name = text(value(1)[0]);
  const type = merged(value(2)) ?? message(new Uint8Array());
  const [, other] = OTHERS.find(([number]) => type(number).length) ?? [];
  if (other) return { name, type: other, dims: null };
  const tensor = merged(type(1)) ?? message(new Uint8Array());
  const [shape] = tensor(2);
  const dims = shape && message(shape)(1).map(message).map(sizeOrName);
  return { name, type: TYPES[tensor(1)[0]] ?? "?", dims: dims ?? null };
}

/** A size, the name of one that is open, or null: exporters write -1 and "?" for what has no name. */
function sizeOrName(dim) {
  const [size] = dim(1);
  if (size >= 0) return size;
  const name = text(dim(2)[0]);
  return /\w/.test(name) ? name : null;
}
