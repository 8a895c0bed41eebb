/** Whether what is heard is a voice: by vad-web, of a sample, of a music box, or of the microphone. */

import { Start, explained, fetched, summed } from "./start.js";
import { Strip } from "./strip.js";
import { melody, sample } from "./sounds.js";
import { duration, element, facts, median, percent } from "./text.js";

const FOLDER = "demos/voice";
const [SURE, QUIET] = [0.5, 0.004]; // the share from which on it is a voice; the level below which there is silence
const TIMES = 50;
const HOLD = 600; // milliseconds that something has to last to be spoken
const TOLD = { voice: "A voice", not: "Not a voice", silence: "Silence", rest: "Nothing yet" };
const PATIENCE = 3000; // milliseconds for sound to start
const REFUSALS = {
  NotAllowedError: "The microphone was refused. Allow it for this page, by the sign beside its address, or play a sample.",
  NotFoundError: "No microphone was found. Connect one, or play a sample.",
  NotReadableError: "The microphone is in use by another program.",
};
const find = (selector) => document.querySelector(selector);

class Voice {
  constructor() {
    this.strip = new Strip(find("#strip"), find(".is-voice"), find(".is-not"));
    this.verdict = find("#verdict");
    this.spoken = find("#spoken");
    this.facts = find("#facts");
    this.problem = find("#problem");
    this.end = find("#stop");
    this.buttons = { speech: find("#speech"), melody: find("#melody"), microphone: find("#microphone") };
    this.times = [];
    this.turn = 0; // sources that were listened to, or stopped
  }

  start() {
    const start = new Start(find("#start"), find("#stage"), "voice");
    start.onopen = () => this.strip.draw();
    start.offer("Load the network", (progress) => this.load(summed(progress)));
    const sources = {
      speech: (context) => sample(context, this.sound),
      melody,
      microphone: () => microphone(),
    };
    for (const [name, button] of Object.entries(this.buttons)) button.onclick = () => this.listen(name, sources[name]);
    this.end.onclick = () => this.stop();
  }

  async load(heard) {
    if (!globalThis.AudioWorkletNode) throw new Error("This browser has no AudioWorklet, by which the page would hear.");
    const get = (name) => fetched(`${FOLDER}/${name}`, heard(name));
    const [sound] = await Promise.all([get("speech.wav"), get("silero_vad_legacy.onnx"), get("vad.js")]);
    const { MicVAD } = await import("./demos/voice/vad.js");
    this.Detector = MicVAD;
    this.sound = sound;
  }

  /** Listen to what a source gives for a context: a stream, and what tells when it is over. */
  async listen(name, source) {
    await this.stop();
    const { turn } = this;
    this.problem.hidden = true;
    const context = new AudioContext();
    const opened = [];
    const silence = () => opened.forEach((stream) => stream.getTracks().forEach((track) => track.stop()));
    const close = async () => {
      silence();
      if (context.state !== "closed") await context.close();
    };
    this.stopping = close;
    try {
      await running(context);
      const { stream, ended } = await source(context);
      opened.push(stream);
      this.strip.clear();
      [this.heard, this.voiced] = [0, 0];
      const detector = await this.Detector.new({
        audioContext: context,
        baseAssetPath: `${FOLDER}/`,
        getStream: async () => stream,
        onFrameProcessed: ({ isSpeech }, frame) => turn === this.turn && this.hear(isSpeech, frame),
      });
      this.clock(detector.frameProcessor);
      const stopping = async () => {
        await detector.destroy();
        await close();
      };
      if (turn !== this.turn) return await stopping();
      this.stopping = stopping;
      this.buttons[name].setAttribute("aria-pressed", "true");
      this.end.disabled = false;
      ended?.then(() => turn === this.turn && this.stop());
    } catch (error) {
      if (turn !== this.turn) return silence();
      await this.stop();
      this.problem.textContent = REFUSALS[error.name] ?? explained(error);
      this.problem.hidden = false;
    }
  }

  /** Measure what frames take. */
  clock(processor) {
    const { modelProcessFunc: process } = processor;
    processor.modelProcessFunc = async (frame) => {
      const start = performance.now();
      const found = await process(frame);
      this.times = [...this.times, performance.now() - start].slice(-TIMES);
      return found;
    };
  }

  async stop() {
    const { stopping } = this;
    this.stopping = null;
    this.turn++;
    Object.values(this.buttons).forEach((button) => button.setAttribute("aria-pressed", "false"));
    this.end.disabled = true;
    this.tell("rest", "");
    await stopping?.();
  }

  /** A frame of sound, and the share of a voice in it. */
  hear(share, frame) {
    const level = Math.sqrt(frame.reduce((sum, each) => sum + each * each, 0) / frame.length);
    const isVoice = share >= SURE;
    this.heard++;
    if (isVoice) this.voiced++;
    this.strip.add(level, isVoice);
    this.tell(isVoice ? "voice" : level < QUIET ? "silence" : "not", percent(share));
    this.facts.replaceChildren(
      ...facts({
        "An inference": this.times.length ? duration(median(this.times)) : "–",
        Heard: duration((1000 * this.heard * frame.length) / 16000),
        "Of it voice": percent(this.voiced / this.heard),
      }),
    );
  }

  tell(state, share) {
    const { verdict } = this;
    const words = state === "rest" && this.heard ? "Over" : TOLD[state];
    const title = element("strong", {}, words);
    verdict.replaceChildren(title, " ", element("span", {}, share));
    if (verdict.dataset.state === state) return;
    verdict.dataset.state = state;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => (this.spoken.textContent = words), HOLD);
  }
}

/** Browsers that find no device to play on never start. */
async function running(context) {
  await Promise.race([context.resume(), new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
  if (context.state !== "running") throw new Error("This browser starts no sound: it finds nothing to play on, or was told not to.");
}

async function microphone() {
  if (!navigator.mediaDevices) throw new Error("Pages hear a microphone only if they came by https or from this machine.");
  const audio = { channelCount: 1, echoCancellation: true, autoGainControl: true, noiseSuppression: true };
  return { stream: await navigator.mediaDevices.getUserMedia({ audio }) };
}

new Voice().start();
