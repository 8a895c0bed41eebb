/** Inputs for models: random ones, and pictures. */

import { Tensor } from "./sardonyx/runtime.js";
import { fromBrain, fromHalf, toBrain, toHalf } from "./halves.js";

const LARGEST = 9; // of random integers about which nothing is known
const WORDS = ["red", "green", "blue", "north", "south", "east", "west"];

/** How pictures become numbers, from 0..1 in each channel; of a drawing, `isLight` tells the colour of the paper. */
const RANGES = {
  ink: { title: "paper 0, ink 1", of: (value, _, isLight) => (isLight ? 1 - value : value) },
  unit: { title: "0 … 1", of: (value) => value },
  byte: { title: "0 … 255", of: (value) => 255 * value },
  signed: { title: "−1 … 1", of: (value) => 2 * value - 1 },
  imagenet: {
    title: "ImageNet's mean and deviation",
    of: (value, channel) => (value - [0.485, 0.456, 0.406][channel]) / [0.229, 0.224, 0.225][channel],
  },
};

/** A tensor for an input of these sizes: masks of 1, positions that count, else random. */
export function made({ name, type }, dims) {
  const size = dims.reduce((a, b) => a * b, 1);
  const isInteger = /^u?int|^bool/.test(type);
  const most = type === "bool" ? 1 : LARGEST;
  const element = () => {
    if (type === "string") return () => WORDS[Math.floor(Math.random() * WORDS.length)];
    if (isInteger && /mask/i.test(name)) return () => 1;
    if (isInteger && /position/i.test(name)) return (k) => k % (dims.at(-1) ?? 1);
    return isInteger ? () => Math.floor(Math.random() * (most + 1)) : () => Math.random();
  };
  return tensorOf(type, Array.from({ length: size }, (_, k) => k).map(element()), dims);
}

/** A tensor of numbers or texts, whatever its type. */
export function tensorOf(type, values, dims) {
  if (type === "float16" && !globalThis.Float16Array) return new Tensor(type, Uint16Array.from(values, toHalf), dims);
  if (type === "bfloat16") return new Tensor(type, Uint16Array.from(values, toBrain), dims);
  return new Tensor(type, values, dims);
}

/** Where an input's height, width and channels are, if it may be a picture. */
export function layoutOf(dims) {
  if (dims?.length !== 4) return null;
  if ([1, 3].includes(dims[1])) return { channels: dims[1], height: 2, width: 3 };
  return dims[3] === 3 ? { channels: 3, height: 1, width: 2, isLast: true } : null;
}

/** What RANGES has for an input, `[name, title]`, the usual one first; drawings have one channel. */
export const rangesFor = (dims) =>
  Object.entries(RANGES).map(([name, { title }]) => [name, title]).slice(layoutOf(dims).channels === 1 ? 0 : 1);

/** The tensor of a picture, an ImageBitmap, stretched to an input's size. */
export function pictured({ type }, dims, image, range) {
  const { channels, height, width, isLast } = layoutOf(dims);
  const [rows, columns] = [dims[height], dims[width]];
  const context = new OffscreenCanvas(columns, rows).getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, columns, rows);
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, columns, rows);
  const { data } = context.getImageData(0, 0, columns, rows);
  const area = rows * columns;
  const gray = (k) => 0.299 * data[4 * k] + 0.587 * data[4 * k + 1] + 0.114 * data[4 * k + 2];
  const { of } = RANGES[/int/.test(type) ? "byte" : range];
  const isLight = data.reduce((sum, value) => sum + value, 0) > 2.5 * 255 * area; // half of white, and the opacity
  const one = Array.from({ length: channels * area }, (_, k) => {
    const [channel, pixel] = isLast ? [k % channels, Math.floor(k / channels)] : [Math.floor(k / area), k % area];
    const value = (channels === 1 ? gray(pixel) : data[4 * pixel + channel]) / 255;
    return of(value, channel, isLight);
  });
  return tensorOf(type, Array(dims[0]).fill(one).flat(), dims);
}

/** The numbers in a tensor, those of types that JavaScript lacks too. */
export function numbersOf({ type, data }) {
  if (type === "float16" && data instanceof Uint16Array) return Float32Array.from(data, fromHalf);
  if (type === "bfloat16") return Float32Array.from(data, fromBrain);
  return /64/.test(type) && typeof data[0] === "bigint" ? Float64Array.from(data, Number) : data;
}
