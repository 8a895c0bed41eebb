/** What a decoder has of the tokens so far, on the device of its session. */

import { product, widthOf } from "./types.js";

const FEW = 64; // tokens: there is always room for a multiple of that

export class Caches {
  constructor({ graph, device, bundle }, batch) {
    const plan = graph.executors.map((executor) => executor.plan).find(({ caches }) => caches.length);
    if (!plan) throw new Error(`${bundle.name} has no plans for caches; compile it with --caches`);
    this.device = device;
    this.length = this.room = 0;
    this.parts = plan.caches.map((k) => {
      const { name, dtype, shape, buffer } = plan.inputs[k];
      const axis = plan.buffers[buffer].shape.findIndex((size, each) => String(size) !== String(shape[each]));
      const dims = shape.slice(0, -1).map((size) => (typeof size === "number" ? size : batch));
      return { name, dtype, dims, axis, address: null };
    });
    this.reserve(FEW);
  }

  /** Have room for so many tokens. */
  reserve(wanted) {
    const room = Math.ceil(wanted / FEW) * FEW;
    if (room <= this.room) return;
    const { device, length } = this;
    for (const part of this.parts) {
      const { dims, axis, dtype, address: old } = part;
      const [rows, width] = [product(dims.slice(0, axis)), product(dims.slice(axis + 1)) * widthOf(dtype)];
      const nbytes = Math.ceil((rows * room * width) / 4) * 4;
      part.address = { chunk: device.allocate(nbytes), offset: 0, nbytes };
      for (let row = 0; length && row < rows; row++) {
        const at = (most) => ({ offset: row * most * width });
        device.copy({ ...old, ...at(this.room) }, { ...part.address, ...at(room) }, Math.ceil((length * width) / 4) * 4);
      }
      if (old) device.free(old.chunk);
    }
    this.room = room;
  }

  /** What a run is fed that adds `count` tokens to the first `length`. */
  fed(length, count) {
    if (!(length >= 0 && length <= this.length)) throw new Error(`there are ${this.length} tokens; ${length} are not the first of them`);
    this.length = length;
    if (length + count > this.room) this.reserve(Math.max(length + count, 2 * this.room));
    return new Map(
      this.parts.map(({ name, dtype, dims, axis, address }) => [name, { address, dtype, dims: [...dims.with(axis, length), this.room] }]),
    );
  }

  release() {
    this.parts.forEach(({ address }) => this.device.free(address.chunk));
    this.parts = [];
  }
}

/** A conversation with a session, wherever that is. */
export class Conversation {
  length = 0;

  constructor(runs, release) {
    Object.assign(this, { runs, release });
  }

  async run(feeds, names, count) {
    const found = await this.runs(feeds, names, this.length, count);
    this.length += count;
    return found;
  }
}
