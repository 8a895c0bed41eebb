/** Sentences are ranked by how near in meaning they are to what is typed; transformers.js makes vectors of them. */

import { Start, explained, summed } from "./start.js";
import { count, duration, element, facts } from "./text.js";

const FOLDER = new URL("demos/meaning/", location);
const BATCH = 16; // sentences at a time
const SHOWN = 8;
const PAUSE = 120; // milliseconds without a letter, after which the question is read
const COMMON = 4; // letters from which on a word that both have says something
const TRIES = ["something to eat", "a pet that is scared of noise", "I am short of money", "broken technology", "far away in space"];
const find = (selector) => document.querySelector(selector);

class Meaning {
  constructor() {
    this.query = find("#query");
    this.ranks = find("#ranks");
    this.status = find("#status");
    this.facts = find("#facts");
    this.problem = find("#problem");
    this.turn = 0;
  }

  start() {
    const start = new Start(find("#start"), find("#stage"), "meaning");
    start.onopen = () => {
      this.query.focus();
      this.ask(TRIES[1]);
    };
    start.offer("Load the network", (progress) => this.load(progress, (words) => start.tell(words)));
    find("#tries").append(...TRIES.map((words) => {
      const button = element("button", { type: "button" }, words);
      button.onclick = () => this.ask(words);
      return button;
    }));
    find("#ask").onsubmit = (event) => event.preventDefault();
    this.query.oninput = () => {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.rank(), PAUSE);
    };
  }

  ask(words) {
    this.query.value = words;
    this.rank();
  }

  /** The network, and the vectors of all sentences. */
  async load(progress, tell) {
    const { pipeline, env } = await import("./demos/meaning/transformers.js");
    Object.assign(env, { localModelPath: FOLDER.pathname, allowRemoteModels: false, allowLocalModels: true });
    const heard = summed(progress);
    const heed = ({ status, file, loaded }) => status === "progress" && heard(file)(loaded);
    const extract = await pipeline("feature-extraction", "minilm", { dtype: "q8", device: "wasm", progress_callback: heed });
    this.vectors = async (texts) => {
      const { dims: [, size], data } = await extract(texts, { pooling: "mean", normalize: true });
      return texts.map((_, k) => data.slice(k * size, (k + 1) * size));
    };
    const text = await (await fetch("sentences.txt")).text();
    const sentences = text.trim().split("\n").sort((a, b) => a.length - b.length); // the like lengths are padded the least
    const start = performance.now();
    this.known = [];
    for (let k = 0; k < sentences.length; k += BATCH) {
      tell(`Reading the sentences: ${k} of ${sentences.length}`);
      const batch = sentences.slice(k, k + BATCH);
      const vectors = await this.vectors(batch);
      this.known.push(...batch.map((sentence, n) => ({ sentence, vector: vectors[n] })));
    }
    this.time = performance.now() - start;
  }

  /** Rank the sentences by what is typed now. */
  async rank() {
    const turn = ++this.turn;
    const words = this.query.value.trim();
    this.problem.hidden = true;
    if (!words) {
      this.status.textContent = "";
      return this.ranks.replaceChildren();
    }
    try {
      const start = performance.now();
      const [asked] = await this.vectors([words]);
      if (turn === this.turn) this.show(words, asked, performance.now() - start);
    } catch (error) {
      this.problem.textContent = explained(error);
      this.problem.hidden = false;
    }
  }

  show(words, asked, time) {
    const likeness = ({ vector }) => vector.reduce((sum, each, k) => sum + each * asked[k], 0);
    const ranked = this.known.map((each) => ({ sentence: each.sentence, like: likeness(each) }));
    const best = ranked.sort((a, b) => b.like - a.like).slice(0, SHOWN);
    const typed = new Set(wordsOf(words).filter((word) => word.length >= COMMON));
    this.ranks.replaceChildren(...best.map(({ sentence, like }) => row(sentence, like, typed)));
    const sharing = best.filter(({ sentence }) => wordsOf(sentence).some((word) => typed.has(word))).length;
    this.status.textContent = `The closest: ${best[0].sentence}`;
    this.facts.replaceChildren(
      ...facts({
        "A question": duration(time),
        [`All ${this.known.length} sentences`]: duration(this.time),
        "With a word of yours": sharing ? `${count(sharing, "sentence")} of ${SHOWN}` : `none of ${SHOWN}`,
      }),
    );
  }
}

const wordsOf = (text) => text.toLowerCase().match(/\p{L}+/gu) ?? [];

/** A sentence, in which words that were typed are marked, and how near it is. */
function row(sentence, like, typed) {
  const parts = sentence.split(/(\p{L}+)/u).map((part) => (typed.has(part.toLowerCase()) ? element("mark", {}, part) : part));
  const fill = element("span.fill");
  fill.style.transform = `scaleX(${Math.max(0, like)})`;
  return element("li", {}, element("span", {}, parts), element("span.track", { ariaHidden: "true" }, fill), element("span.share", {}, like.toFixed(2)));
}

new Meaning().start();
