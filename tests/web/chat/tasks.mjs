// What tests ask of a page that chats with the model in a folder.
import { load } from "/sardonyx/genai/chat.js";
import { TextStream } from "/sardonyx/genai/text.js";

const FOLDER = "/data/chat/";
const told = (asked) => asked.then(() => "", (error) => error.message);

/** Each request's completion, whole and in parts, with what came at its end. */
export async function complete(requests, options) {
  const client = await load(FOLDER, options);
  const found = [];
  for (const request of requests) {
    const whole = await client.chat.completions.create(request);
    const parts = [];
    const asked = { ...request, stream: true, stream_options: { include_usage: true } };
    for await (const part of await client.chat.completions.create(asked)) parts.push(part);
    found.push({ whole, parts, tokens: client.generator.tokens });
  }
  client.release();
  return found;
}

/** The contents of completions, and how each ended. */
export async function contents(requests, options) {
  const client = await load(FOLDER, options);
  const found = [];
  for (const request of requests) {
    const { choices: [{ message, finish_reason }] } = await client.chat.completions.create(request);
    found.push([message.content, finish_reason]);
  }
  client.release();
  return found;
}

/** Texts as their tokens come one by one, special ones left out. */
export async function streamed(texts) {
  const client = await load(FOLDER);
  const found = texts.map((text) => {
    const stream = new TextStream(client.tokenizer);
    const { ids } = client.tokenizer.encode(text, { add_special_tokens: false });
    return ids.map((token) => stream.push(Number(token))).join("") + stream.end();
  });
  client.release();
  return found;
}

/** What is said where the package of grammars is not there. */
export async function ungrammatical(request) {
  const xgrammar = () => Promise.reject(Error("nowhere"));
  const client = await load(FOLDER, { xgrammar });
  const errors = [await told(client.chat.completions.create(request))];
  const { choices } = await client.chat.completions.create({ ...request, response_format: { type: "text" }, max_tokens: 1 });
  client.release();
  return [...errors, choices[0].finish_reason];
}

/** What is said of requests that cannot be met, and of a request that was ended. */
export async function refuse(requests) {
  const client = await load(FOLDER);
  const errors = [];
  for (const request of requests) errors.push(await told(client.chat.completions.create(request)));
  const stream = await client.chat.completions.create({ messages: [{ role: "user", content: "a" }], stream: true, max_tokens: 9 });
  const ended = (async () => {
    for await (const part of stream) if (part.choices[0].delta.content) stream.controller.abort();
  })();
  errors.push(await told(ended));
  const { choices } = await client.chat.completions.create({ messages: [{ role: "user", content: "a" }], max_tokens: 1 });
  client.release();
  return { errors, after: choices[0].finish_reason, missing: await told(load("/data/nowhere")) };
}
