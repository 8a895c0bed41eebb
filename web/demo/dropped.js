/** A model on the page: what is in it, compiled here, and run. */

import { Inputs } from "./inputs.js";
import { known, opened, refusal } from "./refusal.js";
import { summary } from "./results.js";
import { Share } from "./share.js";
import { bytes, count, duration, element, facts, figure, kind, median, named, shown, table } from "./text.js";

const STAGES = { model: "Read the model", pyodide: "Start Python", compile: "Compile", weights: "Load the weights" };
const RUNS = 20;
const LIMIT = 1500; // milliseconds for all of them
const OPERATORS = 8; // that are shown at once

export class Dropped {
  /** Begin with a file at a place; `choice` is the switch that tells the device. */
  constructor(place, file, choice) {
    this.file = file;
    this.choice = choice;
    this.title = element("h3", { tabIndex: -1 }, named(file.name), element("small", {}, bytes(file.size)));
    this.about = element("div.about");
    this.form = element("form.inputs", { hidden: true });
    this.stages = element("ol.stages", { hidden: true });
    this.problem = element("p.error", { role: "alert", hidden: true });
    this.device = element("dl.facts");
    this.found = element("div.found");
    this.share = new Share();
    this.status = element("p.hidden", { role: "status" });
    const parts = [this.about, this.form, this.stages, this.problem, this.device, this.found, this.share.place, this.status];
    place.replaceChildren(this.title, ...parts);
    place.hidden = false;
  }

  /** Show what is in the file, or say why it cannot run; what leaves nothing to ask is compiled at once. */
  async open() {
    this.title.scrollIntoView({ block: "nearest" });
    this.title.focus({ preventScroll: true });
    try {
      const [data, told] = await Promise.all([this.read(), known()]);
      if (this.isClosed) return;
      this.outline = opened(data, told);
      this.describe();
      const reason = refusal(this.outline, told);
      if (reason) throw new Error(reason);
    } catch (error) {
      if (!this.isClosed) this.fail(error, this.outline ? "" : `${this.file.name}: `);
      return;
    }
    this.inputs = new Inputs(this.form, this.outline.inputs);
    this.inputs.onsubmit = () => this.go();
    this.inputs.onsee = () => this.session && this.run();
    this.inputs.onchange = () => this.name();
    this.form.hidden = false;
    if (!this.inputs.isOpen) await this.compile();
  }

  async read() {
    try {
      return new Uint8Array(await this.file.arrayBuffer());
    } catch (error) {
      throw new Error(`the browser cannot read it (${error.message}).`);
    }
  }

  /** Compile again, for the other device. */
  reopen() {
    if (this.inputs && (this.session || !this.problem.hidden)) this.compile();
  }

  close() {
    this.isClosed = true;
    this.abort?.abort();
    this.release();
  }

  release() {
    this.session?.release();
    this.session = null;
    this.share.clear();
  }

