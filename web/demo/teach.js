/** A network is taught three kinds of things: shown, learnt, recognised, and taken along. */

import { Camera, Drawing, Files, dropped, exampleOf } from "./sources.js";
import { Curve } from "./curve.js";
import { EPOCHS, Pupil, argmax } from "./pupil.js";
import { NAMES, doodle } from "./doodles.js";
import { count, duration, element, facts, percent, shown } from "./text.js";

const OWN = "own"; // the network that was dropped
const STAGES = { pyodide: "Starting Python", model: "Reading the network", compile: "Compiling the network" };
const LEAST = 2; // examples of a kind, and kinds
const SOME = 8; // drawings of each kind that the page makes
const HELD = 130; // milliseconds from one example to the next while a button is held
const QUIET = 600; // milliseconds without a change, after which the answer is spoken
const find = (selector) => document.querySelector(selector);

/** One kind of things: its name, its examples, and its row in the page. */
class Kind {
  constructor(number, teacher) {
    this.number = number;
    this.examples = [];
    this.name = element("input", { type: "text", value: `Kind ${number + 1}`, ariaLabel: `Name of kind ${number + 1}`, maxLength: 24, spellcheck: false });
    this.add = element("button", { type: "button" }, "It is this");
    this.choose = element("input.hidden", { type: "file", accept: "image/*", multiple: true, id: `files-${number}`, hidden: true });
    this.label = element("label.button", { htmlFor: this.choose.id, hidden: true }, "Add pictures");
    this.shots = element("div.shots", { role: "group" });
    this.fill = element("span.fill");
    this.share = element("span.share", {}, "–");
    const live = element("div.live", {}, element("span.track", {}, this.fill), this.share);
    this.row = element("li.kind", {}, this.name, this.add, this.label, this.choose, this.shots, live);
    this.name.oninput = () => teacher.tell();
    this.choose.onchange = () => {
      teacher.takeFiles(this, [...this.choose.files]);
      this.choose.value = "";
    };
    dropped(this.row, (files) => teacher.takeFiles(this, files));
    hold(this.add, () => teacher.take(this));
  }

  get title() {
    return this.name.value.trim() || `Kind ${this.number + 1}`;
  }

  /** Show its examples, which are those of one network. */
  paint(remove) {
    this.shots.ariaLabel = `Examples of ${this.title}`;
    this.shots.replaceChildren(
      ...this.examples.map((example) => {
        const button = element("button", { type: "button", title: "Remove it", ariaLabel: `Remove this example of ${this.title}` }, example.shot);
        button.onclick = () => remove(example);
        return button;
      }),
    );
    this.shots.scrollLeft = this.shots.scrollWidth;
  }

  show(probability, isBest) {
    this.row.classList.toggle("best", isBest);
    this.fill.style.transform = `scaleX(${probability})`;
    this.share.textContent = probability ? percent(probability) : "–";
  }
}

class Teacher {
  constructor() {
    this.kinds = NAMES.map((_, number) => new Kind(number, this));
    this.curve = new Curve(find("#curve"), EPOCHS);
    this.lessons = {}; // by network: the pupil, and what it was shown and told
    this.pictures = "pictures"; // the network for pictures
    const changed = () => this.recognise();
    const failed = (error) => this.fail(error);
    this.sources = {
      draw: new Drawing(find("#draw"), changed), camera: new Camera(find("#camera"), changed), files: new Files(find("#files"), changed, failed),
    };
  }

  start() {
    find("#kinds").append(...this.kinds.map(({ row }) => row));
    find("#teach").onclick = () => this.teach();
    find("#some").onclick = () => this.drawSome();
    for (const format of ["onnx", "sdx"]) find(`#${format}`).onclick = () => this.save(format);
    for (const input of document.querySelectorAll("#sources input")) input.onchange = () => this.open(input.value);
    document.addEventListener("keydown", (event) => this.key(event));
    const network = find("#network");
    network.onchange = () => {
      this.bring(network.files[0]);
      network.value = "";
    };
    dropped(document.body, ([file]) => file.name.endsWith(".onnx") && this.bring(file));
    return this.open(document.querySelector("#sources input:checked").value);
  }

  key({ key, ctrlKey, metaKey, altKey, target, repeat }) {
    if (ctrlKey || metaKey || altKey || repeat || target.closest("input[type=text]")) return;
    const kind = this.kinds[Number(key) - 1];
    if (kind) this.take(kind);
    else if (key.toLowerCase() === "c" && this.source === this.sources.draw) this.source.pad.clear();
  }

