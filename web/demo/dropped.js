/** A model on the page: what is in it, compiled here, and run. */

import { layoutOf, made, pictured, rangesFor, tensorOf } from "./feeds.js";
import { outline } from "./outline.js";
import { summary } from "./results.js";
import { bytes, count, duration, element, facts, figure, kind, median, shown, table } from "./text.js";

const STAGES = { model: "Read the model", pyodide: "Start Python", compile: "Compile", weights: "Load the weights" };
const FEW = 4; // elements of an integer input up to which they are asked for
const RUNS = 20;
const LIMIT = 1500; // milliseconds for all of them
const OPERATORS = 8; // that are shown at once

export class Dropped {
  /** Begin with a file at a place; `choice` is the switch that tells the device. */
  constructor(place, file, choice) {
    this.file = file;
    this.choice = choice;
    this.title = element("h3", { tabIndex: -1 }, file.name, element("small", {}, bytes(file.size)));
    this.about = element("div.about");
    this.form = element("form.sizes");
    this.stages = element("ol.stages", { hidden: true });
    this.problem = element("p.error", { role: "alert", hidden: true });
    this.device = element("dl.facts");
    this.runs = element("div.runs");
    this.status = element("p.hidden", { role: "status" });
    place.replaceChildren(
      this.title, this.about, this.form, this.stages, this.problem, this.device, this.runs, this.status,
    );
    place.hidden = false;
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.compile();
    };
  }

  async open() {
    this.outline = await this.file.arrayBuffer().then((data) => outline(new Uint8Array(data))).catch(() => null);
    if (this.outline) this.describe();
    this.title.scrollIntoView({ block: "nearest" });
    this.title.focus({ preventScroll: true });
    if (!this.asked?.length) await this.compile();
  }

  /** Compile again, for the other device. */
  reopen() {
    if (this.session || !this.problem.hidden) this.compile();
  }

  close() {
    this.abort?.abort();
    this.session?.release();
    this.session = null;
  }

  describe() {
    const { inputs, outputs, operators, nodes, parameters, opsets, producer } = this.outline;
    const ports = [...inputs.map((port) => ["in", port]), ...outputs.map((port) => ["out", port])];
    const most = operators[0]?.[1] ?? 1;
    const row = ([name, number]) => {
      const fill = element("span.fill");
      fill.style.transform = `scaleX(${number / most})`;
      const label = element("span.label", { title: name }, name);
      return element("li", {}, label, element("span.track", {}, fill), element("span.share", {}, figure(number)));
    };
    const told = { Parameters: figure(parameters), "Operator sets": opsets.join(", "), "Made by": producer };
    const shape = ([way, { name, type, dims }]) => [way, name, kind(type, dims)];
    const more = operators.length > OPERATORS + 1 ? operators.slice(OPERATORS) : [];
    const list = (some) => element("ul.bars.operators", {}, some.map(row));
    this.about.replaceChildren(
      element(
        "div",
        {},
        table("Inputs and outputs", ["", "Name", "Type"], ports.map(shape)),
        element("dl.facts", {}, facts(told)),
      ),
      element(
        "div",
        {},
        element("h4", {}, `${count(nodes, "node")} of ${count(operators.length, "operator")}`),
        list(operators.slice(0, operators.length - more.length)),
        more.length ? element("details", {}, element("summary", {}, `${more.length} more`), list(more)) : null,
      ),
    );
    this.ask();
  }

  /** Fields for the sizes that are open, and for integers that may decide on shapes. */
  ask() {
    const { inputs } = this.outline;
    this.asked = [];
    const ask = (key, label, value, more) => {
      if (this.asked.some((each) => each.key === key)) return;
      const input = element("input", { name: key, value, required: true, ...more });
      this.asked.push({ key, input });
      this.form.append(element("label", {}, element("span", {}, label), input));
    };
    for (const port of inputs) {
      (port.dims ?? []).forEach((size, axis) => {
        if (typeof size === "number") return;
        const label = size ?? `${port.name}, axis ${axis}`;
        ask(keyOf(port, axis), label, usual(port, axis), { type: "number", min: 0, max: 1 << 24, inputMode: "numeric" });
      });
    }
    for (const port of inputs.filter(isFew)) {
      ask(port.name, port.name, "", { required: false, placeholder: "any integers", pattern: "[\\-0-9, ]*" });
    }
    if (!this.asked.length) return;
    const isOpen = this.asked.some(({ input }) => input.required);
    const why = isOpen ? "Some sizes are open. This time they shall be:" : "Some integers may decide on shapes:";
    this.form.prepend(element("p", {}, why));
    this.form.append(element("button", { type: "submit" }, "Compile and run"));
  }

  get given() {
    return Object.fromEntries((this.asked ?? []).map(({ key, input }) => [key, input.value.trim()]));
  }

  /** The sizes of an input. */
  sizes(port) {
    const { given } = this;
    const size = (each, axis) => (typeof each === "number" ? each : Number(given[keyOf(port, axis)] ?? 1));
    return port.dims?.map(size) ?? null;
  }

  /** The elements that were given for an input, as a tensor. */
  elements(port) {
    const text = isFew(port) && this.given[port.name];
    return text ? tensorOf(port.type, text.split(/[\s,]+/).filter(Boolean).map(Number), this.sizes(port)) : null;
  }

  async compile() {
    this.abort?.abort();
    const { signal } = (this.abort = new AbortController());
    this.session?.release();
    this.session = null;
    this.problem.hidden = true;
    this.device.replaceChildren();
    this.runs.replaceChildren();
    const target = this.choice.chosen;
    const progress = this.steps();
    const start = performance.now();
    try {
      const ports = this.outline?.inputs ?? [];
      const wanted = ports.map((port) => [port.name, this.elements(port) ?? this.sizes(port)]);
      const shapes = Object.fromEntries(wanted.filter(([, shape]) => shape));
      const { compile } = await import("./sardonyx/compile.js").catch(() => {
        throw new Error("this site has no compiler: what started the server says why");
      });
      const session = await compile(this.file, { target, shapes, progress, signal });
      if (signal.aborted) return session.release();
      this.session = session;
      this.stages.hidden = true;
      this.tell(performance.now() - start);
      this.offer();
      await this.run();
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  fail(error) {
    this.stages.hidden = true;
    this.status.textContent = "";
    this.problem.textContent = error.message;
    this.problem.hidden = false;
  }

  /** What hears of progress: a bar for each stage. */
  steps() {
    const bars = Object.fromEntries(
      Object.entries(STAGES).map(([stage, title]) => {
        const bar = element("progress", { max: 1, value: 0, ariaLabel: title });
        const share = element("span.share");
        return [stage, { bar, share, row: element("li", {}, element("span.label", {}, title), bar, share) }];
      }),
    );
    this.stages.replaceChildren(...Object.values(bars).map(({ row }) => row));
    this.stages.hidden = false;
    this.stages.scrollIntoView({ block: "nearest" });
    let last;
    return ({ stage, loaded, total }) => {
      const { bar, share, row } = bars[stage];
      if (total) bar.value = loaded / total;
      if (stage === "compile" && !loaded) bar.removeAttribute("value"); // nobody knows how long it takes
      share.textContent = stage === "compile" ? "" : bytes(loaded);
      row.classList.toggle("done", total > 0 && loaded >= total);
      if (stage !== last) this.status.textContent = STAGES[(last = stage)];
    };
  }

  /** What became of the model on the device. */
  tell(time) {
    const { target, device, bundle } = this.session;
    const { manifest } = bundle;
    const { codes, plans } = manifest.targets[target];
    const sizes = new Map(manifest.sections.map(([title, nbytes]) => [title, nbytes]));
    const weights = Object.keys(manifest.weights).reduce((sum, title) => sum + sizes.get(title), 0);
    const launches = plans[0].steps?.filter(Array.isArray).length ?? 0;
    const threads = device.crew?.size ?? 1;
    this.device.replaceChildren(
      ...facts({
        "On the device": `all of it: ${target === "wasm" ? `WebAssembly, ${count(threads, "thread")}` : "WebGPU"}`,
        Kernels: `${figure(codes.length)}, launched ${count(launches, "time")} a run`,
        Weights: bytes(weights),
        Code: bytes(sizes.get(device.section) ?? 0),
        Memory: device.memory ? bytes(device.memory.buffer.byteLength) : "",
        "Ready after": duration(time),
      }),
    );
  }

  get pictures() {
    const ports = this.outline?.inputs ?? [];
    return ports.filter((port) => /^float|^u?int8/.test(port.type) && layoutOf(port.dims));
  }

  get takesPictures() {
    return Boolean(this.session && this.pictures.length);
  }

  /** Buttons to run it, and to give it a picture. */
  offer() {
    const again = element("button", { type: "button" }, "Run again");
    again.onclick = () => this.run();
    const row = element("div.choices", {}, again);
    if (this.takesPictures) {
      const id = "picture";
      const input = element("input.hidden", { id, type: "file", accept: "image/*" });
      input.onchange = () => input.files.length && this.see(input.files[0]);
      const options = rangesFor(this.pictures[0].dims).map(([value, title]) => element("option", { value }, title));
      this.range = element("select", { ariaLabel: "Pixels as" }, options);
      this.range.onchange = () => this.picture && this.run();
      this.thumb = element("img.thumb", { alt: "", hidden: true });
      const chooser = element("label.button", { htmlFor: id }, "Give it a picture");
      row.append(chooser, input, element("label.range", {}, "pixels as ", this.range), this.thumb);
      if (this.picture) this.frame();
    }
    this.found = element("div.found");
    this.runs.replaceChildren(row, this.found);
  }

  see(file) {
    this.picture = file;
    this.frame();
    return this.run();
  }

  /** Show the picture beside its button. */
  frame() {
    const { thumb } = this;
    thumb.src = URL.createObjectURL(this.picture);
    thumb.onload = thumb.onerror = () => URL.revokeObjectURL(thumb.src);
    thumb.hidden = false;
  }

  async feeds() {
    const tensors = {};
    for (const port of this.outline?.inputs ?? this.session.inputs) {
      const dims = this.sizes(port) ?? [];
      const isPicture = this.picture && port === this.pictures[0];
      const picture = isPicture && (await pictured(port, dims, this.picture, this.range.value));
      tensors[port.name] = picture || this.elements(port) || made(port, dims);
    }
    return tensors;
  }

  async run() {
    const { session } = this;
    if (!session || this.running === session) return;
    this.running = session;
    this.problem.hidden = true;
    this.found.classList.add("stale");
    await shown();
    try {
      const feeds = await this.feeds();
      const times = [];
      let outputs;
      const start = performance.now();
      for (let k = 0; k <= RUNS && (k < 2 || performance.now() - start < LIMIT) && this.session === session; k++) {
        const begin = performance.now();
        outputs = await session.run(feeds);
        times.push(performance.now() - begin);
        if (times.at(-1) > 50) await shown();
      }
      if (this.session === session) this.report(times, outputs);
    } catch (error) {
      if (this.session === session) this.fail(error);
    } finally {
      if (this.running === session) this.running = null;
    }
  }

  report([first, ...times], outputs) {
    const what = this.picture ? this.picture.name : "random inputs";
    this.found.classList.remove("stale");
    this.found.replaceChildren(
      element("dl.facts", {}, facts({
        "A run": duration(median(times)),
        "The first": duration(first),
        Runs: `${times.length + 1}, with ${what}`,
      })),
      ...summary(outputs),
    );
    this.status.textContent = `${this.file.name} ran in ${duration(median(times))}`;
  }
}

const keyOf = (port, axis) => port.dims[axis] ?? `${port.name} ${axis}`;

/** Integers of which there are few, such as a sample rate. */
const isFew = ({ type, dims }) =>
  /^u?int/.test(type) && dims?.every((size) => typeof size === "number") && dims.reduce((a, b) => a * b, 1) <= FEW;

/** What an open size usually is. */
function usual(port, axis) {
  const name = port.dims[axis] ?? "";
  const layout = layoutOf(port.dims);
  if (layout && (axis === layout.height || axis === layout.width)) return 224;
  return /past/i.test(name) || !/seq|len|token|time|frame/i.test(name) ? 1 : 16;
}