  describe() {
    const { inputs, outputs, operators, nodes, parameters, opsets, producer } = this.outline;
    const ports = [...inputs.map((port) => ["in", port]), ...outputs.map((port) => ["out", port])];
    const most = operators[0]?.[1] ?? 1;
    const row = ([name, number]) => {
      const fill = element("span.fill");
      fill.style.transform = `scaleX(${number / most})`;
      const label = element("span.label", {}, named(name));
      return element("li", {}, label, element("span.track", {}, fill), element("span.share", {}, figure(number)));
    };
    const sets = opsets.map(([domain, version]) => `${domain} ${version}`).join(", ");
    const told = { Parameters: figure(parameters), "Operator sets": sets, "Made by": producer };
    const shape = ([way, { name, type, dims }]) => [way, named(name), kind(type, dims)];
    const more = operators.length > OPERATORS + 1 ? operators.slice(OPERATORS) : [];
    const list = (some) => element("ul.bars.operators", {}, some.map(row));
    this.about.replaceChildren(
      element(
        "div",
        {},
        table("Inputs and outputs", ["Way", "Name", "Type"], ports.map(shape)),
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
  }

  /** What a compiled model depends on; null where something that was given does not fit. */
  get key() {
    try {
      return JSON.stringify([this.choice.chosen, this.inputs.shapes], (_, value) => (typeof value === "bigint" ? `${value}` : value));
    } catch {
      return null;
    }
  }

  get isReady() {
    return Boolean(this.session) && this.key === this.compiled;
  }

  /** The button says what it does. */
  name() {
    this.inputs.button.textContent = this.isReady ? "Run again" : "Compile and run";
  }

  go() {
    return this.isReady ? this.run() : this.compile();
  }

  async compile() {
    this.abort?.abort();
    const { signal } = (this.abort = new AbortController());
    this.release();
    this.problem.hidden = true;
    this.device.replaceChildren();
    this.found.replaceChildren();
    this.name();
    const target = this.choice.chosen;
    const start = performance.now();
    try {
      const { shapes } = this.inputs;
      const { key } = this;
      const progress = this.steps();
      const [{ bundleOf }, { load }] = await Promise.all([
        import("./sardonyx/compile.js").catch(() => {
          throw new Error("this site has no compiler: what started the server says why");
        }),
        import("./sardonyx/runtime.js"),
      ]);
      const bundle = await bundleOf(this.file, { target, shapes, progress, signal }).then((made) => new Response(made.body ?? made).blob());
      const told = (weights) => progress({ stage: "weights", ...weights });
      const session = await load(bundle, { target, signal, progress: told, name: this.file.name });
      if (signal.aborted) return session.release();
      Object.assign(this, { session, bundle, compiled: key });
      this.stages.hidden = true;
      this.tell(performance.now() - start);
      this.name();
      await this.run();
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  fail(error, where = "") {
    this.stages.hidden = true;
    this.status.textContent = "";
    this.problem.textContent = where + error.message;
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
    const { target, section, threads, memory, bundle } = this.session;
    const { manifest } = bundle;
    const { codes, plans } = manifest.targets[target];
    const sizes = new Map(manifest.sections.map(([title, nbytes]) => [title, nbytes]));
    const weights = Object.keys(manifest.weights).reduce((sum, title) => sum + sizes.get(title), 0);
    const launches = plans[0].steps?.filter(Array.isArray).length ?? 0;
    this.device.replaceChildren(
      ...facts({
        "On the device": `all of it: ${target === "wasm" ? `WebAssembly, ${count(threads, "thread")}` : "WebGPU"}`,
        Kernels: `${figure(codes.length)}, launched ${count(launches, "time")} a run`,
        Weights: bytes(weights),
        Code: bytes(sizes.get(section) ?? 0),
        Memory: memory ? bytes(memory) : "",
        "Ready after": duration(time),
      }),
    );
  }

  /** Whether a file is something that the model reads: a picture, an array. */
  takes(file) {
    return Boolean(this.inputs?.fieldFor(file));
  }

  async see(file) {
    await this.inputs.fieldFor(file).take(file);
    if (this.session) await this.go();
  }

  async run() {
    const { session } = this;
    if (!session || this.running === session) return;
    this.running = session;
    this.problem.hidden = true;
    this.found.classList.add("stale");
    await shown();
    try {
      const words = this.inputs.words;
      const feeds = await this.inputs.feeds();
      const times = [];
      let outputs;
      const start = performance.now();
      for (let k = 0; k <= RUNS && (k < 2 || performance.now() - start < LIMIT) && this.session === session; k++) {
        const begin = performance.now();
        outputs = await session.run(feeds);
        times.push(performance.now() - begin);
        if (times.at(-1) > 50) await shown();
      }
      if (this.session !== session) return;
      this.report(times, outputs, words);
      this.share.show(this.file.name, this.bundle, feeds);
    } catch (error) {
      if (this.session === session) this.fail(error);
    } finally {
      if (this.running === session) this.running = null;
    }
  }

  report([first, ...times], outputs, words) {
    this.found.classList.remove("stale");
    this.found.replaceChildren(
      element("dl.facts", {}, facts({
        "A run": duration(median(times)),
        "The first": duration(first),
        Runs: `${times.length + 1}, with ${words}`,
      })),
      ...summary(outputs, this.outline),
    );
    this.status.textContent = `${this.file.name} ran in ${duration(median(times))}`;
  }
}
