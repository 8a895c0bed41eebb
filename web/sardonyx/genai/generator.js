/** A text that a model continues, token by token. */

import { Tensor } from "../types.js";
import { Random } from "./random.js";
import { dampen, draw, forbid, likeliest, unrepeat } from "./sampling.js";

/** Inputs besides keys and values that follow from how many tokens there are: `first` are there, and `tokens` come. */
const KNOWN = {
  input_ids: (first, tokens) => tokens,
  attention_mask: (first, tokens) => Array(first + tokens.length).fill(1),
  position_ids: (first, tokens) => tokens.map((_, k) => first + k),
  logits_position: (first, tokens) => [tokens.length - 1],
};

export class Generator {
  /** For a session of a bundle that was compiled with `--caches`; `eos` are the tokens that end a text. */
  static async of(session, eos) {
    const caches = await session.caches();
    return new Generator(session, caches, eos);
  }

  constructor(session, caches, eos) {
    this.caches = caches;
    this.eos = eos;
    this.inputs = session.inputs.filter(({ name }) => name in KNOWN);
    /** All tokens so far; those that the model has seen come first. */
    this.tokens = [];
    /** How many of them were the last prompt, and how many of these were not run again. */
    this.prompted = this.kept = 0;
  }

  /**
   * The tokens that follow `prompt`, one after another, at most `max_tokens`; those that the prompt has in common with
   * the tokens so far are not run again. Without a temperature, or at 0, each is the likeliest. A `guide` rules out what
   * must not come next.
   */
  async *generate(prompt, { max_tokens = Infinity, seed, signal, guide, ...options } = {}) {
    const { temperature = 0, repetition_penalty = 1, no_repeat_ngram_size = 0, min_tokens = 0 } = options;
    const random = new Random(seed ?? Math.floor(Math.random() * 2 ** 32));
    const common = prompt.findIndex((token, k) => token !== this.tokens[k]);
    this.caches.length = Math.min(common < 0 ? prompt.length - 1 : common, this.caches.length);
    this.tokens = [...prompt];
    [this.prompted, this.kept] = [prompt.length, this.caches.length];
    for (let count = 0; count < max_tokens; count++) {
      signal?.throwIfAborted();
      const logits = await this.run();
      await guide?.restrict(logits);
      if (count < min_tokens) forbid(logits, this.eos);
      if (repetition_penalty !== 1) dampen(logits, this.tokens, repetition_penalty);
      if (no_repeat_ngram_size) unrepeat(logits, this.tokens, no_repeat_ngram_size);
      const token = temperature ? draw(logits, options, random) : likeliest(logits);
      if (this.eos.includes(token)) return;
      guide?.accept(token);
      this.tokens.push(token);
      yield token;
    }
  }

  /** The logits after all tokens, of which the model is run for those that it has not seen. */
  async run() {
    const first = this.caches.length;
    const tokens = this.tokens.slice(first);
    const feeds = this.inputs.map(({ name, type, dims }) => {
      const numbers = KNOWN[name](first, tokens);
      const data = type === "int64" ? BigInt64Array.from(numbers, BigInt) : Int32Array.from(numbers);
      return [name, new Tensor(type, data, dims.length === 1 ? [numbers.length] : [1, numbers.length])];
    });
    const { logits } = await this.caches.run(Object.fromEntries(feeds), ["logits"], tokens.length);
    const numbers = logits.type === "float16" ? halves(logits.data) : logits.data;
    return Float32Array.from(numbers.subarray(-logits.dims.at(-1)));
  }

  release() {
    return this.caches.release();
  }
}

/** The floats of halves, which engines without Float16Array have as integers. */
function halves(data) {
  if (!(data instanceof Uint16Array)) return Float32Array.from(data);
  return Float32Array.from(data, (bits) => {
    const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
  });
}
