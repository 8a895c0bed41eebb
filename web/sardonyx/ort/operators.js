/**
 * The operators of small.js: each has the attributes that it takes, `wants` an input that may be left out elsewhere, is
 * `since` an operator set what it is here, and gives `{ type, data, dims }` for such.
 */

import { product } from "../types.js";

export const OPERATORS = {
  Resize: { takes: ["mode"], wants: 3, run: ([x, , , sizes], { mode = "nearest" }) => [resized(x, numbers(sizes), TAPS[mode])] },
  MatMul: { takes: [], run: ([a, b]) => [multiplied(a, b)] },
  TopK: { takes: ["axis"], run: ([x, k], { axis = -1 }) => largest(x, numbers(k)[0], axis) },
  Slice: { takes: [], run: ([x, ...ranges]) => [sliced(x, ...ranges.map((each) => each && numbers(each)))] },
  DFT: { takes: ["onesided"], since: 20, run: ([x, length, axis], { onesided = 0 }) => [spectra(x, numbers(length)?.[0], numbers(axis)?.[0] ?? -2, onesided)] },
  STFT: { takes: ["onesided"], run: ([x, step, window, length], { onesided = 1 }) => [framed(x, numbers(step)[0], window, numbers(length)?.[0], onesided)] },
};

const numbers = (tensor) => tensor && Array.from(tensor.data, Number);
const float32 = (data, dims) => ({ type: "float32", data, dims });

/** The axis of a tensor: its number from the start, and how many elements are outside, along and inside of it. */
function along({ dims }, axis) {
  const k = axis < 0 ? axis + dims.length : axis;
  if (!(k >= 0 && k < dims.length)) throw new Error(`axis ${axis} is out of range for [${dims}]`);
  return { k, outer: product(dims.slice(0, k)), size: dims[k], inner: product(dims.slice(k + 1)) };
}

const withSize = (dims, k, size) => dims.map((each, axis) => (axis === k ? size : each));

// ---- pictures

const { fround } = Math;
const CUBIC = -0.75;

/** Which elements of an axis have a part in one at a place, and how large it is. */
const TAPS = {
  nearest: (at) => [[Math.ceil(at - 0.5), 1]],
  linear(at, size) {
    const inside = Math.min(Math.max(at, 0), size - 1);
    const low = Math.floor(inside);
    return [[low, 1 - (inside - low)], [low + 1, inside - low]];
  },
  cubic(at) {
    const low = Math.floor(at);
    const near = (d) => ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1;
    const far = (d) => ((CUBIC * d - 5 * CUBIC) * d + 8 * CUBIC) * d - 4 * CUBIC;
    const d = at - low;
    return [far(1 + d), near(d), near(1 - d), far(2 - d)].map((part, k) => [low - 1 + k, part]);
  },
};

/** A tensor of other sizes, one axis after another. */
function resized(x, sizes, taps) {
  return sizes.reduce((tensor, size, axis) => (size === tensor.dims[axis] ? tensor : stretched(tensor, axis, size, taps)), x);
}

function stretched(x, axis, size, taps) {
  const { k, outer, size: before, inner } = along(x, axis);
  const scale = fround(size / before);
  const data = new Float32Array(outer * size * inner);
  for (let i = 0; i < size; i++) {
    for (const [from, part] of taps(fround(fround((i + 0.5) / scale) - 0.5), before)) {
      const j = Math.min(Math.max(from, 0), before - 1);
      for (let o = 0; o < outer; o++) {
        const [to, source] = [(o * size + i) * inner, (o * before + j) * inner];
        for (let n = 0; n < inner; n++) data[to + n] += part * x.data[source + n];
      }
    }
  }
  return float32(data, withSize(x.dims, k, size));
}

// ---- matrices, parts, the largest

function multiplied(a, b) {
  const left = a.dims.length > 1 ? a.dims : [1, ...a.dims];
  const right = b.dims.length > 1 ? b.dims : [...b.dims, 1];
  const [rows, depth] = left.slice(-2);
  const columns = right.at(-1);
  if (right.at(-2) !== depth) throw new Error(`[${a.dims}] and [${b.dims}] cannot be multiplied`);
  const [outer, ofLeft, ofRight] = broadcast(left.slice(0, -2), right.slice(0, -2));
  const data = new Float32Array(product(outer) * rows * columns);
  for (let o = 0, to = 0; o < product(outer); o++) {
    for (let i = 0; i < rows; i++, to += columns) {
      for (let d = 0; d < depth; d++) {
        const factor = a.data[(ofLeft(o) * rows + i) * depth + d];
        const from = (ofRight(o) * depth + d) * columns;
        for (let j = 0; j < columns; j++) data[to + j] += factor * b.data[from + j];
      }
    }
  }
  return float32(data, [...outer, ...(a.dims.length > 1 ? [rows] : []), ...(b.dims.length > 1 ? [columns] : [])]);
}

/** The sizes that two lists of sizes have together, and for each list which of its elements one of all is. */
function broadcast(...lists) {
  const rank = Math.max(...lists.map(({ length }) => length));
  const padded = lists.map((sizes) => [...Array(rank - sizes.length).fill(1), ...sizes]);
  const together = Array.from({ length: rank }, (_, k) => padded.map((sizes) => sizes[k]).find((size) => size !== 1) ?? 1);
  for (const sizes of padded) {
    if (sizes.some((size, k) => size !== 1 && size !== together[k])) throw new Error(`[${lists.join("] and [")}] do not broadcast`);
  }
  const place = (sizes) => (number) => {
    let [found, stride] = [0, 1];
    for (let k = rank - 1, left = number; k >= 0; left = Math.floor(left / together[k--])) {
      if (sizes[k] !== 1) found += (left % together[k]) * stride;
      stride *= sizes[k];
    }
    return found;
  };
  return [together, ...padded.map(place)];
}

