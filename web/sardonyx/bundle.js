/** Reads bundles (.sdx) while they arrive; ../README.md has the format. */

import { checkSections, sound } from "./soundness.js";

const MAGIC = "137,83,68,88,13,10,26,10";
const VERSION = 4;
const HEAD = 28;
const DENSEST = 1100; // bytes that one deflated byte can become
const ALIGNMENT = 64;
const BLOCK = 1 << 16;
const LARGE = 1 << 20; // bytes

const TABLES = Array.from({ length: 4 }, () => new Uint32Array(256));

for (let n = 0; n < 256; n++) {
  for (let bit = 1, c = n; bit <= 32; bit++) {
    c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
    if (bit % 8 === 0) TABLES[bit / 8 - 1][n] = c;
  }
}

/** CRC-32 of bytes, going on from that of those before. */
export function crc32(bytes, before = 0) {
  const [a, b, c, d] = TABLES;
  const whole = bytes.length & ~3;
  let sum = ~before;
  let k = 0;
  for (; k < whole; k += 4) {
    sum ^= bytes[k] | (bytes[k + 1] << 8) | (bytes[k + 2] << 16) | (bytes[k + 3] << 24);
    sum = d[sum & 255] ^ c[(sum >>> 8) & 255] ^ b[(sum >>> 16) & 255] ^ a[sum >>> 24];
  }
  for (; k < bytes.length; k++) sum = a[(sum ^ bytes[k]) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}

/** Whether a source is one that is fetched. */
export const isAddress = (source) => typeof source === "string" || source instanceof URL;

/** Fails by the name of what could not be fetched. */
export const lost = (name) => (error) => {
  if (error instanceof TypeError) error.message = `${name} cannot be fetched by this page: ${error.message}`;
  throw error;
};

/** A file that arrives in pieces. */
export class Stream {
  constructor(reader, total) {
    this.reader = reader;
    this.total = total;
    this.loaded = 0;
    this.position = 0;
    this.left = new Uint8Array(0);
  }

  static async of(source, options = {}) {
    if (Array.isArray(source)) return new Stream((await options.downloads()).joined(source, (each) => Stream.of(each, options)), 0);
    if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) {
      const { buffer = source, byteOffset, byteLength } = source;
      return new Stream(whole(new Uint8Array(buffer, byteOffset, byteLength)), byteLength);
    }
    if (source instanceof ReadableStream) return new Stream(source.getReader(), 0);
    if (source instanceof Blob) return new Stream(source.stream().getReader(), source.size);
    const response = source instanceof Response ? source : await fetch(source, options);
    if (!response.ok) throw new Error(`${response.url || source}: the server answers ${response.status} ${response.statusText}`);
    const encoded = response.headers.get("content-encoding");
    const total = encoded ? 0 : Number(response.headers.get("content-length")) || 0;
    const module = total > LARGE && (await options.downloads?.().catch(() => null)); // as in service workers
    return new Stream(module ? module.resuming(response, total, options) : response.body.getReader(), total);
  }

  /** Some of the next bytes, `most` at most; null at the end. */
  async next(most) {
    while (!this.left.length) {
      const { value, done } = await this.reader.read().catch(this.lost);
      if (value) {
        this.left = value;
        this.loaded += value.length;
        this.progress?.({ stage: "weights", loaded: this.loaded, total: this.total });
      }
      this.signal?.throwIfAborted();
      if (done) return null;
    }
    const piece = this.left.subarray(0, most);
    this.left = this.left.subarray(piece.length);
    this.position += piece.length;
    return piece;
  }

  /** Give the next `count` bytes to a function, piece by piece; `false` if the file ends before. */
  async read(count, sink) {
    for (let done = 0; done < count; ) {
      const piece = await this.next(count - done);
      if (!piece) return false;
      await sink?.(piece, done);
      done += piece.length;
    }
    return true;
  }

  async bytes(count) {
    const bytes = new Uint8Array(count);
    return (await this.read(count, (piece, at) => bytes.set(piece, at))) ? bytes : null;
  }

  /** Tell of progress, and end when a signal says so, whatever the reader waits for. */
  heed({ progress, signal }) {
    Object.assign(this, { progress, signal });
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this);
  }

  handleEvent() {
    this.close();
  }

  close() {
    this.signal?.removeEventListener("abort", this);
    this.reader.cancel?.().catch(() => {});
  }
}

function whole(bytes) {
  return { read: async (value = bytes) => ((bytes = null), { value, done: !value }) };
}

