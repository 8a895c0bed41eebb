// From a frame to boxes in a page: `start(side, about)` loads what a side needs; `steady` times both in turns; `hold` tells
// what memory a session has after so many frames.

import { turns } from "./turns.mjs";

const PAD = 114;
const STRIDES = [8, 16, 32];
const sides = {};
let frame;

/** What heads differ in: how pixels become floats, where the picture lies, and what an output says of each cell. */
const HEADS = {
  yolov8: { unit: 255, order: [0, 1, 2], isCentred: true, cells: columns },
  yolox: { unit: 1, order: [2, 1, 0], isCentred: false, cells: grids },
};

/** The surest class of each cell and its box, [1, 4 + classes, cells]: middle, width and height in pixels. */
function* columns({ data, dims }, threshold) {
  const [, count, cells] = dims;
  for (let k = 0; k < cells; k++) {
    let [score, label] = [threshold, -1];
    for (let c = 4; c < count; c++) {
      if (data[c * cells + k] > score) [score, label] = [data[c * cells + k], c - 4];
    }
    if (label >= 0) yield [score, label, ...[0, 1, 2, 3].map((c) => data[c * cells + k])];
  }
}

/** The same of [1, cells, 5 + classes] on grids: an offset in the cell, logarithms of sides, and whether there is anything. */
function* grids({ data, dims }, threshold, side) {
  const count = dims[2];
  let k = 0;
  for (const stride of STRIDES) {
    for (let y = 0; y < side / stride; y++) {
      for (let x = 0; x < side / stride; x++, k += count) {
        let [score, label] = [threshold, -1];
        for (let c = 5; c < count; c++) {
          if (data[k + 4] * data[k + c] > score) [score, label] = [data[k + 4] * data[k + c], c - 5];
        }
        if (label < 0) continue;
        const [wide, high] = [Math.exp(data[k + 2]), Math.exp(data[k + 3])];
        yield [score, label, ...[data[k] + x, data[k + 1] + y, wide, high].map((each) => each * stride)];
      }
    }
  }
}

/** The frame, a canvas of this size: the picture at an address fills it. */
export async function show(width, height) {
  const bitmap = await createImageBitmap(await (await fetch("/data/picture")).blob());
  const scale = Math.max(width / bitmap.width, height / bitmap.height);
  frame = Object.assign(document.createElement("canvas"), { width, height });
  const [w, h] = [bitmap.width * scale, bitmap.height * scale];
  frame.getContext("2d").drawImage(bitmap, (width - w) / 2, 0.3 * (height - h), w, h);
}

/** Everything around the network in JavaScript, as pages do it: a letterbox on a canvas, planes of floats, loops. */
async function theirs({ side, head, threshold, overlap }) {
  const ort = await import("/onnxruntime/ort.wasm.min.mjs");
  Object.assign(ort.env.wasm, { numThreads: 1, proxy: false, wasmPaths: "/onnxruntime/" });
  ort.env.logLevel = "error";
  const session = await ort.InferenceSession.create("/data/model.onnx", { executionProviders: ["wasm"] });
  const brush = new OffscreenCanvas(side, side).getContext("2d", { willReadFrequently: true });
  const planes = new Float32Array(3 * side * side);
  const { unit, order, isCentred, cells } = HEADS[head];
  const [red, green, blue] = order;
  return async () => {
    const { width, height } = frame;
    const scale = Math.min(side / width, side / height);
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    const [left, top] = isCentred ? [(side - w) >> 1, (side - h) >> 1] : [0, 0];
    brush.fillStyle = `rgb(${PAD} ${PAD} ${PAD})`;
    brush.fillRect(0, 0, side, side);
    brush.drawImage(frame, left, top, w, h);
    const { data } = brush.getImageData(0, 0, side, side);
    const area = side * side;
    for (let k = 0; k < area; k++) {
      planes[k] = data[4 * k + red] / unit;
      planes[area + k] = data[4 * k + green] / unit;
      planes[2 * area + k] = data[4 * k + blue] / unit;
    }
    const input = new ort.Tensor("float32", planes, [1, 3, side, side]);
    const results = await session.run({ [session.inputNames[0]]: input });
    const found = [];
    for (const [score, label, x, y, wide, high] of cells(results[session.outputNames[0]], threshold, side)) {
      const corners = [x - wide / 2 - left, y - high / 2 - top, x + wide / 2 - left, y + high / 2 - top];
      found.push({ score, label, box: corners.map((each) => each / scale) });
    }
    found.sort((a, b) => b.score - a.score);
    const kept = [];
    for (const each of found) if (kept.every((other) => other.label !== each.label || shared(other.box, each.box) <= overlap)) kept.push(each);
    return kept;
  };
}

function shared(a, b) {
  const wide = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]));
  const high = Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const area = (box) => (box[2] - box[0]) * (box[3] - box[1]);
  return (wide * high) / (area(a) + area(b) - wide * high);
}

let sessions = [];

/** Two pages' worth of ours, since one that looks at frames of two sizes in turns makes its canvas and its plan anew. */
async function ours() {
  const { load } = await import("/sardonyx/runtime.js");
  await Promise.all(sessions.map((each) => each.release()));
  const options = { target: "wasm", threads: 1, worker: false };
  sessions = [await load("/data/model.sdx", options), await load("/data/model.sdx", options)];
  const [one, two] = sessions;
  const [{ see }, other] = await Promise.all(["", "?whole"].map((query) => import(`/sardonyx/vision.js${query}`)));
  return {
    reduced: async () => (await see(one, frame, { side: "enough" })).found,
    whole: async () => (await other.see(two, frame)).found,
  };
}

export async function start(about) {
  sides["onnxruntime-web"] = await theirs(about);
  const { whole, reduced } = await ours();
  Object.assign(sides, { Sardonyx: reduced, whole });
}

/** Milliseconds of each side, in turns, and how many boxes they find. */
export async function steady(runs, warm = 100) {
  const names = Object.keys(sides);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  const counts = {};
  for (const name of names) for (let k = 0; k < warm; k++) counts[name] = (await sides[name]()).length;
  for (let k = 0; k < runs; k++) {
    for (const name of turns(names, k)) {
      const begun = performance.now();
      await sides[name]();
      times[name].push(performance.now() - begun);
    }
  }
  return { times, counts };
}

/** Bytes of WebAssembly's memory after so many frames more. */
export async function hold(count) {
  for (let k = 0; k < count; k++) await sides.Sardonyx();
  return sessions[0].memory;
}
