/** Elements of tensors: how they lie in memory, and the arrays of JavaScript that hold them. */

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: globalThis.Float16Array ?? Uint16Array, bfloat16: Uint16Array,
  int8: Int8Array, uint8: Uint8Array, bool: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  string: Int32Array, int4: Int8Array, int2: Int8Array,
  ...Object.fromEntries(
    ["uint4", "uint2", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0", "float4e2m1"]
      .concat(["float6e2m3", "float6e3m2"]).map((name) => [name, Uint8Array]),
  ),
};

/** The class of arrays for a type; types that JavaScript lacks are bits, one element in one or two bytes. */
export const arrayOf = (dtype) => ARRAYS[dtype];

export const isType = (dtype) => Object.hasOwn(ARRAYS, dtype);

export const widthOf = (dtype) => arrayOf(dtype).BYTES_PER_ELEMENT;

export const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

export const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** A copy of the elements of an input, which stays as it is. */
export function copyOf(name, data) {
  try {
    return data.slice();
  } catch {
    throw new TypeError(`input ${JSON.stringify(name)} lies in a buffer that was transferred: feed a copy`);
  }
}

/** What is fed, copied for another thread, and the buffers that move there. */
export function copied(feeds) {
  const moved = [];
  const copies = Object.entries(feeds).map(([name, tensor]) => {
    const { type, data: given, dims } = tensor ?? {};
    const isArray = ArrayBuffer.isView(given);
    const data = isArray ? copyOf(name, given) : given;
    if (isArray) moved.push(data.buffer);
    return [name, tensor && { type, data, dims }];
  });
  return [Object.fromEntries(copies), moved];
}

/** An array with its type and shape. */
export class Tensor {
  constructor(type, data, dims = [data.length]) {
    if (!isType(type)) {
      throw new TypeError(`there is no element type ${JSON.stringify(type)}; use one of ${Object.keys(ARRAYS).join(", ")}`);
    }
    const kind = type === "string" ? Array : arrayOf(type);
    this.type = type;
    this.data = data instanceof kind ? data : converted(kind, type, data);
    this.dims = [...dims];
    if (this.data.length !== product(this.dims)) {
      throw new RangeError(`a tensor of shape [${dims}] has ${product(this.dims)} elements, not ${this.data.length}`);
    }
  }

  get size() {
    return this.data.length;
  }
}

function converted(kind, type, data) {
  if (ArrayBuffer.isView(data) && bitsOnly(kind, type, data)) {
    return new kind(data.buffer, data.byteOffset, data.length);
  }
  if (ArrayBuffer.isView(data)) {
    throw new TypeError(`a tensor of ${type} takes a ${kind.name}, not a ${data.constructor.name}`);
  }
  return kind === BigInt64Array || kind === BigUint64Array ? kind.from(data, BigInt) : kind.from(data);
}

/** Whether an array holds the bits of a type for which an engine may have no class, or a canvas's bytes. */
const bitsOnly = (kind, type, data) =>
  (/float16|bool|int4|int2/.test(type) && data.BYTES_PER_ELEMENT === kind.BYTES_PER_ELEMENT) ||
  (type === "uint8" && data instanceof Uint8ClampedArray);
