/** Who uses the GPU: its buffers, commands and faults. */

import { Queue } from "./queue.js";

const SCOPES = ["out-of-memory", "validation"];
const LATE = 200; // milliseconds until a loss is told

export const padded = (nbytes, unit = 4) => unit * Math.ceil(nbytes / unit);

export class Client {
  constructor(gpu) {
    this.gpu = gpu;
    this.device = gpu.device;
    this.queue = new Queue(this);
    this.held = new Set();
    this.failures = [];
  }

  /** Hear of what fails in this; scopes are a stack, so nobody else may have a turn meanwhile. */
  watch(act) {
    if (this.isWatching) return act();
    this.isWatching = true;
    SCOPES.forEach((kind) => this.device.pushErrorScope(kind));
    try {
      return act();
    } finally {
      this.isWatching = false;
      this.failures.push(...SCOPES.map(() => this.device.popErrorScope().catch(() => null)));
    }
  }

  /** Raise what has failed; a loss, or memory that ran out, explains the rest. */
  async settle(...failed) {
    const errors = [...(await Promise.all(this.failures.splice(0))), ...failed].filter(Boolean);
    if (errors.length) await Promise.race([this.device.lost, new Promise((resolve) => setTimeout(resolve, LATE))]);
    if (this.gpu.trouble) throw new Error(this.gpu.trouble);
    const error = errors.find((each) => each instanceof GPUOutOfMemoryError) ?? errors[0];
    if (error) throw new Error(`WebGPU: ${error.message || "this GPU has no memory left"}; use smaller inputs, or wasm`);
  }

  buffer(size, usage) {
    const { maxBufferSize } = this.device.limits;
    if (size > maxBufferSize) throw new RangeError(`a buffer of ${size} bytes exceeds ${maxBufferSize} of this GPU; use wasm`);
    usage |= GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = this.watch(() => this.device.createBuffer({ size, usage }));
    this.held.add(buffer);
    return buffer;
  }

  allocate(nbytes) {
    return { buffer: this.buffer(Math.max(16, padded(nbytes, 16)), GPUBufferUsage.STORAGE) };
  }

  put(...written) {
    this.watch(() => this.device.queue.writeBuffer(...written));
  }

  free({ buffer }) {
    this.held.delete(buffer);
    this.gpu.free(buffer);
  }

  given(nbytes) {
    const { buffer } = this.allocate(nbytes);
    this.held.delete(buffer);
    return buffer;
  }

  copy(source, target, nbytes) {
    const [from, to] = [source.chunk.buffer, target.chunk.buffer];
    const size = padded(nbytes);
    if (!size) return;
    if (from !== to) return this.queue.copy(from, source.offset, to, target.offset, size);
    const between = this.buffer(size, 0); // WebGPU copies between two buffers only
    this.queue.copy(from, source.offset, between, 0, size);
    this.queue.copy(between, 0, to, target.offset, size);
    this.free({ buffer: between });
  }

  async read(address, nbytes) {
    return (await this.readAll([[address, nbytes]]))[0];
  }

  /** The bytes of tensors `[address, nbytes]`, read together. */
  async readAll(tensors) {
    const ranges = tensors.map(([{ chunk, offset }, nbytes]) => [chunk.buffer, offset, padded(nbytes)]);
    const reading = this.watch(() => this.queue.read(ranges)).catch((error) => error);
    this.gpu.flush();
    const found = await reading;
    await this.settle(found instanceof Error && found);
    return found.map((bytes, k) => new Uint8Array(bytes.slice(0, tensors[k][1])));
  }

  get nbytes() {
    return [...this.held].reduce((sum, { size }) => sum + size, 0);
  }

  close() {
    this.gpu.flush();
    this.held.forEach((buffer) => buffer.destroy());
  }
}
