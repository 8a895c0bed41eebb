/** A session, as `onnxruntime-common` wants it. */

import { Tensor } from "onnxruntime-common";
import { Tensor as Own, arrayOf, product, widthOf } from "../types.js";

const GPU = "gpu-buffer";
const homes = new WeakMap(); // the device of each buffer that a session gave

export class Handler {
  constructor(session, { freeDimensionOverrides = {}, preferredOutputLocation = "cpu", enableProfiling = false }) {
    this.session = session;
    this.isProfiled = enableProfiling;
    const told = ({ name, type, dims }) => ({
      name,
      isTensor: true,
      type,
      shape: (dims ?? []).map((size) => (typeof size === "string" ? (freeDimensionOverrides[size] ?? size) : (size ?? ""))),
    });
    this.inputMetadata = session.inputs.map(told);
    this.outputMetadata = session.outputs.map(told);
    this.inputNames = session.inputs.map(({ name }) => name);
    this.outputNames = session.outputs.map(({ name }) => name);
    this.ranks = new Map(session.inputs.map(({ name, dims }) => [name, dims?.length]));
    const located = (name) => (typeof preferredOutputLocation === "string" ? preferredOutputLocation : preferredOutputLocation[name]);
    this.stays = session.target === "webgpu" ? this.outputNames.filter((name) => located(name) === GPU) : [];
  }

  async run(feeds, fetches, { terminate } = {}) {
    if (terminate) throw new Error("the run was ended before it began: its option terminate is set");
    const given = Object.fromEntries(Object.entries(feeds).map(([name, tensor]) => [name, this.own(name, tensor)]));
    const names = Object.keys(fetches);
    const stays = this.stays.filter((name) => !fetches[name]);
    const start = performance.now();
    const results = await this.session.run(given, names, stays);
    if (this.isProfiled) performance.measure("sardonyx run", { start });
    return Object.fromEntries(names.map((name) => [name, this.into(fetches[name], results[name], name)]));
  }

  /** The tensor that a session takes; onnxruntime takes one element in any rank for a scalar. */
  own(name, tensor) {
    const { type, location, dims } = tensor;
    const { device } = this.session;
    if (location === GPU && device && homes.get(tensor.gpuBuffer) === device) return { type, dims, buffer: tensor.gpuBuffer };
    if (location !== "cpu" && location !== "cpu-pinned") {
      throw new Error(`input '${name}' lies in ${location}, where this session did not put it; feed what its getData() gives`);
    }
    const { data } = tensor;
    return new Own(type, data, this.ranks.get(name) === 0 && data.length === 1 ? [] : dims);
  }

  /** What a run gives, in the tensor that the caller has for it, if any. */
  into(kept, { type, data, dims, buffer }, name) {
    if (buffer) return this.stayed(type, dims, buffer);
    if (!kept) return new Tensor(type, data, dims);
    if (kept.type !== type || kept.size !== data.length) {
      throw new Error(`output '${name}' is ${type}[${dims}], for which a tensor ${kept.type}[${kept.dims}] has no room`);
    }
    if (type === "string") kept.data.splice(0, data.length, ...data);
    else kept.data.set(data);
    return kept;
  }

  /** A tensor on the GPU, which is the caller's to dispose of. */
  stayed(type, dims, buffer) {
    const { device } = this.session;
    homes.set(buffer, device);
    return Tensor.fromGpuBuffer(buffer, {
      dataType: type,
      dims,
      dispose: () => device.free({ buffer }),
      async download() {
        const bytes = await device.read({ chunk: { buffer }, offset: 0 }, product(dims) * widthOf(type));
        return new (arrayOf(type))(bytes.buffer);
      },
    });
  }

  async dispose() {
    this.session.release();
  }

  /** From now on, each run is a measure in the browser's tools, "sardonyx run". */
  startProfiling() {
    this.isProfiled = true;
  }

  endProfiling() {
    this.isProfiled = false;
  }
}
