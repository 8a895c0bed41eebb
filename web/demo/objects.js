/** What a camera, a moving sample or a picture shows, and where: boxes are drawn on it, frame after frame. */

import { load } from "./sardonyx/runtime.js";
import { colorOf, labelsOf, mark, see, watch } from "./sardonyx/vision.js";
import { Scene } from "./scene.js";
import { explained } from "./start.js";
import { Switch } from "./switch.js";
import { count, duration, element, facts, median, percent } from "./text.js";

const TIMES = 40; // frames by which rate and latency are told
const PACE = 250; // milliseconds between two tellings, so that figures can be read
const REFUSALS = {
  NotAllowedError: "The camera was refused. Allow it for this page, by the sign beside its address, or watch the sample.",
  NotFoundError: "No camera was found. Connect one, or watch the sample.",
  NotReadableError: "The camera is in use by another program.",
};
const find = (selector) => document.querySelector(selector);

class Objects {
  constructor() {
    this.sources = { moving: find("#sample"), camera: find("#video"), picture: find("#picture") };
    this.buttons = { moving: find("#moving"), camera: find("#camera") };
    this.marks = find("#marks");
    this.status = find("#status");
    this.problem = find("#problem");
    this.facts = find("#facts");
    this.kinds = find("#shapes");
    this.end = find("#stop");
    this.scene = new Scene(this.sources.moving);
    this.choice = new Switch(find(".switch"));
    this.sessions = {};
    this.turn = 0; // sources that were watched, or stopped
  }

  async start() {
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.scene.draw(0);
    this.buttons.moving.onclick = () => this.watch("moving");
    this.buttons.camera.onclick = () => this.watch("camera");
    this.end.onclick = () => this.stop();
    this.choice.onchange = () => this.again();
    find("#file").onchange = ({ target }) => {
      if (target.files.length) this.look(target.files[0]);
      target.value = "";
    };
    if (isCalm) await this.still("moving");
    else await this.watch("moving");
  }

  /** The session on the device that is chosen. */
  async session() {
    const { chosen } = this.choice;
    try {
      this.sessions[chosen] ??= load(`models/shapes.${chosen}.sdx`, { target: chosen });
      const session = await this.sessions[chosen];
      if (!this.kinds.children.length) this.list(labelsOf(session));
      return session;
    } catch (error) {
      delete this.sessions[chosen];
      if (chosen !== "webgpu") throw error;
      this.choice.refuse(chosen, error.message);
      return this.session();
    }
  }

  list(labels) {
    this.rows = labels.map((label, number) => {
      const [fill, many, share] = [element("span.fill"), element("span.many"), element("span.share", {}, "–")];
      const swatch = element("span.swatch");
      swatch.style.background = fill.style.background = colorOf(number);
      const row = element("li.absent", {}, swatch, element("span.label", {}, label, many), element("span.track", {}, fill), share);
      return { row, fill, many, share };
    });
    this.kinds.replaceChildren(...this.rows.map(({ row }) => row));
  }

  /** Show a source; whatever was watched before is left. */
  show(name) {
    this.stop();
    this.shown = name;
    this.problem.hidden = true;
    for (const [each, place] of Object.entries(this.sources)) place.hidden = each !== name;
    this.marks.getContext("2d").clearRect(0, 0, this.marks.width, this.marks.height);
    return this.turn;
  }

  async watch(name) {
    const turn = this.show(name);
    const ending = (this.ending = new AbortController());
    const isOver = () => turn !== this.turn;
    try {
      this.tell(name === "camera" ? "Asking for the camera" : "Loading the network");
      if (name === "camera") await this.open(ending.signal);
      if (isOver()) return;
      if (name === "moving") this.scene.start();
      this.buttons[name].setAttribute("aria-pressed", "true");
      this.end.disabled = false;
      const session = await this.session();
      if (isOver()) return;
      this.meter = new Meter();
      for await (const seen of watch(session, this.sources[name], { signal: ending.signal })) {
        mark(this.marks, seen);
        if (this.meter.add(seen)) this.report(session, seen);
      }
      if (!isOver()) this.stop();
    } catch (error) {
      if (isOver()) return;
      this.stop();
      this.fail(REFUSALS[error.name] ?? explained(error));
    }
  }

