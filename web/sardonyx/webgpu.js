/** Graphics processors: buffers and compute pipelines of `navigator.gpu`, and the shaders of a bundle. */

import { Queue, Work, estimate } from "./queue.js";

const ALIGNMENT = 256;
const WORKGROUP = 64;
const SLICE = 1 << 24; // bytes handed over at once: the browser holds a copy until they are there

const SCOPES = ["out-of-memory", "validation"];

const OPERATORS = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => Math.floor(a / b),
  rem: (a, b) => a % b,
  min: Math.min,
  max: Math.max,
};

/** An extent of a grid: arithmetic on constants and parameters. */
function extent([operator, , ...details], params) {
  if (operator === "const") return details[0];
  if (operator === "param") return params[details[0]];
  return OPERATORS[operator](...details.map((part) => extent(part, params)));
}

export class WebGpuDevice {
  static async open(told) {
    const { gpu } = globalThis.navigator ?? {};
    if (!gpu) throw new Error("this browser has no WebGPU, or the page is not served by https or from localhost");
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new Error("WebGPU finds no graphics processor here");
    const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
    const device = await adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } });
    return new WebGpuDevice(told, adapter, device);
  }

  constructor(told, adapter, device) {
    this.adapter = adapter;
    const { isFallbackAdapter, vendor, architecture, description } = adapter.info ?? {};
    this.isSoftware = isFallbackAdapter || /swiftshader|llvmpipe|warp/i.test([vendor, architecture, description]);
    this.device = device;
    this.queue = new Queue(device);
    this.counts = { groups: 0 };
    this.section = told.section;
    this.names = told.codes.map(([name]) => name);
    this.isLoaded = false;
    this.empty = this.buffer(ALIGNMENT * device.limits.maxStorageBuffersPerShaderStage, GPUBufferUsage.STORAGE);
    device.lost.then(({ message, reason }) => reason === "destroyed" || (this.trouble ??= `the GPU was lost: ${message}`));
    device.onuncapturederror = ({ error }) => (this.trouble ??= `WebGPU: ${error.message}`);
    this.watch();
  }

  /** Hear of what fails from now on, which a GPU tells later. */
  watch() {
    SCOPES.forEach((kind) => this.device.pushErrorScope(kind));
  }

  /** Raise what has failed since something was read; memory that ran out explains the rest. */
  async settle() {
    if (this.trouble) return;
    const popped = SCOPES.map(() => this.device.popErrorScope().catch(() => null));
    this.watch();
    const [error] = (await Promise.all(popped)).reverse().filter(Boolean);
    if (error) throw new Error(`WebGPU: ${error.message || "this GPU has no memory left"}; use smaller inputs, or wasm`);
  }

  /** Take the code, and compile it. */
  async load(text) {
    const layout = (types) =>
      this.device.createBindGroupLayout({
        entries: types.map((buffer, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer })),
      });
    const layouts = new Map();
    this.params = layout([{ type: "uniform", hasDynamicOffset: true }]);
    const { shaders, codes } = JSON.parse(new TextDecoder().decode(text));
    this.codes = await Promise.all(
      codes.map(async ([shader, bindings, words, extents, turns, other], k) => {
        const [number, grid, loops] = this.isSoftware && other ? other : [shader, extents, turns];
        const code = shaders[number];
        const count = new Set(bindings).size;
        if (!layouts.has(count)) layouts.set(count, layout(Array(count).fill({ type: "storage" })));
        const bindGroupLayouts = [layouts.get(count), this.params];
        const module = this.device.createShaderModule({ label: this.names[k], code });
        const pipeline = await this.device
          .createComputePipelineAsync({
            label: this.names[k],
            layout: this.device.createPipelineLayout({ bindGroupLayouts }),
            compute: { module, entryPoint: "main" },
          })
          .catch(async (error) => {
            const { messages } = await module.getCompilationInfo();
            const { lineNum, message } = messages.find(({ type }) => type === "error") ?? error;
            const line = lineNum ? `, line ${lineNum} (${code.split("\n")[lineNum - 1].trim()})` : "";
            throw new Error(`the shader ${this.names[k]} does not compile here${line}: ${message}`);
          });
        return { pipeline, layout: bindGroupLayouts[0], bindings, words, grid, loops };
      }),
    );
    this.isLoaded = true;
  }

  buffer(size, usage) {
    const { maxBufferSize } = this.device.limits;
    if (size > maxBufferSize) throw new RangeError(`a buffer of ${size} bytes exceeds ${maxBufferSize} of this GPU; use wasm`);
    return this.device.createBuffer({ size, usage: usage | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
  }

  allocate(nbytes) {
    return { buffer: this.buffer(Math.max(16, padded(nbytes, 16)), GPUBufferUsage.STORAGE) };
  }

  free({ buffer }) {
    this.queue.flush(); // what waits may use it
    buffer.destroy();
  }

  /** Write bytes; pieces of one tensor come in order. WebGPU writes words: part of one comes again with the rest. */
  write({ chunk, offset }, bytes, at = 0) {
    this.queue.flush();
    let piece = bytes;
    if (at % 4) {
      piece = new Uint8Array((at % 4) + bytes.length);
      piece.set(this.carried);
      piece.set(bytes, at % 4);
      at -= at % 4;
    }
    const whole = piece.length & ~3;
    for (let start = 0; start < whole; start += SLICE) {
      const size = Math.min(SLICE, whole - start);
      this.device.queue.writeBuffer(chunk.buffer, offset + at + start, piece, start, size);
    }
    if (whole === piece.length) return;
    this.carried = piece.slice(whole);
    const last = new Uint8Array(4);
    last.set(this.carried);
    this.device.queue.writeBuffer(chunk.buffer, offset + at + whole, last);
  }

  async read(address, nbytes) {
    return (await this.readAll([[address, nbytes]]))[0];
  }

  /** The bytes of tensors `[address, nbytes]`, read together. */
  async readAll(tensors) {
    const ranges = tensors.map(([{ chunk, offset }, nbytes]) => [chunk.buffer, offset, padded(nbytes)]);
    const reading = this.queue.read(ranges);
    const [[found, failure]] = await Promise.all([reading.then((bytes) => [bytes], (error) => [null, error]), this.settle()]);
    if (failure) throw new Error(this.trouble ?? failure.message);
    if (this.trouble) throw new Error(this.trouble);
    return found.map((bytes, k) => new Uint8Array(bytes.slice(0, tensors[k][1])));
  }

  /** A buffer with a copy of these bytes, for whoever will `free` it. */
  kept(address, nbytes) {
    const chunk = this.allocate(nbytes);
    this.copy(address, { chunk, offset: 0 }, nbytes);
    return chunk.buffer;
  }

  copy(source, target, nbytes) {
    const [from, to] = [source.chunk.buffer, target.chunk.buffer];
    if (!nbytes) return;
    if (from !== to) return this.queue.copy(from, source.offset, to, target.offset, padded(nbytes));
    const between = this.buffer(padded(nbytes), 0); // WebGPU copies between two buffers only
    this.queue.copy(from, source.offset, between, 0, padded(nbytes));
    this.queue.copy(between, 0, to, target.offset, padded(nbytes));
    this.free({ buffer: between });
  }

  /** What runs these launches, `{ code, addresses, params }`, in order; call `release` when it is needed no more. */
  bind(launches) {
    const { limits } = this.device;
    const most = limits.maxComputeWorkgroupsPerDimension;
    const widest = Math.max(16, ...launches.map(({ code }) => 16 * Math.ceil(this.codes[code].words / 4)));
    const stride = ALIGNMENT * Math.ceil(widest / ALIGNMENT);
    const table = new Int32Array((launches.length * stride) / 4);
    const dispatches = launches.flatMap(({ code, addresses, params }, k) => {
      const { pipeline, layout, bindings, grid, loops } = this.codes[code];
      const points = grid.reduce((product, size) => product * Math.max(0, extent(size, params)), 1);
      const groups = grid.length ? Math.ceil(points / WORKGROUP) : 1;
      const rows = Math.ceil(groups / most);
      if (!groups) return [];
      table.set(params, (k * stride) / 4);
      const group = this.group(layout, this.entries(bindings, addresses));
      const nbytes = addresses.reduce((sum, address) => sum + address.nbytes, 0);
      const cost = estimate(points, extent(loops, params), nbytes);
      return [{ pipeline, group, offset: k * stride, x: Math.ceil(groups / rows), y: rows, cost }];
    });
    const uniform = this.buffer(Math.max(stride, table.byteLength), GPUBufferUsage.UNIFORM);
    this.device.queue.writeBuffer(uniform, 0, table);
    const entries = [{ binding: 0, resource: { buffer: uniform, size: widest } }];
    const work = new Work(this.group(this.params, entries), dispatches);
    return { run: () => this.run(work), release: () => this.free({ buffer: uniform }) };
  }

  group(layout, entries) {
    this.counts.groups++;
    return this.device.createBindGroup({ layout, entries });
  }

  entries(bindings, addresses) {
    const most = this.device.limits.maxStorageBufferBindingSize;
    return [...new Set(bindings)].map((binding) => {
      const { chunk, offset, nbytes } = addresses[bindings.indexOf(binding)];
      if (nbytes > most) throw new RangeError(`a tensor of ${nbytes} bytes exceeds ${most} of this GPU; use wasm`);
      const resource = nbytes
        ? { buffer: chunk.buffer, offset, size: padded(nbytes, 16) } // shaders take four elements at a time
        : { buffer: this.empty, offset: binding * ALIGNMENT, size: ALIGNMENT };
      return { binding, resource };
    });
  }

  run(work) {
    if (this.trouble) throw new Error(this.trouble);
    this.queue.run(work);
  }

  close() {
    this.device.destroy();
  }
}

const padded = (nbytes, unit = 4) => unit * Math.ceil(nbytes / unit);
