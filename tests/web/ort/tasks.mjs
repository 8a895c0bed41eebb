// What the tests do in a page that was written for onnxruntime-web.
import * as ort from "onnxruntime-web";

const { InferenceSession, Tensor, env } = ort;

const image = () => new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
const message = (promise) => promise.then(() => "no error", (error) => error.message);

export async function surface() {
  const session = await InferenceSession.create("/data/digits.onnx", { executionProviders: ["wasm"] });
  const bytes = await (await fetch("/data/digits.onnx")).arrayBuffer();
  const another = await ort.default.InferenceSession.create(bytes, { freeDimensionOverrides: { N: 1 } });
  const { probabilities } = await session.run({ image: image() });
  const kept = new Tensor("float32", new Float32Array(10), [1, 10]);
  const results = await session.run({ image: image() }, { probabilities: kept });
  const several = await Promise.all([1, 2, 3].map(() => another.run({ image: image() }, ["probabilities"])));
  await session.release();
  return {
    names: [session.inputNames, session.outputNames],
    metadata: [session.inputMetadata, another.inputMetadata],
    answers: [probabilities, kept, ...several.map((each) => each.probabilities)].map(({ data }) => [...data]),
    instances: [probabilities instanceof Tensor, results.probabilities === kept],
    location: probabilities.location,
    refusals: [
      await message(another.run({})),
      await message(another.run({ image: new Tensor("int64", [1n]) })),
      await message(another.run({ image: image() }, ["no"])),
      await message(another.run({ image: image() }, { probabilities: new Tensor("float32", [1], [1]) })),
      await message(session.run({ image: image() })),
    ],
  };
}

export async function sources(digest) {
  const none = await message(InferenceSession.create("/data/plain.onnx"));
  const gone = await message(InferenceSession.create("/data/gone.onnx"));
  const found = [await InferenceSession.create("/data/beside.onnx")];
  const bytes = await (await fetch("/data/plain.onnx")).arrayBuffer();
  for (const bundles of [{ [digest]: "/data/digits.onnx" }, "/data/sardonyx.json"]) {
    env.sardonyx.bundles = bundles;
    found.push(await InferenceSession.create(bytes), await InferenceSession.create("/data/plain.onnx"));
  }
  return { none, gone, inputs: found.map(({ inputNames }) => inputNames) };
}

export async function compiled() {
  const refused = await message(InferenceSession.create("/data/plain.onnx"));
  env.sardonyx.compile = "page";
  const session = await InferenceSession.create("/data/plain.onnx");
  const bytes = new Uint8Array(await (await fetch("/data/plain.onnx")).arrayBuffer());
  const again = await InferenceSession.create(bytes);
  const answers = await Promise.all([session, again].map((each) => each.run({ image: image() })));
  return { refused, answers: answers.map(({ probabilities }) => [...probabilities.data]) };
}

export async function providers() {
  const warned = [];
  console.warn = (text) => warned.push(text);
  const create = (...executionProviders) => InferenceSession.create("/data/digits.onnx", { executionProviders });
  const session = await create({ name: "webgpu" }, "webgl", "cpu");
  await session.run({ image: image() });
  return { warned, none: await message(create("webnn")) };
}

export async function features(texts) {
  const { pipeline, env } = await import("@huggingface/transformers");
  Object.assign(env, { localModelPath: "/data/", allowRemoteModels: false, allowLocalModels: true });
  const extract = await pipeline("feature-extraction", "minilm", { dtype: "q8", device: "wasm" });
  const { dims, data } = await extract(texts, { pooling: "mean", normalize: true });
  return { dims, data: [...data] };
}

export async function generated(prompt, count, device) {
  const { pipeline, env } = await import("@huggingface/transformers");
  Object.assign(env, { localModelPath: "/data/", allowRemoteModels: false, allowLocalModels: true });
  const generate = await pipeline("text-generation", "smollm2", { dtype: "q4", device });
  const [{ generated_text: text }] = await generate(prompt, { max_new_tokens: count, do_sample: false });
  return text;
}

export async function voices(rate) {
  const heard = [];
  const create = async (...given) => {
    const session = await InferenceSession.create(...given);
    const run = async (feeds) => {
      const results = await session.run(feeds);
      heard.push(results.output.data[0]);
      return results;
    };
    return { run };
  };
  globalThis.ort = { ...ort, InferenceSession: { create } };
  await new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: "/vad/dist/bundle.min.js" });
    document.head.append(Object.assign(script, { onload: resolve, onerror: reject }));
  });
  const audio = new Float32Array(await (await fetch("/data/voice")).arrayBuffer());
  const detector = await globalThis.vad.NonRealTimeVAD.new({ modelURL: "/data/silero.onnx" });
  const found = [];
  for await (const { start, end } of detector.run(audio, rate)) found.push([start, end]);
  return { found, heard };
}