  async open(signal) {
    if (!navigator.mediaDevices) throw new Error("Pages see a camera only if they came by https or from this machine.");
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: 640, height: 480 } });
    const close = () => stream.getTracks().forEach((track) => track.stop());
    if (signal.aborted) return close();
    signal.addEventListener("abort", close);
    this.sources.camera.srcObject = stream;
    await this.sources.camera.play();
  }

  stop() {
    this.turn++;
    this.ending?.abort();
    this.ending = null;
    this.scene.stop();
    this.end.disabled = true;
    Object.values(this.buttons).forEach((button) => button.setAttribute("aria-pressed", "false"));
    if (this.meter) this.tell("Stopped");
    this.meter = null;
  }

  async look(file) {
    this.show("picture");
    try {
      const picture = await createImageBitmap(file).catch(() => {
        throw new Error(`This browser cannot read ${file.name} as a picture.`);
      });
      const { picture: place } = this.sources;
      Object.assign(place, { width: picture.width, height: picture.height });
      place.getContext("2d", { willReadFrequently: true }).drawImage(picture, 0, 0);
      place.setAttribute("aria-label", `The picture: ${file.name}`);
      await this.still("picture");
    } catch (error) {
      this.fail(error.message);
    }
  }

  /** Find what is shown, once. */
  async still(name) {
    const turn = this.show(name);
    try {
      const session = await this.session();
      const seen = await see(session, this.sources[name]);
      if (turn !== this.turn) return;
      mark(this.marks, seen);
      this.report(session, seen);
    } catch (error) {
      if (turn === this.turn) this.fail(explained(error));
    }
  }

  /** The other device, with what is shown. */
  again() {
    if (this.ending) return this.watch(this.shown);
    return this.still(this.shown);
  }

  report(session, { found, width, height, milliseconds }) {
    this.rows.forEach(({ row, fill, many, share }, number) => {
      const scores = found.filter((each) => each.number === number).map(({ score }) => score);
      row.classList.toggle("absent", !scores.length);
      many.textContent = scores.length > 1 ? ` × ${scores.length}` : "";
      fill.style.transform = `scaleX(${scores[0] ?? 0})`;
      share.textContent = scores.length ? percent(scores[0]) : "–";
    });
    this.tell(found.length ? `${count(found.length, "shape")} in the picture` : "No shape in the picture");
    const { meter } = this;
    this.facts.replaceChildren(
      ...facts({
        "Frames a second": meter?.pace ?? "",
        "Frame to boxes": duration(meter ? meter.latency : milliseconds),
        "Frames left out": meter ? percent(meter.dropped) : "",
        Picture: `${width} × ${height}`,
        "Runs on": session.target === "wasm" ? `processor, ${count(session.threads, "thread")}` : "the GPU, from the frame on",
      }),
    );
  }

  tell(words) {
    if (this.status.textContent !== words) this.status.textContent = words;
  }

  fail(text) {
    this.tell("");
    this.problem.textContent = text;
    this.problem.hidden = false;
  }
}

/** How many frames come, and what they take. */
class Meter {
  constructor() {
    this.frames = [];
    this.told = -Infinity;
  }

  /** Note a frame; whether it is time to tell. */
  add({ milliseconds, dropped }) {
    const now = performance.now();
    this.frames = [...this.frames, { now, milliseconds, dropped }].slice(-TIMES);
    if (now - this.told < PACE) return false;
    this.told = now;
    return true;
  }

  /** Frames a second, in words. */
  get pace() {
    const { frames } = this;
    if (frames.length < 2) return "–";
    const rate = (1000 * (frames.length - 1)) / (frames.at(-1).now - frames[0].now);
    return rate.toFixed(rate < 10 ? 1 : 0);
  }

  get latency() {
    return median(this.frames.map(({ milliseconds }) => milliseconds));
  }

  /** The share of frames that nobody looked at. */
  get dropped() {
    const left = this.frames.reduce((sum, { dropped }) => sum + dropped, 0);
    return left / (left + this.frames.length);
  }
}

new Objects().start();
