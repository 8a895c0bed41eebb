/** Graphics processors: the shaders of a bundle, bound to buffers and run. */

import { Client, padded } from "./client.js";
import { Gpu } from "./gpu.js";
import { Work, estimate } from "./queue.js";
import { OPERATORS } from "./sizes.js";
import { MOST, isCount, need, sound } from "./soundness.js";

const ALIGNMENT = 256;
const WORKGROUP = 64;
const SLICE = 1 << 24; // bytes handed over at once: the browser holds a copy until they are there

const { "+": add, "*": mul, floordiv: div, mod: rem, min, max } = OPERATORS;
const EXTENTS = { add, mul, div, rem, min, max, sub: (a, b) => a - b };

/** An extent of a grid: arithmetic on constants and parameters. */
function extent([operator, , ...details], params) {
  if (operator === "const") return details[0];
  if (operator === "param") return params[details[0]];
  return EXTENTS[operator](...details.map((part) => extent(part, params)));
}

/** What a section has, if it can be used for the codes of a manifest. */
function checked({ shaders, codes }, listed) {
  listed.forEach(([name, reads, writes], k) => {
    const [shader, bindings, words, extents, turns, other] = codes[k];
    const isSize = (size) => typeof extent(size, Array(words).fill(1)) === "number";
    const isThere = ([number, grid, loops]) => typeof shaders[number] === "string" && [...grid, loops].every(isSize);
    const isBound = bindings.length === reads + writes && [words, ...bindings].every((number) => isCount(number, MOST));
    need(isBound && isThere([shader, extents, turns]) && (!other || isThere(other)), `${name} has no shader`);
  });
  return { shaders, codes };
}

export class WebGpuDevice extends Client {
  static async open(told, device) {
    return new WebGpuDevice(device ? Gpu.of(device) : await Gpu.take(), told);
  }

  constructor(gpu, told) {
    super(gpu);
    this.counts = { groups: 0 };
    this.section = told.section;
    this.isLoaded = false;
  }

  async load(text) {
    const layout = (types) =>
      this.device.createBindGroupLayout({
        entries: types.map((buffer, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer })),
      });
    const layouts = new Map();
    const { shaders, codes } = sound(this.section, () => checked(JSON.parse(new TextDecoder().decode(text)), this.listed));
    const made = () => {
      this.params = layout([{ type: "uniform", hasDynamicOffset: true }]);
      return this.listed.map(async ([label], k) => {
        const [shader, bindings, words, extents, turns, other] = codes[k];
        const [number, grid, loops] = this.gpu.isSoftware && other ? other : [shader, extents, turns];
        const code = shaders[number];
        const count = new Set(bindings).size;
        if (!layouts.has(count)) layouts.set(count, layout(Array(count).fill({ type: "storage" })));
        const bindGroupLayouts = [layouts.get(count), this.params];
        const module = this.device.createShaderModule({ label, code });
        const pipeline = await this.device
          .createComputePipelineAsync({
            label,
            layout: this.device.createPipelineLayout({ bindGroupLayouts }),
            compute: { module, entryPoint: "main" },
          })
          .catch(async (error) => {
            const { messages } = await module.getCompilationInfo();
            if (this.gpu.trouble) throw new Error(this.gpu.trouble);
            const { lineNum, message } = messages.find(({ type }) => type === "error") ?? error;
            const line = lineNum ? `, line ${lineNum} (${code.split("\n")[lineNum - 1].trim()})` : "";
            throw new Error(`the shader ${label} does not compile here${line}: ${message}`);
          });
        return { pipeline, layout: bindGroupLayouts[0], bindings, words, grid, loops };
      });
    };
    this.codes = await Promise.all(this.watch(made));
    this.isLoaded = true;
  }

  /** Write bytes; pieces of one tensor come in order. WebGPU writes words: part of one comes again with the rest. */
  write({ chunk, offset }, bytes, at = 0) {
    this.gpu.flush();
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
      this.put(chunk.buffer, offset + at + start, piece, start, size);
    }
    if (whole === piece.length) return;
    this.carried = piece.slice(whole);
    const last = new Uint8Array(4);
    last.set(this.carried);
    this.put(chunk.buffer, offset + at + whole, last);
  }

  /** What runs these launches, `{ code, addresses, params }`, in order; call `release` when it is needed no more. */
  bind(launches) {
    return this.watch(() => this.bound(launches));
  }

  bound(launches) {
    const { limits } = this.device;
    const most = limits.maxComputeWorkgroupsPerDimension;
    const widest = Math.max(16, ...launches.map(({ code }) => padded(4 * this.codes[code].words, 16)));
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
    this.put(uniform, 0, table);
    const entries = [{ binding: 0, resource: { buffer: uniform, size: widest } }];
    const work = new Work(this.group(this.params, entries), dispatches);
    return { run: () => this.run(work), repeat: null, release: () => this.free({ buffer: uniform }) };
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
        : { buffer: this.gpu.empty, offset: binding * ALIGNMENT, size: ALIGNMENT };
      return { binding, resource };
    });
  }

  run(work) {
    if (this.gpu.trouble) throw new Error(this.gpu.trouble);
    this.queue.run(work);
  }
}
