/** What earlier visits left in Cache Storage; where a page has none (no HTTPS, a private window), nothing is kept. */

const HERE = import.meta.url; // said apart, or bundlers would look for what is not there when they build
const FOLDER = new URL("./", HERE).href;
const PREFIX = `sardonyx ${FOLDER} `;

export class Store {
  /** The entries of a release of the engine; those of others are removed. */
  static async open(release) {
    const name = PREFIX + release;
    try {
      const old = (await caches.keys()).filter((each) => each.startsWith(PREFIX) && each !== name);
      await Promise.all(old.map((each) => caches.delete(each)));
      return new Store(await caches.open(name));
    } catch {
      return new Store(null);
    }
  }

  constructor(cache) {
    this.cache = cache;
  }

  get isThere() {
    return this.cache !== null;
  }

  /** The Response kept under a key, undefined if there is none. */
  get(...key) {
    return this.cache?.match(addressOf(key)).catch(() => undefined);
  }

  /** Keep bytes or a text; a disk that is full is no error. */
  async put(body, ...key) {
    const headers = { "content-length": body.byteLength ?? body.length, "content-type": "application/octet-stream" };
    await this.cache?.put(addressOf(key), new Response(body, { headers })).catch(() => {});
  }
}

/** Keys of Cache Storage are addresses; nothing is ever fetched from this one. */
const addressOf = (key) => `${FOLDER}?${encodeURIComponent(JSON.stringify(key, plain))}`;

/** Typed arrays as lists of numbers, in words. */
const plain = (_, value) => (ArrayBuffer.isView(value) ? `${value.constructor.name} ${value}` : value);
