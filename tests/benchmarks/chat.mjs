// Chat in a page: milliseconds from asking to the first text, and for each token more; what was said.

const SIDES = {
  async Sardonyx(folder, threads) {
    const { load } = await import("/sardonyx/genai/chat.js");
    const client = await load(folder, { threads });
    return {
      parts: (request) => client.chat.completions.create({ ...request, stream: true }),
      close: () => client.release(),
    };
  },

  async wllama(file, threads) {
    const { Wllama } = await import("/wllama/esm/index.js");
    const wllama = new Wllama({ default: "/wllama/src/wasm/wllama.wasm" }, { suppressNativeLog: true });
    const bytes = await (await fetch(file)).blob();
    await wllama.loadModel([bytes], { n_ctx: 2048, n_threads: threads, n_gpu_layers: 0 });
    return {
      parts: (request) => wllama.createChatCompletion({ ...request, stream: true, cache_prompt: false }),
      close: () => wllama.exit(),
    };
  },
};

export async function chat(side, place, threads, messages, tokens) {
  const { parts, close } = await SIDES[side](place, threads);
  const request = { messages, max_tokens: tokens, temperature: 0 };
  const warm = { ...request, messages: [{ role: "user", content: "Hello" }], max_tokens: 4 }; // no beginning of it helps
  for await (const part of await parts(warm)) part;
  const start = performance.now();
  const times = [];
  let text = "";
  for await (const { choices } of await parts(request)) {
    const content = choices[0]?.delta?.content;
    if (!content) continue;
    text += content;
    times.push(performance.now());
  }
  await close();
  return { first: times[0] - start, next: (times.at(-1) - times[0]) / (times.length - 1), count: times.length, text };
}
