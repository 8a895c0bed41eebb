/** A picture is read: its lines are found, marked, and spelled out beside it. */

import { Reader } from "./reader.js";
import { Start, explained, summed } from "./start.js";
import { Switch } from "./switch.js";
import { ticket } from "./ticket.js";
import { count, duration, element, facts, percent, shown } from "./text.js";

const FOLDER = "demos/reading";
const LARGEST = 2400; // pixels of a picture's longer side that are kept
const SVG = "http://www.w3.org/2000/svg";
const find = (selector) => document.querySelector(selector);

class Reading {
  constructor() {
    this.canvas = find("#picture");
    this.marks = find("#marks");
    this.lines = find("#lines");
    this.status = find("#status");
    this.facts = find("#facts");
    this.problem = find("#problem");
    this.copy = find("#copy");
    this.choice = new Switch(find(".switch"));
    this.turn = 0;
  }

  start() {
    const start = new Start(find("#start"), find("#stage"), "reading");
    start.onopen = () => this.see(ticket(), "the sample");
    start.offer("Load the models", (progress) => this.use(this.choice.chosen, summed(progress)));
    this.choice.onchange = (target) => this.reader && this.change(target);
    find("#sample").onclick = () => this.see(ticket(), "the sample");
    find("#file").onchange = ({ target }) => {
      if (target.files.length) this.take(target.files[0]);
      target.value = "";
    };
    this.copy.onclick = () => this.copied(this.text, "All lines are copied");
    document.addEventListener("paste", ({ clipboardData }) => this.reader && this.pasted(clipboardData));
    this.listen();
  }

  /** Take what is dropped anywhere. */
  listen() {
    const over = find("#over");
    let depth = 0; // dragenter and dragleave come for every element that is crossed
    const drag = (type, then) => document.addEventListener(type, (event) => (event.preventDefault(), this.reader && then(event)));
    const show = () => (over.hidden = depth <= 0);
    drag("dragenter", () => (depth++, show()));
    drag("dragleave", () => (depth--, show()));
    drag("dragover", ({ dataTransfer }) => (dataTransfer.dropEffect = "copy"));
    drag("drop", ({ dataTransfer }) => {
      depth = 0;
      show();
      if (dataTransfer.files.length) this.take(dataTransfer.files[0]);
    });
  }

  pasted({ files }) {
    const file = [...files].find(({ type }) => type.startsWith("image/"));
    if (file) this.take(file);
    else this.fail("What was pasted is no picture.");
  }

  async use(target, heard = () => () => {}) {
    const reader = await Reader.load(FOLDER, target, heard);
    this.reader?.release();
    this.reader = reader;
    this.target = target;
  }

  async change(target) {
    this.tell("Loading the models for it");
    try {
      await this.use(target);
      if (this.source) await this.read();
    } catch (error) {
      this.choice.refuse(target, explained(error));
    }
  }

  async take(file) {
    try {
      const picture = await createImageBitmap(file).catch(() => {
        throw new Error(`This browser cannot read ${file.name} as a picture.`);
      });
      await this.see(picture, file.name);
    } catch (error) {
      this.fail(error.message);
    }
  }

  /** Show a picture, on white where it is clear, and read it. */
  async see(picture, name) {
    const scale = Math.min(1, LARGEST / Math.max(picture.width, picture.height));
    const { canvas } = this;
    [canvas.width, canvas.height] = [picture.width, picture.height].map((side) => Math.max(1, Math.round(side * scale)));
    const brush = canvas.getContext("2d", { willReadFrequently: true });
    brush.fillStyle = "white";
    brush.fillRect(0, 0, canvas.width, canvas.height);
    brush.drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.setAttribute("aria-label", `The picture: ${name}`);
    this.source = name;
    return this.read();
  }

  /** Read what is shown; whatever else was being read is left. */
  async read() {
    const turn = ++this.turn;
    const { canvas, reader } = this;
    this.problem.hidden = true;
    this.copy.disabled = true;
    this.found = [];
    this.lines.replaceChildren();
    this.marks.replaceChildren();
    this.marks.setAttribute("viewBox", `0 0 ${canvas.width} ${canvas.height}`);
    this.tell("Looking for lines");
    await shown();
    try {
      const start = performance.now();
      const boxes = await reader.find(canvas);
      const middle = performance.now();
      for (const [k, box] of boxes.entries()) {
        if (turn !== this.turn) return;
        this.tell(`Reading line ${k + 1} of ${boxes.length}`);
        const { text, share } = await reader.read(canvas, box);
        if (turn === this.turn && text) this.add(text, share, box);
      }
      if (turn === this.turn) this.finish([middle - start, performance.now() - middle]);
    } catch (error) {
      if (turn === this.turn) this.fail(error.message);
    }
  }

  /** A line, in the list and on the picture; who is at one sees the other. */
  add(text, share, [left, top, right, bottom]) {
    const mark = document.createElementNS(SVG, "rect");
    const place = { x: left, y: top, width: right - left, height: bottom - top, rx: (bottom - top) / 8 };
    Object.entries(place).forEach(([name, value]) => mark.setAttribute(name, value));
    const hidden = element("span.hidden", {}, ", copy");
    const line = element("button.line", { type: "button" }, element("span", {}, text), element("span.share", {}, percent(share)), hidden);
    const light = (isOn) => [mark, line].forEach((each) => each.classList.toggle("on", isOn));
    for (const each of [mark, line]) {
      each.addEventListener("pointerenter", () => light(true));
      each.addEventListener("pointerleave", () => light(false));
    }
    line.onfocus = () => light(true);
    line.onblur = () => light(false);
    line.onclick = () => this.copied(text, `“${text}” is copied`);
    this.found.push(text);
    this.marks.append(mark);
    this.lines.append(element("li", {}, line));
  }

  finish([finding, reading]) {
    const { found, reader, target } = this;
    this.copy.disabled = !found.length;
    this.tell(found.length ? `${count(found.length, "line")} of text in ${this.source}` : "No text was found");
    this.facts.replaceChildren(
      ...facts({
        "Lines found in": duration(finding),
        "Read in": duration(reading),
        "Runs on": target === "wasm" ? `processor, ${count(reader.threads, "thread")}` : "WebGPU",
      }),
    );
  }

  get text() {
    return this.found.join("\n");
  }

  async copied(text, words) {
    const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    this.tell(isCopied ? words : "This browser does not let the page copy; select the text instead");
  }

  tell(words) {
    this.status.textContent = words;
  }

  fail(words) {
    this.tell("");
    this.problem.textContent = words;
    this.problem.hidden = false;
  }
}

new Reading().start();
