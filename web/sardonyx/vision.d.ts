/** What is in pictures, by bundles that were compiled with `--detect`, `--classify` or `--segment`. */

import type { Session } from "./runtime.js";

export type Source = HTMLImageElement | HTMLCanvasElement | HTMLVideoElement | OffscreenCanvas | ImageBitmap | VideoFrame;

export interface Found {
  label: string;
  number: number;
  score: number;
  /** Left, top, right and bottom in pixels of the picture; classes of the whole have none. */
  box?: [number, number, number, number];
}

export interface Seen {
  /** The surest first. */
  found: Found[];
  /** The class of each pixel, row by row, if the bundle gives that. */
  mask: Uint8Array | null;
  width: number;
  height: number;
  milliseconds: number;
}

export interface SeeOptions {
  /** Names of classes, if not those of the bundle. */
  labels?: readonly string[];
  /** The longest side that the bundle is given, or what is enough for it; larger pictures are reduced by the canvas before. */
  side?: number | "enough";
}

export interface WatchOptions extends SeeOptions {
  signal?: AbortSignal;
}

export function labelsOf(session: Session): string[];
export function colorOf(number: number): string;
export function see(session: Session, source: Source, options?: SeeOptions): Promise<Seen>;
export function watch(
  session: Session,
  source: HTMLVideoElement | HTMLCanvasElement | OffscreenCanvas,
  options?: WatchOptions,
): AsyncGenerator<Seen & { dropped: number }, void>;
export function mark(canvas: HTMLCanvasElement, seen: Pick<Seen, "found" | "width" | "height">): void;
