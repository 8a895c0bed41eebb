/**
 * Where examples come from: a pad, a camera, files. Each tells of changes, and gives `{ pixels, shot }`, or null; pictures
 * are seen as a network wants them, `{ side, mean, deviation }`.
 */

import { Pad } from "./pad.js";
import { Pen } from "./pen.js";
import { SIDE as DIGIT, digitOf } from "./preprocess.js";

const FINE = 280; // pixels of the drawing that become 28
const SHOT = 40;
const PAUSE = 120; // milliseconds between two looks of the camera

/** What is drawn. */
export class Drawing {
  constructor(place, changed) {
    const find = (selector) => place.querySelector(selector);
    this.pad = new Pad(find("#pad"));
    this.pad.pen = new Pen(this.pad, (words) => (find("#pen").textContent = words));
    const [hint, clear] = [find("#hint"), find("#clear")];
    this.pad.onchange = () => {
      hint.hidden = !this.pad.isEmpty;
      clear.disabled = this.pad.isEmpty;
      changed();
    };
    clear.onclick = () => this.pad.clear();
  }

  open() {}

  close() {}

  look() {
    if (this.pad.isEmpty) return null;
    const pixels = digitOf(this.pad.pixels(FINE), FINE, FINE);
    const shot = canvasOf(DIGIT);
    const image = new ImageData(DIGIT, DIGIT);
    pixels.forEach((ink, k) => image.data.set([251, 244, 234, Math.round(255 * ink)], 4 * k));
    shot.getContext("2d").putImageData(image, 0, 0);
    return { pixels, shot };
  }

  taken() {
    this.pad.clear();
  }
}

/** What a camera sees. */
export class Camera {
  constructor(place, changed) {
    this.video = place.querySelector("video");
    this.changed = changed;
  }

  async open() {
    if (!navigator.mediaDevices) throw new Error("The browser gives no camera to pages that came neither by https nor from this machine.");
    this.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: 320, height: 320 } }).catch((error) => {
      throw new Error(error.name === "NotAllowedError" ? "The camera was refused; allow it in the browser’s settings." : `There is no camera (${error.message}).`);
    });
    this.video.srcObject = this.stream;
    await this.video.play();
    this.timer = setInterval(this.changed, PAUSE);
  }

  close() {
    clearInterval(this.timer);
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = this.video.srcObject = null;
  }

  look(view) {
    const { videoWidth, videoHeight } = this.video;
    return this.stream && videoWidth ? seen(this.video, videoWidth, videoHeight, view) : null;
  }

  taken() {}
}

/** Pictures in files: one is looked at. */
export class Files {
  constructor(place, changed, failed) {
    this.canvas = place.querySelector("canvas");
    this.changed = changed;
    this.input = place.querySelector("input");
    this.input.onchange = () => {
      const [file] = this.input.files;
      this.input.value = "";
      if (file) this.show(file).catch(failed);
    };
    dropped(place, ([file]) => !file.name.endsWith(".onnx") && this.show(file).catch(failed));
  }

  open() {}

  close() {}

  async show(file) {
    this.image = await pictureOf(file);
    const { canvas, image } = this;
    covered(canvas, image, image.width, image.height);
    this.changed();
  }

  look(view) {
    return this.image ? seen(this.image, this.image.width, this.image.height, view) : null;
  }

  taken() {}
}

/** The example that a file is. */
export async function exampleOf(file, view) {
  const image = await pictureOf(file);
  return seen(image, image.width, image.height, view);
}

async function pictureOf(file) {
  return createImageBitmap(file).catch(() => {
    throw new Error(`${file.name}: this is no picture that the browser can read.`);
  });
}

/** Have files be dropped on an element. */
export function dropped(element, take) {
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files]);
  });
}

function canvasOf(side) {
  return Object.assign(document.createElement("canvas"), { width: side, height: side });
}

/** Draw the middle of a picture, as large as it fits. */
function covered(canvas, image, width, height) {
  const side = Math.min(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, (width - side) / 2, (height - side) / 2, side, side, 0, 0, canvas.width, canvas.height);
  return context;
}

function seen(image, width, height, { side, mean, deviation }) {
  const { data } = covered(canvasOf(side), image, width, height).getImageData(0, 0, side, side);
  const size = side * side;
  const pixels = new Float32Array(3 * size);
  for (let k = 0; k < size; k++) {
    for (let channel = 0; channel < 3; channel++) pixels[channel * size + k] = (data[4 * k + channel] / 255 - mean[channel]) / deviation[channel];
  }
  const shot = canvasOf(SHOT);
  covered(shot, image, width, height);
  return { pixels, shot };
}
