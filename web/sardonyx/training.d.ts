/** Trains models in a page, without Python: bundles of `sardonyx compile --train all`. */

import { type LoadOptions, type Port, type Source, type Target, Tensor, type TensorLike } from "./runtime.js";

export { Tensor };

type Feeds = Record<string, TensorLike>;
type Found = Promise<Record<string, Tensor>>;
/** Names of outputs that are wanted, or an object that has them. */
type Fetches = readonly string[] | Record<string, unknown>;

export interface TrainingOptions extends LoadOptions {
  /** A GPUDevice for this session alone. */
  device?: unknown;
}

/** A model with its gradients and its optimizer, whose parameters and moments stay on one device. */
export class TrainingSession {
  private constructor();
  /** A session for a bundle: on WebAssembly in a worker of its own, as `worker` says, by default for a page's own thread. */
  static create(source: Source | Source[], options?: TrainingOptions): Promise<TrainingSession>;

  readonly target: Target;
  readonly inputs: Port[];
  readonly outputs: Port[];
  readonly trainingInputNames: readonly string[];
  readonly trainingOutputNames: readonly string[];
  readonly evalInputNames: readonly string[];
  readonly evalOutputNames: readonly string[];
  /** What the next steps of the optimizer take; 0.001 at first. */
  learningRate: number;
  /** How many steps the optimizer has made. */
  steps: number;

  /** The loss and the outputs for inputs with labels or a target; gradients are added to those since `lazyResetGrad`. */
  trainStep(feeds: Feeds, fetches?: Fetches): Found;
  runTrainStep(feeds: Feeds, fetches?: Fetches): Found;
  /** The loss and the outputs, without gradients. */
  evalStep(feeds: Feeds, fetches?: Fetches): Found;
  runEvalStep(feeds: Feeds, fetches?: Fetches): Found;
  /** Have the optimizer make a step by the gradients. */
  optimizerStep(): Promise<void>;
  runOptimizerStep(): Promise<void>;
  /** Have the next gradients take the place of those so far. */
  lazyResetGrad(): Promise<void>;

  /** The outputs of the model with its parameters as they are now. */
  run(feeds: Feeds, names?: string[]): Found;
  /** What the steps take in place of inputs, where the head alone is trained; to be kept for the next time. */
  features(feeds: Feeds): Found;

  parameters(trainableOnly?: boolean): Found;
  getParametersSize(trainableOnly?: boolean): Promise<number>;
  /** All parameters one behind the other. */
  getContiguousParameters(trainableOnly?: boolean): Promise<Tensor>;
  loadParametersBuffer(buffer: ArrayBuffer | ArrayBufferView, trainableOnly?: boolean): Promise<void>;

  /** The model as an .onnx file, as a bundle that `load` runs and that can be trained further, or its parameters. */
  export(format?: "onnx" | "sdx" | "safetensors", metadata?: Record<string, string>): Promise<Uint8Array>;
  /** Give all back, the worker too, after what was asked for. */
  release(): Promise<void>;
}
