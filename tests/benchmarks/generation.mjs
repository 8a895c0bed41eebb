// Text by transformers.js in a page, on whichever onnxruntime-web its import map has.
import { TextStreamer, env, pipeline } from "@huggingface/transformers";

Object.assign(env, { localModelPath: "/data/", allowRemoteModels: false, allowLocalModels: true });

/** Milliseconds to make the pipeline, to the first of `count` tokens and between them, and the text. */
export async function generate(prompt, count, device, threads, wasmPaths) {
  env.backends.onnx.wasm.numThreads = threads;
  if (wasmPaths) env.backends.onnx.wasm.wasmPaths = wasmPaths;
  const begun = performance.now();
  const model = await pipeline("text-generation", "smollm2", { dtype: "q4", device });
  const made = performance.now() - begun;
  const once = async (max_new_tokens) => {
    const times = [];
    const heard = () => times.push(performance.now());
    const streamer = new TextStreamer(model.tokenizer, { skip_prompt: true, token_callback_function: heard });
    const start = performance.now();
    const [{ generated_text: text }] = await model(prompt, { max_new_tokens, do_sample: false, streamer });
    return { first: times[0] - start, next: (times.at(-1) - times[0]) / (times.length - 1), text };
  };
  await once(3); // what only a first run does is over
  return { made, ...(await once(count)) };
}
