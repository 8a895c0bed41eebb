/** Text out of tokens while they come: what is not whole yet waits. */

const UNFINISHED = "\ufffd"; // what a decoder makes of the first bytes of a character
const WHOLE = { skip_special_tokens: true, clean_up_tokenization_spaces: false }; // as Python's tokenizers decode

export class TextStream {
  constructor(tokenizer) {
    this.tokenizer = tokenizer;
    this.tokens = [];
    this.start = 0; // of the tokens that are decoded again, so that the next ones have something before them
    this.said = 0; // how many tokens were said
  }

  /** The text that is certain with one more token. */
  push(token) {
    this.tokens.push(token);
    return this.next((text) => text.endsWith(UNFINISHED));
  }

  /** The text that is left. */
  end() {
    return this.next(() => false);
  }

  next(waits) {
    const [before, text] = [this.decoded(this.said), this.decoded(this.tokens.length)];
    if (text.length <= before.length || waits(text)) return "";
    [this.start, this.said] = [this.said, this.tokens.length];
    return text.slice(before.length);
  }

  decoded(end) {
    const tokens = this.tokens.slice(this.start, end);
    return tokens.length ? this.tokenizer.decode(tokens, WHOLE) : "";
  }
}

/** Passes text on until one of the `stops` comes; what may be the beginning of one waits. */
export class Stops {
  constructor(stops) {
    this.stops = stops;
    this.waiting = "";
    this.isOver = false;
  }

  push(text) {
    this.waiting += text;
    const places = this.stops.map((stop) => this.waiting.indexOf(stop)).filter((at) => at >= 0);
    this.isOver = places.length > 0;
    if (this.isOver) return this.take(Math.min(...places));
    let kept = 0;
    for (const stop of this.stops) {
      for (let length = Math.min(stop.length - 1, this.waiting.length); length > kept; length--) {
        if (stop.startsWith(this.waiting.slice(-length))) kept = length;
      }
    }
    return this.take(this.waiting.length - kept);
  }

  end() {
    return this.take(this.waiting.length);
  }

  take(count) {
    const text = this.waiting.slice(0, count);
    this.waiting = this.isOver ? "" : this.waiting.slice(count);
    return text;
  }
}