  /** Have examples come from there. */
  async open(name) {
    find("#problem").hidden = true;
    this.source?.close();
    this.source = this.sources[name];
    for (const each of Object.keys(this.sources)) find(`#${each}`).hidden = each !== name;
    for (const { add, label, choose } of this.kinds) {
      add.hidden = name === "files";
      label.hidden = choose.hidden = name !== "files";
      add.textContent = name === "camera" ? "Hold to show" : "It is this";
    }
    find("#own").hidden = name === "draw";
    this.turn(name === "draw" ? "drawings" : this.pictures);
    try {
      await Promise.all([this.source.open(), this.pupil()]);
      this.recognise();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Have this network be taught, with what it was shown so far. */
  turn(network) {
    this.lesson = this.lessons[network] ??= { network, examples: this.kinds.map(() => []), rounds: [] };
    this.kinds.forEach((kind, k) => (kind.examples = this.lesson.examples[k]));
    this.paint();
  }

  /** The network that is taught, which is loaded once. */
  pupil() {
    const { lesson } = this;
    lesson.loading ??= Pupil.load(`models/${lesson.network}.sdx`);
    return lesson.loading;
  }

  /** Compile a network for pictures that somebody has. */
  async bring(file) {
    const [state, button] = [find("#own-state"), find("#own .button")];
    find("#problem").hidden = true;
    button.hidden = true;
    const progress = ({ stage, loaded, total }) => (state.textContent = `${STAGES[stage] ?? "Loading"}${total > 1 ? `: ${percent(loaded / total)}` : " …"}`);
    try {
      const pupil = await Pupil.compile(file, this.kinds.length, progress);
      (await this.lessons[OWN]?.loading)?.session.release();
      this.pictures = OWN;
      this.lessons[OWN] = { network: OWN, examples: this.kinds.map(() => []), rounds: [], loading: Promise.resolve(pupil) };
      state.textContent = `Seen by ${file.name}.`;
      if (this.source === this.sources.draw) find("#source-files").click();
      else this.turn(OWN);
    } catch (error) {
      state.textContent = "";
      this.fail(error);
    } finally {
      button.hidden = false;
    }
  }

  /** What there is to see, as the network wants it. */
  async look() {
    const { view } = await this.pupil();
    return this.source.look(view);
  }

  fail(error) {
    const problem = find("#problem");
    problem.textContent = error.message;
    problem.hidden = false;
  }

  /** Take what there is to see for an example of a kind. */
  async take(kind) {
    const seen = await this.look();
    if (!seen) return;
    this.source.taken();
    await this.keep(kind, seen);
  }

  async takeFiles(kind, files) {
    find("#problem").hidden = true;
    if (this.source !== this.sources.files) find("#source-files").click();
    const { view } = await this.pupil();
    for (const file of files) await exampleOf(file, view).then((seen) => this.keep(kind, seen)).catch((error) => this.fail(error));
  }

  async keep(kind, { pixels, shot }) {
    const { lesson } = this;
    const features = await (await this.pupil()).features(pixels);
    lesson.examples[kind.number].push({ features, shot, kind: kind.number });
    if (lesson === this.lesson) this.paint();
  }

  async drawSome() {
    const { pad } = this.sources.draw;
    const before = pad.strokes;
    this.kinds.forEach((kind, k) => /^Kind \d$/.test(kind.name.value) && (kind.name.value = NAMES[k]));
    for (let turn = 0; turn < SOME; turn++) {
      for (const [k, kind] of this.kinds.entries()) {
        pad.strokes = doodle(NAMES[k]);
        await this.keep(kind, this.sources.draw.look());
      }
    }
    pad.strokes = before;
    pad.change();
  }

  paint() {
    for (const kind of this.kinds) {
      kind.paint((example) => {
        kind.examples.splice(kind.examples.indexOf(example), 1);
        this.paint();
      });
      kind.show(0, false);
    }
    if (this.lesson.rounds.length) this.curve.show(this.lesson.rounds);
    else this.curve.figure.hidden = true;
    this.tell();
    this.recognise();
  }

  get isReady() {
    return this.kinds.filter(({ examples }) => examples.length >= LEAST).length >= LEAST;
  }

  /** Say how things stand. */
  tell() {
    const { lesson } = this;
    find("#teach").disabled = !this.isReady || this.isTeaching;
    find("#take").hidden = !lesson.rounds.length || this.isTeaching;
    const shownSoFar = lesson.examples.flat().length;
    const missing = shownSoFar ? `${count(shownSoFar, "example")} so far: it needs at least two of two kinds.` : "It needs at least two examples of two kinds.";
    if (!this.isTeaching) find("#state").textContent = !this.isReady ? missing : this.words(shownSoFar);
    if (lesson.pupil) find("#lines").textContent = this.lines(lesson.pupil);
    const { last, learnt, time } = lesson;
    find("#facts").replaceChildren(
      ...facts({ "Learnt in": time && duration(time), "From": learnt && count(learnt, "example"), "Loss": last && last.loss.toFixed(3), "Recognised": last && percent(last.right) }),
    );
  }

  /** Five lines for another page. */
  lines({ input, output, dims }) {
    const key = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
    return [
      '<script type="module">',
      '  import { load, Tensor } from "./sardonyx/runtime.js";',
      '  const session = await load("mine.sdx");',
      `  const { ${key(output)}: shares } = await session.run({ ${key(input)}: new Tensor("float32", pixels, [1, ${dims.join(", ")}]) });`,
      `</script> <!-- shares.data: ${this.kinds.map(({ title }) => title).join(", ").replaceAll("--", "– ")} -->`,
    ].join("\n");
  }

  words(examples) {
    const { learnt } = this.lesson;
    if (!learnt) return `${count(examples, "example")}: that is enough to begin.`;
    return learnt === examples ? "It has learnt. Show it something new." : "There is more to learn from: teach it again.";
  }

  async teach() {
    const { lesson } = this;
    const examples = lesson.examples.flat();
    this.isTeaching = true;
    lesson.rounds = [];
    this.tell();
    const start = performance.now();
    try {
      lesson.pupil = await this.pupil();
      await lesson.pupil.learn(examples, async ({ epoch, loss, right }) => {
        lesson.rounds.push({ loss, right });
        if (lesson === this.lesson) {
          this.curve.show(lesson.rounds);
          find("#state").textContent = `Learning: round ${epoch} of ${EPOCHS}`;
        }
        await shown();
      });
      Object.assign(lesson, { time: performance.now() - start, learnt: examples.length, last: lesson.rounds.at(-1) });
    } catch (error) {
      this.fail(error);
    } finally {
      this.isTeaching = false;
      this.tell();
      this.recognise();
    }
  }

  /** Say what is to be seen, once it has learnt; never two at a time. */
  async recognise() {
    this.isDirty = true;
    if (this.isLooking) return;
    this.isLooking = true;
    try {
      while (this.isDirty) {
        this.isDirty = false;
        const { lesson } = this;
        const seen = lesson.learnt && !this.isTeaching ? await this.look() : null;
        const shares = seen ? await (await this.pupil()).recognise(seen.pixels) : this.kinds.map(() => 0);
        if (lesson === this.lesson) this.answer(shares, Boolean(seen));
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.isLooking = false;
    }
  }

  answer(shares, isSeen) {
    const best = argmax(shares);
    this.kinds.forEach((kind, k) => kind.show(shares[k], isSeen && k === best));
    clearTimeout(this.waiting);
    const words = isSeen ? `This is ${this.kinds[best].title}, ${percent(shares[best])}` : "";
    this.waiting = setTimeout(() => (find("#said").textContent = words), QUIET);
  }

  async save(format) {
    const { session } = await this.pupil();
    const bytes = await session.export(format, { classes: this.kinds.map(({ title }) => title.replaceAll(",", " ")).join(",") });
    const link = element("a", { href: URL.createObjectURL(new Blob([bytes])), download: `mine.${format}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

/** Have a button act when it is pressed, and again while it is held. */
function hold(button, act) {
  let timer;
  const stop = () => clearInterval(timer);
  button.addEventListener("pointerdown", ({ button: which }) => {
    if (which) return;
    act();
    stop();
    timer = setInterval(act, HELD);
  });
  for (const type of ["pointerup", "pointercancel", "pointerleave", "blur"]) button.addEventListener(type, stop);
  button.addEventListener("click", ({ detail }) => detail === 0 && act()); // by the keyboard
}

new Teacher().start();
