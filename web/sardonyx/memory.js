/** Memories of WebAssembly, and ranges of them, given out and taken back. */

const PAGE = 1 << 16;
const MOST_PAGES = 1 << 16;
const OWN = 16; // that a thread makes: V8 has room for 125 in a process, however small they are

let memories = []; // of sessions, by WeakRefs

export class Memory {
  /** One for a session, whose ranges `held` will have; where there are many, or no room for more, one of others. */
  static take(shared, held) {
    memories = memories.filter((each) => each.deref()?.users.size);
    const alike = memories.map((each) => each.deref()).filter((each) => each.shared === shared);
    let [found] = alike.sort((a, b) => a.end - b.end);
    try {
      if (alike.length < OWN) memories.push(new WeakRef((found = new Memory(shared))));
    } catch {
      if (!found) throw new RangeError("there is no room for a memory: release sessions, those of other pages too");
    }
    found.users.add(held);
    return found;
  }

  constructor(shared) {
    this.memory = new WebAssembly.Memory({ initial: 1, maximum: MOST_PAGES, shared });
    this.shared = shared;
    this.users = new Set();
    this.end = 1024;
    this.free = []; // [start, end), sorted; neighbours are joined
    this.used = new Map();
  }

  allocate(nbytes, align = 256) {
    const room = Math.max(nbytes, 4);
    const place = (start) => Math.ceil(start / align) * align;
    let k = this.free.findIndex(([start, end]) => place(start) + room <= end);
    if (k < 0) {
      const last = this.free.at(-1)?.[1] === this.end ? this.free.at(-1) : [this.end];
      const reach = this.grow(place(last[0]) + room); // which may throw, and leaves all as it is
      this.end = last[1] = reach;
      k = this.free.indexOf(last);
      if (k < 0) k = this.free.push(last) - 1;
    }
    const [start, end] = this.free[k];
    const at = place(start);
    this.free.splice(k, 1, ...[[start, at], [at + room, end]].filter(([a, b]) => a < b));
    this.used.set(at, at + room);
    return at;
  }

  /** Reach at least so far; how far it reaches. To grow is slow where there are many sessions. */
  grow(end) {
    const now = this.memory.buffer.byteLength / PAGE;
    const pages = Math.ceil(end / PAGE) - now;
    const more = this.users.size > 1 ? Math.min(now >> 3, MOST_PAGES - now) : 0;
    try {
      if (pages > 0) this.memory.grow(Math.max(pages, more));
    } catch {
      throw new RangeError(`${Math.ceil(end / 2 ** 20)} MiB of memory are more than this page can have`);
    }
    return this.memory.buffer.byteLength;
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

  /** Give back what a session has. */
  leave(held) {
    if (this.users.delete(held)) held.forEach((start) => this.release(start));
  }
}
