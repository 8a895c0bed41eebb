/** The digit: drawn on the pad, read by a compiled model while it is drawn. */

import { Tensor, load } from "./sardonyx/runtime.js";
import { Pad } from "./pad.js";
import { Pen } from "./pen.js";
import { SIDE, digitOf } from "./preprocess.js";
import { strokesOf } from "./skeletons.js";
import { bytes, count, duration, element, facts, median, percent } from "./text.js";

const FINE = 280; // pixels of the drawing that become 28
const TIMES = 20;
const DOUBT = 0.6; // below it the best answer is a guess
const LIKELY = 0.1; // above it the second best is told too
const QUIET = 500; // milliseconds without a change, after which the answer is spoken

export class Digits {
  constructor(section, choice) {
    const find = (selector) => section.querySelector(selector);
    this.section = section;
    this.choice = choice;
    this.pad = new Pad(find("#pad"));
    this.parts = {
      pen: find("#pen"), answer: find(".answer"), digit: find("#digit"), verdict: find("#verdict"), spoken: find("#spoken"),
      hint: find("#hint"), undo: find("#undo"), clear: find("#clear"), show: find("#show"),
      loading: find("#loading"), bar: find("#loading-bar"), error: find("#digits-error"), facts: find("#digits-facts"),
    };
    this.pad.pen = new Pen(this.pad, (words) => (this.parts.pen.textContent = words));
    this.seen = find("#seen canvas").getContext("2d");
    this.bars = Array.from({ length: 10 }, (_, digit) => bar(digit));
    find("#bars").append(...this.bars.map(({ row }) => row));
    this.sessions = {};
    this.times = [];
  }

  start() {
    const { pad, choice, parts } = this;
    pad.onchange = () => this.changed();
    choice.onchange = (target) => this.use(target);
    parts.undo.onclick = () => pad.undo();
    parts.clear.onclick = () => pad.clear();
    parts.show.onclick = () => this.show();
    document.addEventListener("keydown", (event) => this.key(event));
    return this.use(choice.chosen);
  }

  key({ key, ctrlKey, metaKey, altKey, target }) {
    if (altKey || target.closest("input:not([type=radio]), select, textarea")) return;
    const letter = key.toLowerCase();
    if (letter === "z") this.pad.undo();
    else if (ctrlKey || metaKey) return;
    else if (letter === "c") this.pad.clear();
    else if (letter === "s") this.show();
  }

  show() {
    const digit = (this.shown = ((this.shown ?? 6) + 1 + Math.floor(Math.random() * 8)) % 10);
    this.pad.show(strokesOf(digit));
  }

  /** Read on this device from now on. */
  async use(target) {
    const { parts } = this;
    parts.error.hidden = true;
    try {
      this.sessions[target] ??= this.opened(target);
      const session = await this.sessions[target];
      if (target !== this.choice.chosen) return;
      this.session = session;
      this.times = [];
      this.loaded = loadedBy(session);
      this.changed();
      this.tell();
    } catch (error) {
      delete this.sessions[target];
      this.session = null;
      parts.error.textContent = error.message;
      parts.error.hidden = false;
      if (target === "webgpu") this.choice.refuse(target, error.message);
    } finally {
      parts.loading.hidden = true;
    }
  }

  async opened(target) {
    const { loading, bar } = this.parts;
    loading.hidden = false;
    const progress = ({ loaded, total }) => (bar.value = total ? loaded / total : 0);
    const session = await load(`models/digits.${target}.sdx`, { target, progress });
    await session.run(feeds(new Float32Array(SIDE * SIDE))); // the first run lays out memory
    return session;
  }

  /** The drawing is another one: read it, once for a frame and never two at a time. */
  async changed() {
    const { pad, parts } = this;
    parts.undo.disabled = parts.clear.disabled = pad.isEmpty;
    parts.hint.hidden = !pad.isEmpty;
    this.isDirty = true;
    if (this.isReading) return;
    this.isReading = true;
    try {
      while (this.isDirty && this.session) {
        this.isDirty = false;
        await this.read(this.session);
      }
    } catch (error) {
      parts.error.textContent = error.message;
      parts.error.hidden = false;
    } finally {
      this.isReading = false;
    }
  }

