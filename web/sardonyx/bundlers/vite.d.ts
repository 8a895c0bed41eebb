/** A plugin for Vite that compiles models. */

export interface Options {
  target?: "wasm" | "webgpu" | ("wasm" | "webgpu")[];
  /** Those of named dimensions. */
  sizes?: Record<string, number | string>;
  weights?: "float16" | "int8";
  /** The Python program. */
  command?: string | string[];
  /** Where bundles are kept. */
  cache?: string;
}

export default function sardonyx(options?: Options | ((model: string) => Options)): { name: string; enforce: "pre" };
