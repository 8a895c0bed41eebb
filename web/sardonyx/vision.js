/**
 * What is in pictures, by bundles that were compiled with `--detect`, `--classify` or `--segment`.
 *
 *     import { load } from "./sardonyx/runtime.js";
 *     import { mark, watch } from "./sardonyx/vision.js";
 *     const session = await load("detector.sdx", { target: ["webgpu", "wasm"] });
 *     for await (const seen of watch(session, video)) mark(canvas, seen);
 */

import { pixels, sizeOf } from "./picture.js";
import { Tensor } from "./types.js";

const COLORS = ["#e63946", "#1d84b5", "#2a9d50", "#c2570c", "#8338ec", "#00796b"];
const MOST = 0.5; // of a frame's pixels, where a canvas reduces it: near the whole there is little to win
const LETTERS = 0.028; // of the picture's longer side

/** Of the boxes of a class. */
export const colorOf = (number) => COLORS[number % COLORS.length];

/** The names of classes that the bundle of a session has, [] where nobody named them. */
export const labelsOf = (session) => told(session, "labels");

/** What the metadata of a session's bundle has under a name, [] where it has nothing. */
function told({ bundle }, name) {
  const metadata = bundle.manifest.model.at(-1).at(-1);
  return JSON.parse(metadata[`sardonyx.${name}`] ?? "[]");
}

/**
 * What is in a picture: an image, a canvas, a video or a frame of it, an ImageBitmap.
 *
 * Gives `{ found, mask, width, height, milliseconds }`. `found` has `{ label, number, score, box }` for each object, the
 * surest first, `box` being left, top, right and bottom in pixels, or for each class, without boxes; `mask` has the class
 * of each pixel. On a GPU the picture does not leave it. `labels` are names of classes, if not those of the bundle.
 * `side` is the longest side that the bundle is given: what is larger is reduced by the canvas before, which is faster
 * and rounds to whole levels. "enough" leaves a pixel for each of the network's input that shows the picture, where those
 * are half of the pixels at most. GPUs, and bundles that give masks, have all pixels.
 */
export async function see(session, source, { labels = labelsOf(session), side = Infinity } = {}) {
  const start = performance.now();
  const [width, height] = sizeOf(source);
  const scales = reduction(session, width, height, side);
  const [wide, high] = [width, height].map((each, axis) => Math.max(1, Math.round(each * scales[axis])));
  const image = session.gpu ? await pixels(source, { device: session.gpu }) : read(source, wide, high);
  const outputs = await session.run({ [session.inputs[0].name]: image }).finally(() => image.buffer?.destroy());
  const found = Array.from(outputs.labels?.data ?? [], (number, k) => {
    const what = { label: labels[number] ?? String(number), number: Number(number), score: outputs.scores.data[k] };
    const sides = outputs.boxes?.data.subarray(4 * k, 4 * k + 4);
    return sides ? { ...what, box: Array.from(sides, (each, axis) => each * (axis % 2 ? height / high : width / wide)) } : what;
  });
  return { found, mask: outputs.mask?.data ?? null, width, height, milliseconds: performance.now() - start };
}

/** By what a canvas multiplies width and height. */
function reduction(session, width, height, side) {
  if (session.gpu || session.outputs.some(({ name }) => name === "mask")) return [1, 1];
  if (side !== "enough") return Array(2).fill(Math.min(1, side / Math.max(width, height)));
  const [high, wide, fit = "cover"] = told(session, "size");
  const scales = [wide / width, high / height].map((each) => Math.min(1, each));
  if (fit !== "stretch") scales.fill(Math[fit === "cover" ? "max" : "min"](...scales));
  return scales[0] * scales[1] <= MOST ? scales : [1, 1];
}

/**
 * What is in a video or a canvas, frame after frame: what `see` gives, and how many frames were `dropped` before it.
 *
 * Large frames are reduced by a canvas to what is "enough" for the network; `side: Infinity` has it look at all pixels.
 * A frame is taken when the one before was dealt with, and it is the newest then: none is kept waiting. It ends with the
 * video, or by `signal`.
 */
