/** A session, as `onnxruntime-common` wants it. */

import { Tensor } from "onnxruntime-common";
import { Tensor as Own } from "../types.js";

export class Handler {
  constructor(session, { freeDimensionOverrides = {} }) {
    this.session = session;
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
  }

  async run(feeds, fetches) {
    const ranks = new Map(this.session.inputs.map(({ name, dims }) => [name, dims?.length]));
    const given = Object.fromEntries(Object.entries(feeds).map(([name, tensor]) => [name, own(name, tensor, ranks.get(name))]));
    const names = Object.keys(fetches);
    const results = await this.session.run(given, names);
    return Object.fromEntries(names.map((name) => [name, into(fetches[name], results[name], name)]));
  }

  async dispose() {
    this.session.release();
  }

  startProfiling() {
    throw new Error("sessions in pages are not profiled; in Python, SessionOptions.enable_profiling is there");
  }

  endProfiling() {
    this.startProfiling();
  }
}

/** The tensor that a session takes; onnxruntime takes one element in any rank for a scalar. */
function own(name, { type, location, data, dims }, rank) {
  if (location !== "cpu" && location !== "cpu-pinned") throw new Error(`input '${name}' lies in ${location}; feed it by getData()`);
  return new Own(type, data, rank === 0 && data.length === 1 ? [] : dims);
}

/** What a run gives, in the tensor that the caller has for it, if any. */
function into(kept, { type, data, dims }, name) {
  if (!kept) return new Tensor(type, data, dims);
  if (kept.type !== type || kept.size !== data.length) {
    throw new Error(`output '${name}' is ${type}[${dims}], for which a tensor ${kept.type}[${kept.dims}] has no room`);
  }
  if (type === "string") kept.data.splice(0, data.length, ...data);
  else kept.data.set(data);
  return kept;
}
