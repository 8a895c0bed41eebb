/** Lines of text in a picture: one model finds them, another reads them (PP-OCRv4). */

import { Tensor, load } from "./sardonyx/runtime.js";
import { inOrder, regions, spelled } from "./lines.js";

const LONGEST = 960; // pixels of the longer side, to which a picture is shrunk before text is looked for
const [INK, SURE] = [0.3, 0.5]; // the least share of text of a pixel, and on average of a line
const SPREAD = 2; // the model marks the core of a line, area / perimeter smaller than it is (Liao et al., 2020)
const [HEIGHT, STEP] = [48, 160]; // of a line when it is read; its width is a multiple, so that few plans serve all

export class Reader {
  /** `heard(name)` gives a listener to the bytes of a file. */
  static async load(folder, target, heard) {
    const letters = await (await fetch(`${folder}/letters.json`)).json();
    const open = (name) => load(`${folder}/${name}.sdx`, { target, progress: ({ loaded }) => heard(name)(loaded) });
    const sessions = await Promise.all([open("det"), open("rec")]);
    return new Reader(sessions, letters);
  }

  constructor([finder, reader], letters) {
    Object.assign(this, { finder, reader, letters });
  }

  get threads() {
    return Math.max(this.finder.threads, this.reader.threads);
  }

  release() {
    this.finder.release();
    this.reader.release();
  }

  /** The boxes [left, top, right, bottom] of lines in a picture, a canvas, from top to bottom. */
  async find(picture) {
    const scale = Math.min(1, LONGEST / Math.max(picture.width, picture.height));
    const [width, height] = [picture.width, picture.height].map((side) => Math.max(32, 32 * Math.round((side * scale) / 32)));
    const [across, down] = [picture.width / width, picture.height / height];
    const x = signal(picture, [0, 0, picture.width, picture.height], width, height, width);
    const shares = await only(this.finder, x);
    const found = [];
    for (const [left, top, right, bottom] of regions(shares.map((share) => share > INK), width, height)) {
      if (Math.min(right - left, bottom - top) < 3 || mean(shares, width, [left, top, right, bottom]) < SURE) continue;
      const grow = (SPREAD * (right - left) * (bottom - top)) / (2 * (right - left + bottom - top));
      found.push([
        Math.max(0, (left - grow) * across), Math.max(0, (top - grow) * down),
        Math.min(picture.width, (right + grow) * across), Math.min(picture.height, (bottom + grow) * down),
      ]);
    }
    return inOrder(found);
  }

  /** The text of a line, "" where nothing can be read, and how sure the model is. */
  async read(picture, [left, top, right, bottom]) {
    const line = [left, top, right - left, bottom - top].map(Math.round);
    const width = Math.max(1, Math.round((HEIGHT * line[2]) / Math.max(1, line[3])));
    const shares = await only(this.reader, signal(picture, line, width, HEIGHT, Math.max(2 * STEP, STEP * Math.ceil(width / STEP))));
    const { text, share } = spelled(shares, this.letters);
    return share >= SURE ? { text, share } : { text: "", share };
  }
}

async function only(session, x) {
  const found = await session.run({ [session.inputs[0].name]: x });
  return found[session.outputs[0].name].data;
}

function mean(shares, width, [left, top, right, bottom]) {
  let sum = 0;
  for (let y = top; y < bottom; y++) for (let x = left; x < right; x++) sum += shares[y * width + x];
  return sum / ((right - left) * (bottom - top));
}

/** A part of a picture as the models take it, [1, 3, height, room]: blue, green and red, -1 to 1, and 0 to the right. */
function signal(picture, [left, top, across, down], width, height, room) {
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  brush.imageSmoothingQuality = "high";
  brush.drawImage(picture, left, top, Math.max(1, across), Math.max(1, down), 0, 0, width, height);
  const { data } = brush.getImageData(0, 0, width, height);
  const x = new Float32Array(3 * height * room);
  for (let y = 0; y < height; y++) {
    for (let k = 0; k < width; k++) {
      for (let c = 0; c < 3; c++) x[((2 - c) * height + y) * room + k] = data[4 * (y * width + k) + c] / 127.5 - 1;
    }
  }
  return new Tensor("float32", x, [1, 3, height, room]);
}
