/** Talk with a language model, whose answers are shown while it writes them. */

import { load } from "./sardonyx/genai/chat.js";
import { Log } from "./log.js";
import { Start, explained } from "./start.js";
import { Switch } from "./switch.js";
import { count, duration, element, facts } from "./text.js";

const FOLDER = "demos/chat";
const TOP_P = 0.9;
const TEMPERATURE = Number(new URLSearchParams(location.search).get("temperature") ?? 0.7);
const TRIES = [
  "What is the capital of France?",
  "Why is the sky blue?",
  "Write a short poem about a stone.",
  "Give me three ideas for a rainy day.",
  "Explain gravity to a child.",
];
const find = (selector) => document.querySelector(selector);

class Chat {
  constructor() {
    this.log = new Log(find("#log"), "SmolLM2");
    this.question = find("#question");
    this.send = find("#send");
    this.renew = find("#renew");
    this.status = find("#status");
    this.facts = find("#facts");
    this.choice = new Switch(find(".switch"));
    /** What was said, as the model is told it. */
    this.messages = [];
    /** Ends the answer that is being written. */
    this.ending = null;
  }

  start() {
    const start = new Start(find("#start"), find("#stage"), "chat");
    start.onopen = () => this.focus();
    start.offer("Load the model", (progress) =>
      // the model comes last
      this.use(this.choice.chosen, ({ loaded, total }) => progress(start.total - total + loaded)),
    );
    this.choice.onchange = (target) => this.client && this.change(target);
    find("#tries").append(...TRIES.map((words) => {
      const button = element("button", { type: "button" }, words);
      button.onclick = () => this.ask(words);
      return button;
    }));
    find("#say").onsubmit = (event) => {
      event.preventDefault();
      if (this.ending) this.ending.abort();
      else this.ask(this.question.value);
    };
    this.question.onkeydown = (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.ending) this.ask(this.question.value);
    };
    this.renew.onclick = () => this.begin();
  }

  /** Where fingers type, a keyboard would cover what is said. */
  focus() {
    const place = matchMedia("(pointer: coarse)").matches ? find("#log") : this.question;
    place.focus({ preventScroll: true });
  }

  async use(target, progress) {
    const client = await load(FOLDER, { target, progress });
    this.client?.release();
    this.client = client;
    this.target = target;
  }

  /** Go on with the chat on another device. */
  async change(target) {
    if (target === this.target) return;
    this.ending?.abort();
    this.send.disabled = true;
    this.status.textContent = "Loading the model for it";
    try {
      await this.use(target);
      this.status.textContent = "";
    } catch (error) {
      this.choice.refuse(target, explained(error));
    }
    this.send.disabled = false;
  }

  /** Begin anew. */
  begin() {
    this.ending?.abort();
    this.ending = null;
    this.messages = [];
    this.log.clear();
    this.facts.replaceChildren();
    this.status.textContent = "A new chat";
    this.settle();
    this.focus();
  }

  async ask(words) {
    const content = words.trim();
    if (!content || this.send.disabled) return;
    const ending = (this.ending = new AbortController());
    this.messages.push({ role: "user", content });
    this.log.ask(content);
    this.question.value = "";
    this.focus();
    this.settle();
    try {
      const text = await this.answer(this.log.answer(), ending);
      if (ending === this.ending && !text) this.takeBack(content);
    } catch (error) {
      if (ending === this.ending) this.fail(content, error);
    }
    if (ending !== this.ending) return; // another chat has begun
    this.ending = null;
    this.settle();
  }

  /** Have the answer written, until it ends or is ended; its text. */
  async answer(said, ending) {
    const { messages } = this;
    const request = { messages, temperature: TEMPERATURE, top_p: TOP_P, stream: true };
    const start = performance.now();
    let [first, text, reason] = [0, "", ""];
    this.status.textContent = "SmolLM2 is writing";
    try {
      for await (const { choices: [{ delta, finish_reason }] } of await this.client.chat.completions.create(request, ending)) {
        if (ending !== this.ending) return "";
        reason = finish_reason;
        if (!delta.content) continue;
        first ||= performance.now();
        text += delta.content;
        said.add(delta.content);
        this.tell(first - start, performance.now() - first);
      }
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      said.end();
    }
    if (ending !== this.ending || !text) return "";
    messages.push({ role: "assistant", content: text });
    if (reason === "length") this.log.notice(`The model knows no more than ${this.limit}, so the answer ends here.`, this.renewing());
    this.status.textContent = `SmolLM2: ${text}`;
    return text;
  }

  /** A question without an answer goes back to where it can be changed. */
  takeBack(content) {
    this.messages.pop();
    this.log.takeBack();
    this.question.value ||= content;
    this.status.textContent = "There is no answer";
  }

  fail(content, error) {
    const isLong = error.code === "context_length_exceeded";
    this.takeBack(content);
    const words = isLong ? `This chat has become too long: the model knows no more than ${this.limit}.` : explained(error);
    this.log.notice(words, isLong ? this.renewing() : null);
  }

  renewing() {
    const button = element("button", { type: "button" }, "New chat");
    button.onclick = () => this.begin();
    return button;
  }

  get limit() {
    return count(this.client.defaults.max_length, "token");
  }

  /** What can be done now. */
  settle() {
    find("#empty").hidden = this.messages.length > 0;
    this.renew.disabled = !this.messages.length;
    this.send.textContent = this.ending ? "Stop" : "Send";
  }

  tell(reading, writing) {
    const { tokens, kept, prompted } = this.client.generator;
    const written = tokens.length - prompted;
    this.facts.replaceChildren(
      ...facts({
        "Tokens read": (prompted - kept).toLocaleString("en"),
        "To the first one written": duration(reading),
        "Tokens a second": written > 1 ? ((1000 * (written - 1)) / writing).toFixed(1) : "–",
        "This chat": `${tokens.length.toLocaleString("en")} of ${this.limit}`,
      }),
    );
  }
}

new Chat().start();
