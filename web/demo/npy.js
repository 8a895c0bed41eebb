/** Arrays in NumPy's files. */

import { fromHalf } from "./halves.js";

const KINDS = {
  f2: [2, (view, at, little) => fromHalf(view.getUint16(at, little))],
  f4: [4, (view, at, little) => view.getFloat32(at, little)],
  f8: [8, (view, at, little) => view.getFloat64(at, little)],
  i1: [1, (view, at) => view.getInt8(at)],
  i2: [2, (view, at, little) => view.getInt16(at, little)],
  i4: [4, (view, at, little) => view.getInt32(at, little)],
  i8: [8, (view, at, little) => view.getBigInt64(at, little)],
  u1: [1, (view, at) => view.getUint8(at)],
  b1: [1, (view, at) => view.getUint8(at)],
  u2: [2, (view, at, little) => view.getUint16(at, little)],
  u4: [4, (view, at, little) => view.getUint32(at, little)],
  u8: [8, (view, at, little) => view.getBigUint64(at, little)],
};
const HEAD = /^\{'descr': '([<>|=])(\w)(\d+)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \}\s*$/;

/** `{ values, dims }` of the bytes of an .npy file, in C's order; throws an Error that says what is wrong with them. */
export function arrayOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (String.fromCharCode(...bytes.subarray(0, 6)) !== "\x93NUMPY") throw new Error("it is no .npy file");
  const isShort = bytes[6] === 1;
  const begin = isShort ? 10 : 12;
  const length = bytes.length < begin ? Infinity : isShort ? view.getUint16(8, true) : view.getUint32(8, true);
  if (begin + length > bytes.length) throw new Error("it is cut off in its head");
  const head = new TextDecoder().decode(bytes.subarray(begin, begin + length));
  const [, order, letter, count, isFortran, shape] = HEAD.exec(head) ?? [];
  const [width, read] = kindOf(letter, Number(count)) ?? [];
  if (!read) throw new Error(`it holds ${letter ? `'${order}${letter}${count}'` : "records or objects"}; save an array of numbers or strings`);
  const dims = shape.split(",").filter((part) => part.trim()).map(Number);
  const size = dims.reduce((a, b) => a * b, 1);
  const rest = bytes.length - begin - length;
  if (rest < size * width) throw new Error(`it is cut off: [${dims}] takes ${size * width} bytes, and ${rest} are there`);
  const at = (k) => read(view, begin + length + k * width, order !== ">");
  const place = isFortran === "True" ? transposer(dims) : (k) => k;
  return { values: Array.from({ length: size }, (_, k) => at(place(k))), dims };
}

/** The bytes of an element, and what reads one; strings of both kinds end at their first zero. */
function kindOf(letter, count) {
  const letters = (step, one) => [step * count, (view, at, little) => {
    let text = "";
    for (let k = 0; k < count; k++) text += one(view, at + step * k, little);
    return text.replace(/\0+$/, "");
  }];
  if (letter === "U") return letters(4, (view, at, little) => String.fromCodePoint(view.getUint32(at, little)));
  if (letter === "S") return letters(1, (view, at) => String.fromCharCode(view.getUint8(at)));
  return KINDS[`${letter}${count}`];
}

/** Where an element of C's order lies in Fortran's. */
function transposer(dims) {
  const strides = dims.map((_, axis) => dims.slice(0, axis).reduce((a, b) => a * b, 1));
  return (k) => {
    let [place, rest] = [0, k];
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      place += (rest % dims[axis]) * strides[axis];
      rest = Math.floor(rest / dims[axis]);
    }
    return place;
  };
}
