/** Compiles models in the page, and keeps what was made. */

import { type LoadOptions, type Session, type Target, Tensor, type TensorLike } from "./runtime.js";

export { Tensor };

export type ExternalData = string | { path: string; data: string | Blob | ArrayBuffer | ArrayBufferView };
export type Sizes = Record<string, number | string>;
export type Shapes = Record<string, (number | string)[] | TensorLike>;

export interface CompileOptions extends Pick<LoadOptions, "target" | "threads" | "worker" | "signal" | "progress"> {
  sizes?: Sizes;
  shapes?: Shapes | Shapes[];
  /** Has `bundleOf` give what `TrainingSession.create` takes. */
  training?: {
    train?: string;
    loss?: "cross-entropy" | "mse" | "bce" | "l1";
    optimizer?: "adamw" | "sgd";
    classes?: number;
  };
  externalData?: readonly ExternalData[];
  /** Where another Pyodide of the same Python lies. */
  pyodide?: string | URL;
}

export type Model = string | URL | Blob | ArrayBuffer | ArrayBufferView;
export type Bundle = Response | Uint8Array;

export function compile(source: Model, options?: CompileOptions): Promise<Session>;

/** The bundle that `compile` would run, as something that `load` takes. */
export function bundleOf(source: Model, options?: CompileOptions): Promise<Bundle>;

/** What `make` makes of that bundle; one that was kept, and is damaged since, is compiled again. */
export function loaded<T>(source: Model, options: CompileOptions, make: (bundle: Bundle) => Promise<T>): Promise<T>;
