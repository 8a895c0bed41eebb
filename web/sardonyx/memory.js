/** Ranges of a growing memory, given out and taken back. */

export class Allocator {
  /** `grow(end)` makes the memory reach at least so far, and returns how far it reaches. */
  constructor(start, grow) {
    this.grow = grow;
    this.end = start;
    this.free = []; // [start, end), sorted; neighbours are joined
    this.used = new Map();
  }

  allocate(nbytes, align = 256) {
    const room = Math.max(nbytes, 4);
    for (const [k, [start, end]] of this.free.entries()) {
      const at = Math.ceil(start / align) * align;
      if (at + room <= end) {
        this.free.splice(k, 1, ...[[start, at], [at + room, end]].filter(([a, b]) => a < b));
        return this.keep(at, room);
      }
    }
    const last = this.free.at(-1);
    const isNext = last?.[1] === this.end;
    const start = isNext ? last[0] : this.end;
    const at = Math.ceil(start / align) * align;
    const reach = this.grow(at + room); // which may throw, and leaves all as it is
    if (isNext) this.free.pop();
    if (start < at) this.free.push([start, at]);
    if (at + room < reach) this.free.push([at + room, reach]);
    this.end = reach;
    return this.keep(at, room);
  }

  keep(at, room) {
    this.used.set(at, at + room);
    return at;
  }

  release(at) {
    const end = this.used.get(at);
    if (!this.used.delete(at)) return;
    let k = this.free.findIndex(([start]) => start > at);
    if (k < 0) k = this.free.length;
    this.free.splice(k, 0, [at, end]);
    if (this.free[k + 1]?.[0] === end) this.free[k][1] = this.free.splice(k + 1, 1)[0][1];
    if (this.free[k - 1]?.[1] === at) this.free[k - 1][1] = this.free.splice(k, 1)[0][1];
  }
}
