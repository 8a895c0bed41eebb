/** Floats of 16 bits as bits, for browsers that have no class for them. */

const words = new DataView(new ArrayBuffer(8));

/** The bits of the float16 that is nearest to a number, the even one of two. */
export function toHalf(value) {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  words.setFloat64(0, size);
  const exponent = Math.max((words.getUint16(0) >> 4) - 1023, -14);
  return sign | ((exponent + 14) * 1024 + even(size * 2 ** (10 - exponent))); // a carry belongs to the exponent
}

export function fromHalf(half) {
  const [exponent, fraction] = [(half >> 10) & 31, half & 1023];
  const usual = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
  const size = exponent < 31 ? usual : fraction ? NaN : Infinity;
  return half & 0x8000 ? -size : size;
}

/** The bits of the bfloat16 that is nearest to a float32, the even one of two. */
export function toBrain(value) {
  if (Number.isNaN(value)) return 0x7fc0;
  words.setFloat32(0, value);
  const bits = words.getUint32(0);
  return Math.floor((bits + 0x7fff + ((bits >>> 16) & 1)) / 0x10000);
}

export const fromBrain = (half) => (words.setUint32(0, half * 0x10000), words.getFloat32(0));

/** The nearest integer, the even one of two. */
function even(value) {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2) ? low + 1 : low;
}
