/** The worker that has a page's sessions: what remote.js asks of it, each session over a port of its own. */

import { Bundle, Stream } from "./bundle.js";
import { Crew, borrowed } from "./crew.js";
import { WasmDevice } from "./wasm.js";
import { on } from "./session.js";

Crew.helper = borrowed;
onmessage = ({ data: { port } }) => serve(port);
postMessage("ready");

function serve(port) {
  const pieces = new Pieces(port);
  let session;
  let count = 0;
  const held = new Map(); // conversations by number
  const tasks = {
    async load({ manifest, name, position, threads }) {
      const stream = new Stream(pieces, 0);
      stream.position = stream.loaded = position;
      const device = new WasmDevice(manifest.targets.wasm, { threads, hurries: true });
      session = await on(device, new Bundle(stream, manifest, name), "wasm");
    },
    async run({ feeds, names, caches }) {
      const found = await (caches ? held.get(caches.number).runs(feeds, names, caches.length, caches.count) : session.run(feeds, names));
      return Object.entries(found).map(([name, { type, data, dims }]) => [name, type, data, dims]);
    },
    async caches({ batch }) {
      held.set(++count, await session.caches(batch));
      return count;
    },
    async leave({ number }) {
      await held.get(number).release();
      held.delete(number);
    },
    release: async () => session.release(),
  };
  port.onmessage = async ({ data }) => {
    if (!data.what) return pieces.take(data);
    const { number, what, given } = data;
    try {
      const result = await tasks[what](given);
      const moved = what === "run" ? result.map(([, , { buffer }]) => buffer).filter(Boolean) : [];
      const { threads, memory } = session;
      port.postMessage({ number, result, told: { threads, memory } }, moved);
    } catch (error) {
      port.postMessage({ number, error });
    }
  };
}

/** The bytes of a bundle, which the page gives one after another: the next is on its way while one is used. */
class Pieces {
  constructor(port) {
    this.port = port;
    this.next = null;
  }

  ask() {
    this.next = new Promise((...settle) => (this.settle = settle));
    this.next.catch(() => {}); // if it is not wanted any more
    this.port.postMessage({ wants: "piece" });
  }

  take({ piece, failure }) {
    const [resolve, reject] = this.settle;
    if (failure) reject(new Error(failure));
    else resolve(piece);
  }

  async read() {
    if (!this.next) this.ask();
    const value = await this.next;
    if (value) this.ask();
    return { value, done: !value };
  }

  async cancel() {
    this.port.postMessage({ wants: "end" });
  }
}
