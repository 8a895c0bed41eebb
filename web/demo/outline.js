/**
 * What an ONNX file says of itself, read in the page before anything is compiled: a reader of the few fields that a
 * person asks for. It judges nothing: what is wrong with a model, the engine says.
 */

const TYPES = [
  null, "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64", "uint32",
  "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",
  "int4", "float4e2m1",
];
const text = (bytes = new Uint8Array()) => new TextDecoder().decode(bytes);

/** The fields of a message, `[number, value]`: a number, or bytes; throws where it is none. */
function* fields(bytes) {
  let position = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (position >= bytes.length || shift > 63n) throw new RangeError("this is no message");
      const byte = bytes[position++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  };
  while (position < bytes.length) {
    const key = varint();
    const wire = key & 7;
    const length = wire === 0 ? 0 : wire === 1 ? 8 : wire === 5 ? 4 : wire === 2 ? varint() : NaN;
    if (wire === 0) yield [key >> 3, varint()];
    else {
      if (!(length >= 0 && position + length <= bytes.length)) throw new RangeError("this is no message");
      position += length;
      yield [key >> 3, bytes.subarray(position - length, position)];
    }
  }
}

/** The fields of a message by number, each a list. */
function message(bytes) {
  const found = {};
  for (const [number, value] of fields(bytes)) (found[number] ??= []).push(value);
  return (number) => found[number] ?? [];
}

/** Numbers that may be packed. */
const numbers = (values) => values.flatMap((value) => (typeof value === "number" ? [value] : packed(value)));

function packed(bytes) {
  const found = [];
  let [value, scale] = [0, 1];
  for (const byte of bytes) {
    value += (byte & 127) * scale;
    scale *= 128;
    if (byte < 128) {
      found.push(value);
      [value, scale] = [0, 1];
    }
  }
  return found;
}

/**
 * `{ name, producer, opsets, inputs, outputs, nodes, operators, parameters }`, ports being `{ name, type, dims }` as a
 * session has them, and operators `[name, count]`, the most frequent first. Throws where bytes are no model.
 */
export function outline(bytes) {
  const model = message(bytes);
  const [body] = model(7);
  if (!body || typeof body === "number") throw new RangeError("there is no graph");
  const graph = message(body);
  const counts = new Map();
  const constants = collect(graph, counts);
  const initializers = new Set(graph(5).map((tensor) => text(message(tensor)(8)[0])));
  const opsets = model(8).map((each) => message(each)).map((each) => `${text(each(1)[0]) || "ai.onnx"} ${each(2)[0]}`);
  return {
    name: text(graph(2)[0]),
    producer: [...model(2), ...model(3)].map(text).join(" "),
    opsets,
    inputs: graph(11).map(port).filter(({ name }) => !initializers.has(name)),
    outputs: graph(12).map(port),
    nodes: [...counts.values()].reduce((a, b) => a + b, 0),
    operators: [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)),
    parameters: constants.reduce((sum, each) => sum + each, 0),
  };
}

/** Count operators, those of inner graphs too; gives the numbers of elements of constants. */
function collect(graph, counts) {
  const sizes = graph(5).map(sizeOf);
  for (const node of graph(1).map(message)) {
    const [operator, domain] = [4, 7].map((number) => text(node(number)[0]));
    const title = !domain || domain === "ai.onnx" ? operator : `${domain}.${operator}`;
    counts.set(title, (counts.get(title) ?? 0) + 1);
    for (const attribute of node(5).map(message)) {
      if (operator === "Constant") sizes.push(...attribute(5).map(sizeOf));
      for (const inner of [...attribute(6), ...attribute(11)]) sizes.push(...collect(message(inner), counts));
    }
  }
  return sizes;
}

const sizeOf = (tensor) => numbers(message(tensor)(1)).reduce((a, b) => a * b, 1);

function port(bytes) {
  const value = message(bytes);
  const name = text(value(1)[0]);
  const type = message(value(2)[0] ?? new Uint8Array());
  const [, other] = [[4, "sequence"], [5, "map"], [9, "optional"], [8, "sparse tensor"]].find(([k]) => type(k).length) ?? [];
  if (other) return { name, type: other, dims: null };
  const tensor = message(type(1)[0] ?? new Uint8Array());
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
