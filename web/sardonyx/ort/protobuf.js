/** What little of protocol buffers the models of pages are read with: fields of messages, and ports of graphs. */

const TYPES = {
  1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
  10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 21: "uint4", 22: "int4",
};

export const text = (bytes) => new TextDecoder().decode(Uint8Array.from(bytes));

/** What a message of protocol buffers has in a field. */
export const all = (bytes, field) => [...fields(bytes)].filter(([number]) => number === field).map(([, value]) => value);

/** An input or output of a graph; `type` is undefined where it is no tensor, `dims` where the model tells no shape. */
export function port(bytes) {
  const [tensor] = all(all(bytes, 2)[0] ?? [], 1);
  const [type] = all(tensor ?? [], 1);
  const [shape] = all(tensor ?? [], 2);
  const size = (dim) => Number(all(dim, 1)[0] ?? 0) || (all(dim, 2).map(text)[0] ?? null);
  return { name: text(all(bytes, 1)[0]), type: TYPES[type], dims: shape && all(shape, 1).map(size) };
}

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
