/** Turns of a loop that the module takes by itself, once one was taken: abi.py says what a record of them has. */

import { fit } from "./sizes.js";
import { product, widthOf } from "./types.js";

const COPIES = 7; // words before those of the copies
const FALSE = 1; // how `turns` came to its end: the condition does not hold
const FEW = 64; // turns at first
const [BRIEF, LONG, FACTOR] = [10, 40, 4]; // milliseconds, and how many times more or fewer turns follow
const ROOM = 1 << 22; // bytes of slices at a time

export class Turns {
  /**
   * The turns after one that left these results in the frame of the body, and whose slices are in stacks; null where
   * shapes change, or the device has to be asked for each. `carried` is where carried values then are.
   */
  static of({ plan, epochs, lent, addresses, device }, [condition, ...results], before, stacks, isConditional) {
    const { repeat } = epochs[0].bound ?? {};
    const [values, slices] = [results.slice(0, before.length), results.slice(before.length)];
    const [own, others] = [plan.inputs.slice(0, 2 + before.length), plan.inputs.slice(2 + before.length)];
    const isOne = plan.epochs.length === 1 && !plan.epochs[0].halt && !plan.inputs.some(({ symbols }) => symbols.length);
    const isLent = !own.some(({ buffer }) => lent.has(buffer)) && others.every(({ buffer }) => buffer === null || lent.has(buffer));
    const isAlike = values.every(({ dims }, k) => String(dims) === String(before[k].dims));
    if (!repeat || !isOne || !isLent || !isAlike || stacks.some(({ rows }) => rows.length)) return null;
    const [number, going, ...targets] = own.map(({ buffer }) => addresses[buffer]);
    return new Turns(device, repeat, [number, going, isConditional ? condition.address : null], values, targets, slices, stacks);
  }

  constructor(device, repeat, told, values, targets, slices, stacks) {
    Object.assign(this, { device, repeat, told, slices, stacks });
    this.spare = [];
    this.pace = FEW;
    this.carried = values.map((value, k) => ({ ...value, address: targets[k] ?? this.room(sizeOf(value)) }));
    this.moves = this.ways(values.map((value, k) => [value.address, this.carried[k].address, sizeOf(value)]));
    this.record = this.room(4 * (COPIES + 3 * (slices.length + this.moves.length)));
    for (const [source, target, nbytes] of this.moves) device.copy(source, target, nbytes);
  }

  room(nbytes) {
    this.spare.push(this.device.allocate(nbytes, 8));
    return { chunk: this.spare.at(-1), offset: 0, nbytes };
  }

  /** The copies that bring values to where the next turn takes them: by spare memory, where one would write on another. */
  ways(all) {
    all.forEach(([, target, nbytes]) => fit(nbytes, target));
    const moves = all.filter(([source, target]) => placeOf(source) !== placeOf(target));
    const meets = ([a, , nbytes], [, b, size]) => placeOf(a) < placeOf(b) + size && placeOf(b) < placeOf(a) + nbytes;
    if (!moves.some((move, k) => moves.slice(0, k).some((other) => meets(move, other)))) return moves;
    const halts = moves.map(([source, target, nbytes]) => [source, this.room(nbytes), target, nbytes]);
    return [...halts.map(([a, b, , nbytes]) => [a, b, nbytes]), ...halts.map(([, b, c, nbytes]) => [b, c, nbytes])];
  }

  /** Take some turns from this one on: the number of the next one, and whether it is to be taken. */
  take(count, most) {
    const wide = Math.max(1, ...this.slices.map(sizeOf));
    const more = Math.min(this.pace, most - count, Math.ceil(ROOM / wide));
    const copies = this.slices.map((slice, k) => [slice.address, this.stacks[k].reserve(more), sizeOf(slice)]);
    const place = placeOf(this.record);
    const end = (length) => place + 4 * (COPIES + 3 * length);
    const all = [...copies, ...this.moves].map(([source, target, nbytes]) => [placeOf(source), placeOf(target), nbytes]);
    const words = [count, 0, ...this.told.map((each) => (each ? placeOf(each) : 0)), end(copies.length), end(all.length), ...all.flat()];
    const record = new Uint32Array(this.device.memory.buffer, place, words.length);
    record.set(words);
    const begun = performance.now();
    const how = this.repeat(place, more);
    const took = performance.now() - begun;
    const [next] = record;
    for (const stack of this.stacks) stack.count += next - count;
    if (took > LONG) this.pace = Math.max(1, this.pace / FACTOR);
    else if (took < BRIEF && more === this.pace) this.pace *= FACTOR;
    return [next, how !== FALSE];
  }

  free() {
    for (const chunk of this.spare) this.device.free(chunk);
  }
}

const sizeOf = ({ dims, dtype }) => product(dims) * widthOf(dtype);
const placeOf = ({ chunk, offset }) => chunk.start + offset;
