/** A session, as `onnxruntime-common` wants it. */

import { Tensor } from "onnxruntime-common";
import { Tensor as Own, copyOf, product } from "../types.js";
import { GPU, placed, stayed } from "./buffers.js";

const FOURS = { int4: Int8Array, uint4: Uint8Array }; // two elements in a byte, the first one below

export class Handler {
  constructor(session, { freeDimensionOverrides = {}, preferredOutputLocation = "cpu", enableProfiling = false }) {
    this.session = session;
    this.gpu = session.device?.gpu;
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
    const known = Object.fromEntries(this.inputNames.map((name) => [name, feeds[name]])); // onnxruntime-node ignores others
    const given = mapped(known, (name, tensor) => this.own(name, tensor));
    const places = mapped(fetches, (name, tensor) => this.place(name, tensor));
    const start = performance.now();
    const results = await this.session.run(given, Object.keys(fetches), places);
    if (this.isProfiled) performance.measure("sardonyx run", { start });
    return mapped(fetches, (name, tensor) => this.into(tensor, results[name], name));
  }

  /**
   * The tensor that a session takes, of elements that stay as they are if the caller's change: a run begins later. What
   * a worker is told is copied anyway. onnxruntime takes one element in any rank for a scalar.
   */
  own(name, tensor) {
    const { type, location, dims } = tensor ?? {};
    if (location === GPU) return placed(tensor, this.gpu, "COPY_SRC", `input '${name}'`);
    if (location === "none") throw new Error(`input '${name}' was disposed of`);
    if (location && location !== "cpu" && location !== "cpu-pinned") {
      throw new Error(`input '${name}' lies in ${location}, which sessions do not take; feed what its getData() gives, or sardonyx/picture.js`);
    }
    const data = tensor?.data; // onnxruntime-common up to 1.16 says no location
    if (!type || !data) throw new TypeError(`input '${name}' is no Tensor: make one, new Tensor(type, data, dims)`);
    const elements = FOURS[type] ? unpacked(type, data, product(dims)) : this.session.graph ? copyOf(name, data) : data;
    return new Own(type, elements, this.ranks.get(name) === 0 && data.length === 1 ? [] : dims);
  }

  /** Where an output is to be left on the GPU: in a tensor of the caller's, or one of its own, or not. */
  place(name, tensor) {
    if (tensor?.location === GPU) return placed(tensor, this.gpu, "COPY_DST", `output '${name}'`);
    return !tensor && this.stays.includes(name);
  }

  /** What a run gives, in the tensor that the caller has for it, if any. */
  into(kept, result, name) {
    if (kept?.location === GPU) return kept;
    if (result.buffer) return stayed(result, this.gpu);
    const { type, dims } = result;
    const data = FOURS[type] ? packed(result.data) : result.data;
    if (!kept) return new Tensor(type, data, dims);
    if (kept.type !== type || kept.size !== product(dims)) {
      throw new Error(`output '${name}' is ${type}[${dims}], for which a tensor ${kept.type}[${kept.dims}] has no room`);
    }
    if (type === "string") kept.data.splice(0, data.length, ...data);
    else kept.data.set(data);
    return kept;
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

const unpacked = (type, bytes, length) =>
  FOURS[type].from({ length }, (_, k) => {
    const four = (bytes[k >> 1] >> (4 * (k & 1))) & 15;
    return type === "int4" ? (four << 28) >> 28 : four;
  });

function packed(elements) {
  const bytes = new Uint8Array((elements.length + 1) >> 1);
  elements.forEach((element, k) => (bytes[k >> 1] |= (element & 15) << (4 * (k & 1))));
  return bytes;
}

const mapped = (object, make) =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, make(name, value)]));