/** Give what is deflated to `sink`; whether `read(give)` had all of it, and whether it was what it should be. */
function inflated(read, nbytes, width, sink) {
  if (!globalThis.DecompressionStream) throw new Error("this browser cannot inflate; take a newer one, or --no-compress");
  const { writable, readable } = new DecompressionStream("deflate-raw");
  const writer = writable.getWriter();
  const isThere = read((piece) => writer.write(piece).catch(() => {}));
  const end = () => writer.close().catch(() => {});
  isThere.then(end, end);
  return Promise.all([isThere, regrouped(new Stream(readable.getReader(), 0), nbytes, width, sink)]);
}

/** In blocks the first bytes of all elements stand together, then the second ones: make elements of them. */
async function regrouped(stream, nbytes, width, sink) {
  const next = (count) => stream.bytes(count).catch(() => null);
  try {
    for (let at = 0; at < nbytes; at += BLOCK) {
      const bytes = await next(Math.min(BLOCK, nbytes - at));
      if (!bytes) return false;
      const block = new Uint8Array(bytes.length);
      for (let place = 0, k = 0; place < width; place++) {
        for (let j = place; j < block.length; j += width) block[j] = bytes[k++];
      }
      sink(block, at);
    }
    return !(await next(1));
  } finally {
    stream.close();
  }
}

/** A bundle whose manifest is there; iteration gives its sections in order. */
export class Bundle {
  constructor(stream, manifest, name) {
    this.stream = stream;
    this.manifest = manifest;
    this.name = name;
  }

  /** Open what `load` takes. */
  static async open(source, options = {}) {
    const name = options.name ?? (isAddress(source) ? String(source) : source?.url || source?.name || "the bundle");
    const stream = await Stream.of(source, options).catch(lost(name));
    stream.lost = lost(name);
    stream.heed(options);
    const head = await stream.bytes(HEAD);
    if (!head || head.subarray(0, 8).join() !== MAGIC) {
      const isHtml = head?.[0] === 60;
      throw new Error(`${name} is ${isHtml ? "HTML: is its address right?" : "no bundle: make one with `sardonyx compile model.onnx`"}`);
    }
    const [version, length, checksum, size, own] = new Uint32Array(head.buffer, 8, 5);
    if (crc32(head.subarray(0, HEAD - 4)) !== own) throw damaged(name, "its head");
    if (version !== VERSION) {
      throw new Error(`${name} has version ${version} of the format, and this script reads ${VERSION}: compile the model anew`);
    }
    const stored = await stream.bytes(length);
    if (!stored) throw cut(name, stream);
    if (crc32(stored) !== checksum || size > DENSEST * length) throw damaged(name, "its manifest");
    const text = size ? new Uint8Array(size) : stored;
    if (size) {
      const [, isRight] = await inflated((give) => give(stored), size, 1, (piece, at) => text.set(piece, at));
      if (!isRight) throw damaged(name, "its manifest");
    }
    const manifest = sound(name, () => {
      const told = JSON.parse(new TextDecoder().decode(text));
      checkSections(told);
      return told;
    });
    return new Bundle(stream, manifest, name);
  }

  /** The inputs and the outputs: `{ name, type, dims }`, where a size that is open is a name or null. */
  get ports() {
    const port = ([name, told]) => ({ name, type: told?.[1], dims: told?.[2] });
    return this.manifest.model.slice(0, 2).map((values) => values.map(port));
  }

  async *[Symbol.asyncIterator]() {
    const { stream, name } = this;
    try {
      for (const [title, stored, checksum, nbytes = stored, width = 0] of this.manifest.sections) {
        const pad = -stream.position & (ALIGNMENT - 1);
        if (!(await stream.read(pad))) throw cut(name, stream);
        let isRead = false;
        yield {
          title,
          nbytes,
          /** Give the bytes to `sink(piece, offset)`. */
          async into(sink) {
            let sum = 0;
            isRead = true;
            const read = (give) => stream.read(stored, (piece, at) => ((sum = crc32(piece, sum)), give(piece, at)));
            const [isThere, isRight] = width ? await inflated(read, nbytes, width, sink) : [await read(sink), true];
            if (!isThere) throw cut(name, stream);
            if (sum !== checksum || !isRight) throw damaged(name, `section ${title}`);
          },
        };
        if (!isRead && !(await stream.read(stored))) throw cut(name, stream);
      }
    } finally {
      stream.close();
    }
  }
}

const damaged = (name, part) => new Error(`${name} is damaged: ${part} does not match its checksum; fetch it anew`);
const cut = (name, stream) => new Error(`${name} is cut off after ${stream.loaded} bytes; fetch it anew`);