export async function* watch(session, source, { signal, ...options } = {}) {
  const frames = new Frames(source, signal);
  try {
    while (await frames.next()) {
      const { dropped } = frames;
      const seen = await see(session, source, { side: "enough", ...options });
      if (signal?.aborted) return;
      yield { ...seen, dropped };
    }
  } finally {
    frames.end();
  }
}

/** Draw boxes with labels on a canvas, which gets the picture's size and may lie upon it. */
export function mark(canvas, { found, width, height }) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const brush = canvas.getContext("2d");
  brush.clearRect(0, 0, width, height);
  const high = Math.max(11, Math.round(LETTERS * Math.max(width, height)));
  Object.assign(brush, { font: `600 ${high}px system-ui, sans-serif`, textBaseline: "middle", lineJoin: "round" });
  brush.lineWidth = Math.max(2, high / 6);
  for (const { label, number, score, box } of [...found].reverse()) {
    const [left, top, right, bottom] = box;
    const words = `${label} ${Math.round(100 * score)}%`;
    const [wide, tall] = [brush.measureText(words).width + high, 1.5 * high];
    const x = Math.max(0, Math.min(left - brush.lineWidth / 2, width - wide));
    const y = top < tall ? Math.min(bottom, height - tall) : top - tall; // below where there is no room above
    brush.strokeStyle = brush.fillStyle = colorOf(number);
    brush.strokeRect(left, top, right - left, bottom - top);
    brush.fillRect(x, y, wide, tall);
    brush.fillStyle = "#fff";
    brush.fillText(words, x + high / 2, y + tall / 2);
  }
}

/** When a source shows something new. */
class Frames {
  constructor(source, signal) {
    const isVideo = "requestVideoFrameCallback" in source;
    this.ask = isVideo ? (then) => source.requestVideoFrameCallback(then) : (then) => requestAnimationFrame(then);
    this.cancel = isVideo ? (asked) => source.cancelVideoFrameCallback(asked) : (asked) => cancelAnimationFrame(asked);
    this.waiting = isVideo && source.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA ? 1 : 0; // the one that is shown
    this.dropped = 0;
    this.isOver = signal?.aborted || source.ended;
    const over = () => this.end();
    source.addEventListener?.("ended", over);
    signal?.addEventListener("abort", over);
    this.leave = () => {
      source.removeEventListener?.("ended", over);
      signal?.removeEventListener("abort", over);
    };
    let last = null; // a page that was busy is not told of each
    const shown = (_, told) => {
      const count = told?.presentedFrames ?? null;
      this.waiting += last === null ? 1 : count - last;
      last = count;
      this.asked = this.ask(shown);
      this.wake?.();
    };
    this.asked = this.ask(shown);
  }

  /** Whether there is one more, once it is there. */
  async next() {
    if (!this.waiting && !this.isOver) await new Promise((resolve) => (this.wake = resolve));
    this.dropped = Math.max(0, this.waiting - 1);
    this.waiting = 0;
    return !this.isOver;
  }

  end() {
    this.isOver = true;
    this.cancel(this.asked);
    this.leave();
    this.wake?.();
  }
}

let canvas = null;

/** The bytes of a picture, for WebAssembly. */
function read(source, width, height) {
  canvas ??= new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  if (canvas.canvas.width !== width || canvas.canvas.height !== height) Object.assign(canvas.canvas, { width, height });
  const [wide, high] = sizeOf(source);
  canvas.imageSmoothingQuality = Math.max(wide / width, high / height) > 2 ? "high" : "low"; // which leaves pixels out beyond 2
  canvas.clearRect(0, 0, width, height);
  canvas.drawImage(source, 0, 0, width, height);
  return new Tensor("uint8", canvas.getImageData(0, 0, width, height).data, [height, width, 4]);
}