  async read(session) {
    const pixels = digitOf(this.pad.pixels(FINE), FINE, FINE);
    this.look(pixels);
    if (this.pad.isEmpty) return this.nothing();
    const start = performance.now();
    const { probabilities } = await session.run(feeds(pixels));
    this.times = [...this.times, performance.now() - start].slice(-TIMES);
    if (!this.pad.isEmpty) this.answer(Array.from(probabilities.data));
    this.tell();
  }

  look(pixels) {
    const image = this.seen.createImageData(SIDE, SIDE);
    pixels.forEach((ink, k) => image.data.set([251, 244, 234, Math.round(255 * ink)], 4 * k));
    this.seen.putImageData(image, 0, 0);
  }

  nothing() {
    const { answer, digit, verdict, spoken } = this.parts;
    clearTimeout(this.waiting);
    answer.dataset.state = "empty";
    digit.textContent = "?";
    verdict.replaceChildren(element("span", {}, "Waiting for your first stroke"));
    spoken.textContent = "";
    this.bars.forEach((bar) => bar.show(0, false));
  }

  answer(shares) {
    const { answer, digit, verdict, spoken } = this.parts;
    const [best, next] = shares.map((_, k) => k).sort((a, b) => shares[b] - shares[a]);
    const isSure = shares[best] >= DOUBT;
    answer.dataset.state = isSure ? "sure" : "unsure";
    digit.textContent = best;
    const doubt = shares[next] > LIKELY ? `or ${one(next)}, ${percent(shares[next])}` : "";
    verdict.replaceChildren(element("strong", {}, percent(shares[best])), element("span", {}, doubt));
    this.bars.forEach((bar, k) => bar.show(shares[k], k === best));
    clearTimeout(this.waiting);
    const first = `This is ${isSure ? "" : "perhaps "}${one(best)}, ${percent(shares[best])}`;
    const words = doubt ? `${first}, ${doubt}` : first;
    this.waiting = setTimeout(() => (spoken.textContent = words), QUIET);
  }

  tell() {
    const { session, times, loaded } = this;
    if (!session) return;
    const { threads } = session;
    this.parts.facts.replaceChildren(
      ...facts({
        "An inference": times.length ? duration(median(times)) : "–",
        "Engine loaded": bytes(loaded.engine),
        "Weights loaded": bytes(loaded.weights),
        "Runs on": session.target === "wasm" ? `processor, ${count(threads, "thread")}` : gpu(session),
      }),
    );
  }
}

const one = (digit) => `${digit === 8 ? "an" : "a"} ${digit}`;

const feeds = (pixels) => ({ image: new Tensor("float32", pixels, [1, 1, SIDE, SIDE]) });

function gpu({ device }) {
  const { vendor, architecture, description } = device.adapter?.info ?? {};
  return description || [vendor, architecture].filter(Boolean).join(" ") || "the GPU";
}

/** The bytes of scripts, plans and code, and those of weights; the compiler's scripts are for dropped models. */
function loadedBy({ bundle: { manifest }, section }) {
  const isScript = ({ name }) => /\/sardonyx\/(?!compile|store|engine)/.test(name);
  const scripts = performance.getEntriesByType("resource").filter(isScript);
  const sum = (sizes) => sizes.reduce((a, b) => a + b, 0);
  const sized = (isWanted) => sum(manifest.sections.filter(([title]) => isWanted(title)).map(([, nbytes]) => nbytes));
  const weights = sized((title) => title in manifest.weights);
  const code = sized((title) => title === section);
  const plans = new TextEncoder().encode(JSON.stringify(manifest)).length;
  return { engine: sum(scripts.map(({ decodedBodySize }) => decodedBodySize)) + plans + code, weights };
}

/** A row of the answer. */
function bar(digit) {
  const fill = element("span.fill");
  const share = element("span.share", {}, "–");
  const row = element("li", {}, element("span.label", {}, String(digit)), element("span.track", {}, fill), share);
  return {
    row,
    show(probability, isBest) {
      row.classList.toggle("best", isBest);
      fill.style.transform = `scaleX(${probability})`;
      share.textContent = probability ? percent(probability) : "–";
    },
  };
}
