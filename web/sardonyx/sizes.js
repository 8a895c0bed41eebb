/** Sizes: integers, symbols, or `[operator, operand, ...]`, and where buffers of such sizes lie. */

import { widthOf } from "./types.js";

const ALIGNMENT = 256;

export const OPERATORS = {
  "+": (a, b) => a + b,
  "*": (a, b) => a * b,
  floordiv: (a, b) => (b ? Math.floor(a / b) : 0),
  mod: (a, b) => (b ? a - b * Math.floor(a / b) : 0),
  min: Math.min,
  max: Math.max,
};

const DEEP = 64;
const LONG = 10000;

/** Makes sizes of what plans say: `@3` is the fourth of the `listed` terms, which may name those before. */
export function termsOf(listed) {
  const found = new Map();
  const term = (size) => {
    if (typeof size === "object") throw new Error(`[${size}] is no size`);
    return found.get(size)?.size ?? size;
  };
  for (const [operator, ...sizes] of listed) {
    const isBinary = operator === "floordiv" || operator === "mod";
    const known = sizes.map((size) => found.get(size) ?? { deep: 0, long: 1 });
    const deep = 1 + Math.max(...known.map((each) => each.deep));
    const long = known.reduce((sum, each) => sum + each.long, 0);
    const isSound = Object.hasOwn(OPERATORS, operator) && (isBinary ? sizes.length === 2 : sizes.length) && deep <= DEEP && long <= LONG;
    if (!isSound || !sizes.every((size) => typeof size === "string" || Number.isInteger(size))) {
      throw new Error(`[${[operator, ...sizes]}] is no size, or too long a one`);
    }
    found.set(`@${found.size}`, { size: [operator, ...sizes.map(term)], deep, long });
  }
  return term;
}

/** The value of a size for these symbols. */
export function evaluate(size, symbols) {
  if (typeof size === "number") return size;
  if (typeof size === "string") return symbols[size];
  let value = evaluate(size[1], symbols);
  for (let k = 2; k < size.length; k++) value = OPERATORS[size[0]](value, evaluate(size[k], symbols));
  return value;
}

export function symbolsOf(size, found = new Set()) {
  if (typeof size === "string") found.add(size);
  else if (Array.isArray(size)) size.slice(1).forEach((operand) => symbolsOf(operand, found));
  return found;
}

export const isKnown = (size, symbols) => [...symbolsOf(size)].every((symbol) => symbol in symbols);

/** The first of these guards that does not hold, if there is one. */
export function broken(guards, symbols) {
  return guards.find(([size, relation, truth]) => {
    const value = evaluate(size, symbols);
    return (relation === "==" ? value === 0 : value >= 0) !== truth;
  });
}

/** The bytes that each buffer needs; null where a size would be negative. */
export function roomsOf(buffers, symbols) {
  const rooms = [];
  for (const { dtype, shape, elements } of buffers) {
    const sizes = shape.filter((size) => isKnown(size, symbols)).map((size) => evaluate(size, symbols));
    const count = evaluate(elements, symbols);
    if (Math.min(count, ...sizes) < 0) return null;
    rooms.push(Math.ceil((count * widthOf(dtype)) / 4) * 4);
  }
  return rooms;
}

/** Where buffers start that lie above those they list as `beneath`, and the bytes of all. */
export function place(numbers, plan, rooms) {
  const at = new Map(numbers.map((number, k) => [number, k]));
  const ends = [];
  const offsets = [];
  const visit = (k) => {
    if (ends[k] !== undefined) return ends[k];
    offsets[k] = Math.max(0, ...plan.buffers[numbers[k]].beneath.map((number) => visit(at.get(number))));
    return (ends[k] = offsets[k] + Math.ceil(rooms[k] / ALIGNMENT) * ALIGNMENT);
  };
  numbers.forEach((_, k) => visit(k));
  return [offsets, Math.max(0, ...ends)];
}

/** Raise an error where a tensor has more bytes than there is room for. */
export function fit(nbytes, room) {
  if (nbytes > room.nbytes) throw new Error(`a tensor of ${nbytes} bytes has room for ${room.nbytes} in the bundle: compile the model anew`);
}
