/**
 * Chat with a model in the page, in OpenAI's form:
 *
 *     const client = await load("smollm2/");
 *     const stream = await client.chat.completions.create({ messages, stream: true });
 *     for await (const { choices } of stream) say(choices[0].delta.content ?? "");
 */

import { load as loadSession } from "../runtime.js";
import { Generator } from "./generator.js";
import { Grammars, refusal } from "./guidance.js";
import { Stops, TextStream } from "./text.js";

const TAKEN = ["messages", "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "n", "user", "response_format"];
const OWN = ["top_k", "repetition_penalty", "no_repeat_ngram_size", "min_tokens"]; // beyond OpenAI's

/**
 * The client for a folder with `model.sdx`, `tokenizer.json` and `tokenizer_config.json`, as `sardonyx chat --pack`
 * makes it. Options are those of a session's `load`; the page's import map, or its bundler, has the packages
 * `@huggingface/tokenizers` and `@huggingface/jinja`. The option `xgrammar` imports `@mlc-ai/web-xgrammar` for requests
 * with a `response_format`, where the import map does not name it.
 */
export async function load(folder, options = {}) {
  const base = new URL(`${String(folder).replace(/\/$/, "")}/`, globalThis.location?.href ?? import.meta.url);
  const json = async (name, isWanted = true) => {
    const response = await fetch(new URL(name, base));
    if (response.ok) return response.json();
    if (isWanted) throw new Error(`${response.url}: the server answers ${response.status}; sardonyx chat MODEL --pack makes the folder`);
    return {};
  };
  const [tokens, config, generation, { Tokenizer }, { Template }] = await Promise.all([
    json("tokenizer.json"),
    json("tokenizer_config.json"),
    json("generation_config.json", false),
    library("@huggingface/tokenizers", () => import("@huggingface/tokenizers")),
    library("@huggingface/jinja", () => import("@huggingface/jinja")),
  ]);
  if (!config.chat_template) throw new Error(`${base}tokenizer_config.json has no chat_template; the model is none to chat with`);
  const session = await loadSession(new URL("model.sdx", base), options);
  const tokenizer = new Tokenizer(tokens, config);
  const special = Object.fromEntries(["bos_token", "eos_token", "pad_token", "unk_token"].map((name) => [name, config[name]?.content ?? config[name]]));
  const eos = [generation.eos_token_id ?? tokenizer.token_to_id(special.eos_token)].flat();
  const template = new Template(config.chat_template);
  const written = (messages) => template.render({ ...special, messages, add_generation_prompt: true });
  const grammars = () => Grammars.of(tokens, tokenizer, eos, options.xgrammar);
  return new Client(session, await Generator.of(session, eos), tokenizer, written, generation, grammars);
}

async function library(name, imported) {
  try {
    return await imported();
  } catch (error) {
    throw new Error(`${name} cannot be imported (${error.message}); name it in the page's import map, or install it from npm`);
  }
}

export class Client {
  /** `written` makes the prompt of messages, `defaults` are options of generation, `grammars` gives a `Grammars`. */
  constructor(session, generator, tokenizer, written, defaults = {}, grammars = null) {
    this.session = session;
    this.generator = generator;
    this.tokenizer = tokenizer;
    this.written = written;
    this.defaults = defaults;
    this.grammars = grammars;
    this.count = 0;
    this.last = Promise.resolve();
    this.chat = { completions: { create: (request, options) => this.create(request, options) } };
  }

  /** A completion, or with `stream` its parts; one at a time. `signal` ends it, as the stream's `controller` does. */
  async create(request, { signal } = {}) {
    checkRequest(request);
    const controller = new AbortController();
    signal?.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
    if (signal?.aborted) controller.abort(signal.reason);
    const parts = this.parts(request, controller.signal);
    if (request.stream) return { controller, [Symbol.asyncIterator]: () => parts };
    let content = "";
    let last;
    for await (const part of parts) {
      content += part.choices[0]?.delta.content ?? "";
      last = part;
    }
    const choice = { index: 0, message: { role: "assistant", content, refusal: null }, logprobs: null, finish_reason: last.finish_reason };
    return { id: last.id, object: "chat.completion", created: last.created, model: last.model, choices: [choice], usage: last.usage };
  }

  async *parts(request, signal) {
    const before = this.last;
    let end;
    this.last = new Promise((resolve) => (end = resolve));
    try {
      await before;
      yield* this.run(request, signal);
    } finally {
      end();
    }
  }

  async *run(request, signal) {
    const { model = "sardonyx", max_tokens, max_completion_tokens, stop, stream, stream_options } = request;
    const head = { id: `chatcmpl-${++this.count}`, object: "chat.completion.chunk", created: Math.floor(Date.now() / 1000), model };
    const part = (delta, finish_reason = null) => ({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }] });
    const prompt = this.tokenizer.encode(this.written(request.messages), { add_special_tokens: false }).ids.map(Number);
    const { do_sample, temperature = 1, max_length } = this.defaults;
    const room = (max_length ?? Infinity) - prompt.length;
    if (room <= 0) throw tooLong(`the messages are ${prompt.length} tokens, and the model knows no more than ${max_length}`);
    const most = Math.min(max_completion_tokens ?? max_tokens ?? Infinity, room);
    const drawn = { temperature: do_sample === false ? 0 : temperature };
    const guide = await this.guide(request.response_format ?? { type: "text" });
    const options = { ...this.defaults, ...drawn, ...picked(request), signal, guide, max_tokens: most };
    const [text, stops] = [new TextStream(this.tokenizer), new Stops([stop ?? []].flat())];
    let count = 0;
    yield part({ role: "assistant", content: "" });
    try {
      for await (const token of this.generator.generate(prompt, options)) {
        count++;
        const content = stops.push(text.push(token));
        if (content) yield part({ content });
        if (stops.isOver) break;
      }
    } finally {
      guide?.release();
    }
    const rest = stops.isOver ? "" : stops.push(text.end()) + stops.end();
    if (rest) yield part({ content: rest });
    const finish_reason = count >= most && !stops.isOver ? "length" : "stop";
    yield { ...part({}, finish_reason), ...(!stream && this.told(prompt, count, finish_reason)) };
    if (stream && stream_options?.include_usage) yield { ...head, choices: [], ...this.told(prompt, count) };
  }

  async guide(format) {
    if (format.type === "text") return null;
    this.made ??= await this.grammars();
    return this.made.guide(format);
  }

  told(prompt, count, finish_reason) {
    const usage = { prompt_tokens: prompt.length, completion_tokens: count, total_tokens: prompt.length + count };
    return finish_reason ? { usage, finish_reason } : { usage };
  }

  /** Give all memory back. */
  release() {
    this.generator.release();
    this.session.release();
  }
}

/** An error with OpenAI's code of it. */
const tooLong = (words) => Object.assign(new Error(words), { code: "context_length_exceeded" });

const picked = (request) =>
  Object.fromEntries(["temperature", "top_p", "seed", ...OWN].filter((name) => request[name] != null).map((name) => [name, request[name]]));

function checkRequest(request) {
  const { messages, n, response_format } = request;
  const unknown = Object.keys(request).find((name) => request[name] != null && ![...TAKEN, ...OWN].includes(name));
  if (unknown) throw new Error(`${unknown} is not there; requests take ${[...TAKEN, ...OWN].join(", ")}`);
  if (!Array.isArray(messages) || !messages.length) throw new Error("messages is to be a list of { role, content }");
  const wrong = messages.findIndex(({ role, content } = {}) => typeof role !== "string" || typeof content !== "string");
  if (wrong >= 0) throw new Error(`messages[${wrong}] has no role and content that are texts`);
  if (n != null && n !== 1) throw new Error(`n is ${n}; there is one choice at a time`);
  const refused = response_format && refusal(response_format);
  if (refused) throw new Error(refused);
}