function sliced(x, starts, ends, axes = starts.map((_, k) => k), steps = starts.map(() => 1)) {
  return starts.reduce((tensor, start, n) => {
    const { k, outer, size, inner } = along(tensor, axes[n]);
    const step = steps[n];
    const within = (at, low, high) => Math.min(Math.max(at < 0 ? at + size : at, low), high);
    const [first, end] = step > 0 ? [within(start, 0, size), within(ends[n], 0, size)] : [within(start, 0, size - 1), within(ends[n], -1, size - 1)];
    const count = Math.max(0, Math.ceil((end - first) / step));
    const data = new Float32Array(outer * count * inner);
    for (let o = 0, to = 0; o < outer; o++) {
      for (let i = 0; i < count; i++, to += inner) {
        const from = (o * size + first + i * step) * inner;
        data.set(tensor.data.subarray(from, from + inner), to);
      }
    }
    return float32(data, withSize(tensor.dims, k, count));
  }, x);
}

/** The largest of each line, and where they are; of equal ones the first. */
function largest(x, count, axis) {
  const { k, outer, size, inner } = along(x, axis);
  if (count > size) throw new Error(`there are no ${count} elements along axis ${axis} of [${x.dims}]`);
  const dims = withSize(x.dims, k, count);
  const [values, places] = [new Float32Array(product(dims)), new BigInt64Array(product(dims))];
  for (let o = 0; o < outer; o++) {
    for (let n = 0; n < inner; n++) {
      const line = Float32Array.from({ length: size }, (_, i) => x.data[(o * size + i) * inner + n]);
      const least = line.slice().sort()[size - count];
      const candidates = [...line.keys()].filter((i) => !(line[i] < least)).sort((i, j) => line[j] - line[i]);
      candidates.slice(0, count).forEach((i, to) => {
        values[(o * count + to) * inner + n] = line[i];
        places[(o * count + to) * inner + n] = BigInt(i);
      });
    }
  }
  return [float32(values, dims), { type: "int64", data: places, dims }];
}

// ---- spectra

/** Spectra along an axis of what has real numbers, or pairs of them, along its last. */
function spectra(x, length, axis, isHalf) {
  const { k, outer, size, inner } = along(x, axis);
  const parts = x.dims.at(-1);
  const total = length ?? size;
  const count = isHalf ? (total >> 1) + 1 : total;
  const lines = inner / parts;
  const data = new Float32Array(2 * outer * count * lines);
  const at = (o, i, n, part) => (part < parts && i < size ? x.data[((o * size + i) * lines + n) * parts + part] : 0);
  for (let o = 0; o < outer; o++) {
    for (let n = 0; n < lines; n++) {
      const [real, imaginary] = transformed(...[0, 1].map((part) => Float64Array.from({ length: total }, (_, i) => at(o, i, n, part))));
      for (let i = 0; i < count; i++) data.set([real[i], imaginary[i]], 2 * ((o * count + i) * lines + n));
    }
  }
  return float32(data, [...withSize(x.dims, k, count).slice(0, -1), 2]);
}

/** Spectra of frames, one every `step` elements. */
function framed(x, step, window, given, isHalf) {
  const [batch, size, parts = 1] = x.dims;
  const length = given ?? window.dims[0];
  const frames = Math.floor((size - length) / step) + 1;
  const data = new Float32Array(batch * frames * length * parts);
  for (let b = 0, to = 0; b < batch; b++) {
    for (let f = 0; f < frames; f++) {
      for (let i = 0; i < length * parts; i++) {
        data[to++] = x.data[(b * size + f * step) * parts + i] * (window?.data[Math.floor(i / parts)] ?? 1);
      }
    }
  }
  return spectra(float32(data, [batch, frames, length, parts]), length, 2, isHalf);
}

/** The discrete Fourier transform of complex numbers, by halves as long as there are such. */
function transformed(real, imaginary) {
  const { length } = real;
  const [re, im] = [new Float64Array(length), new Float64Array(length)];
  const isEven = length > 1 && length % 2 === 0;
  const turn = (k) => [Math.cos((2 * Math.PI * k) / length), -Math.sin((2 * Math.PI * k) / length)];
  if (isEven) {
    const half = length / 2;
    const every = (numbers, from) => Float64Array.from({ length: half }, (_, k) => numbers[2 * k + from]);
    const [even, odd] = [0, 1].map((from) => transformed(every(real, from), every(imaginary, from)));
    for (let k = 0; k < half; k++) {
      const [c, s] = turn(k);
      const [a, b] = [odd[0][k] * c - odd[1][k] * s, odd[0][k] * s + odd[1][k] * c];
      [re[k], im[k], re[k + half], im[k + half]] = [even[0][k] + a, even[1][k] + b, even[0][k] - a, even[1][k] - b];
    }
    return [re, im];
  }
  const turns = Array.from({ length }, (_, k) => turn(k));
  for (let k = 0; k < length; k++) {
    for (let i = 0; i < length; i++) {
      const [c, s] = turns[(k * i) % length];
      re[k] += real[i] * c - imaginary[i] * s;
      im[k] += real[i] * s + imaginary[i] * c;
    }
  }
  return [re, im];
}
