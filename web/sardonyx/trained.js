/** Files of a trained model: a bundle, an .onnx file or parameters, from the bundle that it was trained by. */

import { Bundle, crc32 } from "./bundle.js";
import { bytesOf } from "./types.js";

const HEAD = 28;
const ALIGNMENT = 64;
const [GRAPH, METADATA] = [7, 14]; // fields of ModelProto, GraphProto and TensorProto
const INITIALIZER = 5;
const [DIMS, DATA_TYPE, NAME, RAW_DATA] = [1, 2, 8, 9];
const SAFETENSORS = { float32: "F32", float64: "F64", float16: "F16", bfloat16: "BF16" };

/** The bytes of a file of this format, of a bundle with these tensors for its parameters, and texts that are told of it. */
export function withParameters(format, bytes, bundle, tensors, metadata) {
  if (format === "safetensors") return safetensors(tensors, metadata);
  return format === "sdx" ? rewritten(bytes, bundle.manifest, tensors, metadata) : model(bytes, bundle, tensors, metadata);
}

/** https://huggingface.co/docs/safetensors: the length of a head in JSON, the head, and all tensors. */
function safetensors(tensors, metadata) {
  let end = 0;
  const entries = Object.entries(tensors).map(([name, { type, dims, data }]) => {
    const start = end;
    end += data.byteLength;
    return [name, { dtype: SAFETENSORS[type], shape: dims, data_offsets: [start, end] }];
  });
  const text = new TextEncoder().encode(JSON.stringify({ __metadata__: metadata, ...Object.fromEntries(entries) }));
  const head = new Uint8Array(8 * Math.ceil(text.length / 8)).fill(32); // spaces
  head.set(text);
  return joined([bytesOf(BigUint64Array.of(BigInt(head.length))), head, ...Object.values(tensors).map(({ data }) => bytesOf(data))]);
}

/** The bundle with other parameters, which can be trained further. */
async function rewritten(bytes, manifest, tensors, metadata) {
  const { parameters } = manifest.training;
  const given = new Map(Object.entries(tensors).map(([name, { data }]) => [parameters[name], bytesOf(data)]));
  const [stored] = new Uint32Array(bytes.slice(12, 16).buffer);
  let at = HEAD + stored;
  const contents = manifest.sections.map(([title, nbytes]) => {
    at += -at & (ALIGNMENT - 1);
    at += nbytes;
    return given.get(title) ?? bytes.subarray(at - nbytes, at);
  });
  const sections = manifest.sections.map((section) => {
    const data = given.get(section[0]);
    return data ? [section[0], data.length, crc32(data)] : section;
  });
  const [inputs, outputs, others, told] = manifest.model;
  const facts = [inputs, outputs, others, [...told.slice(0, -1), { ...told.at(-1), ...metadata }]];
  const text = new TextEncoder().encode(JSON.stringify({ ...manifest, model: facts, sections }));
  const small = await deflated(text);
  const head = new Uint32Array(HEAD / 4);
  bytesOf(head).set(bytes.subarray(0, 12));
  head.set([small.length, crc32(small), text.length], 3);
  head[6] = crc32(bytesOf(head).subarray(0, HEAD - 4));
  const parts = [bytesOf(head), small];
  let end = HEAD + small.length;
  for (const content of contents) {
    parts.push(new Uint8Array(-end & (ALIGNMENT - 1)), content);
    end += (-end & (ALIGNMENT - 1)) + content.length;
  }
  return joined(parts);
}

async function deflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The .onnx file: what the bundle has of it, with parameters and other constants as initializers. */
async function model(bytes, { name, manifest }, tensors, metadata) {
  const { sections, initializers } = manifest.training.file;
  const wanted = new Set([...sections, ...Object.values(initializers).map(([title]) => title)]);
  const found = new Map();
  for await (const { title, nbytes, into } of await Bundle.open(bytes, { name })) {
    if (!wanted.has(title)) continue;
    const data = new Uint8Array(nbytes);
    await into((piece, at) => data.set(piece, at));
    found.set(title, data);
  }
  const [rest, graph] = sections.map((title) => found.get(title));
  const added = Object.entries(initializers).flatMap(([name, [title, type, dims]]) =>
    field(INITIALIZER, [
      ...dims.flatMap((size) => [varint(DIMS << 3), varint(size)]),
      varint(DATA_TYPE << 3),
      varint(type),
      ...text(NAME, name),
      ...field(RAW_DATA, [tensors[name] ? bytesOf(tensors[name].data) : found.get(title)]),
    ]),
  );
  const told = Object.entries(metadata).flatMap(([key, value]) => field(METADATA, [...text(1, key), ...text(2, value)]));
  return joined([rest, ...field(GRAPH, [graph, ...added]), ...told]);
}

const text = (number, value) => field(number, [new TextEncoder().encode(value)]);

/** A field of protobuf that has a length. */
function field(number, parts) {
  return [varint((number << 3) | 2), varint(parts.reduce((sum, { length }) => sum + length, 0)), ...parts];
}

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Uint8Array.from([...bytes, value]);
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let start = 0;
  for (const part of parts) {
    whole.set(part, start);
    start += part.length;
  }
  return whole;
}
