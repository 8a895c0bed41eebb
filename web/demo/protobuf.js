/** Messages of Protocol Buffers, as far as ONNX uses them. */

/** The fields of a message by number, each a list of numbers and bytes; throws a RangeError where it is none. */
export function message(bytes) {
  if (!(bytes instanceof Uint8Array)) throw new RangeError("a number stands where a message should be");
  const found = {};
  for (const [number, value] of fields(bytes)) (found[number] ??= []).push(value);
  return (number) => found[number] ?? [];
}

/** The message in a field, which is their concatenation if it comes several times; null if it is not there. */
export function merged(values) {
  if (values.length < 2) return values.length ? message(values[0]) : null;
  const all = new Uint8Array(values.reduce((sum, each) => sum + each.length, 0));
  values.reduce((at, each) => (all.set(each, at), at + each.length), 0);
  return message(all);
}

export const text = (bytes = new Uint8Array()) => new TextDecoder().decode(bytes);

/** Entries of a map from text to text. */
export const entries = (values) =>
  Object.fromEntries(values.map(message).map((each) => [1, 2].map((number) => text(each(number)[0]))));

/** Numbers that may be packed. */
export const numbers = (values) => values.flatMap((value) => (typeof value === "number" ? [value] : packed(value)));

function* fields(bytes) {
  const cursor = { bytes, position: 0 };
  while (cursor.position < bytes.length) {
    const key = varint(cursor);
    const [number, wire] = [key >>> 3, key & 7];
    if (!number) throw new RangeError(`a field has the number 0 at byte ${cursor.position}`);
    if (wire === 0) yield [number, varint(cursor)];
    else {
      const length = wire === 1 ? 8 : wire === 5 ? 4 : wire === 2 ? varint(cursor) : NaN;
      const rest = bytes.length - cursor.position;
      if (Number.isNaN(length)) throw new RangeError(`field ${number} has wire type ${wire}, which ONNX does not use`);
      if (length < 0 || length > rest) throw new RangeError(`field ${number} claims ${length} bytes where ${rest} are left`);
      cursor.position += length;
      yield [number, bytes.subarray(cursor.position - length, cursor.position)];
    }
  }
}

/** The next number, which has a sign where it needs all 64 bits. */
function varint(cursor) {
  const { bytes, position } = cursor;
  let value = 0;
  for (let k = 0; k < 10; k++) {
    const byte = bytes[position + k];
    if (byte === undefined) throw new RangeError("the bytes end inside a number");
    value += (byte & 127) * 128 ** k; // exact up to seven bytes; few numbers have more
    if (byte < 128) {
      cursor.position = position + k + 1;
      return k < 7 ? value : exact(bytes.subarray(position, cursor.position));
    }
  }
  throw new RangeError("a number has more than ten bytes");
}

const exact = (bytes) => Number(BigInt.asIntN(64, bytes.reduceRight((sum, byte) => (sum << 7n) | BigInt(byte & 127), 0n)));

function packed(bytes) {
  const cursor = { bytes, position: 0 };
  const found = [];
  while (cursor.position < bytes.length) found.push(varint(cursor));
  return found;
}
