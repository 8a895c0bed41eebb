/** A page typed for onnxruntime-web: all that its declarations have, by every entry point. */

import * as ort from "onnxruntime-web";
import defaults, { env, InferenceSession, registerBackend, Tensor, TRACE } from "onnxruntime-web";
import type { Backend, Env, InferenceSessionFactory, InferenceSessionHandler, OnnxModelOptions, OnnxValue } from "onnxruntime-web";
import type { TensorConstructor, TensorFactory, TensorFromImageDataOptions, TensorToDataUrlOptions, TypedTensor } from "onnxruntime-web";
import type { InferenceSession as Session } from "onnxruntime-common";
import * as all from "onnxruntime-web/all";
import * as wasm from "onnxruntime-web/wasm";
import * as webgl from "onnxruntime-web/webgl";
import * as webgpu from "onnxruntime-web/webgpu";

env.wasm.wasmPaths = { mjs: "ort.mjs", wasm: new URL("https://example.org/ort.wasm") };
env.wasm.wasmBinary = new ArrayBuffer(8);
Object.assign(env.wasm, { numThreads: 4, simd: true, proxy: false, initTimeout: 3, trace: true });
env.webgl.contextId = "webgl2";
env.webgpu.powerPreference = "low-power";
env.webgpu.profiling = { mode: "default", ondata: (data) => console.log(data.kernelName) };
env.logLevel = "verbose";
env.debug = env.trace = true;

const options: ort.InferenceSession.SessionOptions = {
  executionProviders: [
    ...(["webgpu", "wasm", "webgl", "webnn", "cpu"] as const),
    { name: "webgpu", preferredLayout: "NHWC" },
    { name: "webnn", deviceType: "gpu" },
  ],
  enableGraphCapture: true,
  executionMode: "parallel",
  externalData: ["weights.bin", { path: "more.bin", data: "https://example.org/more.bin" }],
  preferredOutputLocation: { y: "gpu-buffer" },
};
const extra: InferenceSession.RunOptions = { logSeverityLevel: 0, tag: "first", terminate: false };

export async function run(bytes: ArrayBuffer, shared: SharedArrayBuffer, pixels: ImageData): Promise<unknown> {
  const session: Session = await InferenceSession.create("net.onnx", options);
  const others: InferenceSession[] = [
    await ort.InferenceSession.create(bytes, 0, 8, options),
    await webgpu.InferenceSession.create(shared),
    await wasm.InferenceSession.create(new Uint8Array(bytes), options),
  ];
  const x: TypedTensor<"float32"> = new Tensor(new Float32Array(3));
  const ids: ort.TypedTensor<"int64"> = new Tensor("int64", [1n], [1]);
  const how: TensorFromImageDataOptions = { tensorFormat: "RGB", resizedWidth: 3, norm: { mean: [1, 1, 1], bias: 0 } };
  const picture: webgl.Tensor = await Tensor.fromImage(pixels, how);
  const url: TensorToDataUrlOptions = { format: "RGB" };
  const data: Tensor.DataType = await x.reshape([3, 1]).getData(true);
  const location: Tensor.DataLocation = picture.location;
  const feeds: InferenceSession.FeedsType = { x, ids };
  const found: InferenceSession.ReturnType = await session.run(feeds, ["y"], extra);
  const again: InferenceSession.OnnxValueMapType = await session.run(feeds, { y: null });
  const value: OnnxValue | undefined = found.y ?? again.y;
  const types = session.inputMetadata.map((told: InferenceSession.ValueMetadata) => (told.isTensor ? told.type : told.name));
  const [make, factory]: [TensorConstructor, TensorFactory] = [Tensor, Tensor];
  const told: [all.Env, Env, string | undefined] = [env, defaults.env, env.versions.web ?? env.versions.common];
  session.startProfiling();
  session.endProfiling();
  await session.release();
  TRACE("run", "ended");
  return [others, picture.toDataURL(url), picture.toImageData(), data, location, value, types, make, factory, told];
}

export class Model {
  constructor(private readonly runtime: typeof ort) {}

  async create(handler: InferenceSessionHandler, { externalData }: OnnxModelOptions): Promise<InferenceSessionFactory> {
    const backend: Backend = { init: async () => {}, createInferenceSessionHandler: async () => handler };
    registerBackend("own", backend, 1);
    console.log(externalData);
    return this.runtime.InferenceSession;
  }
}
