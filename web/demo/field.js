/** A field of the page for an input of a model: numbers or texts that are typed, a file of NumPy's, a picture. */

import { layoutOf, made, pictured, rangesFor, tensorOf } from "./feeds.js";
import { arrayOf } from "./npy.js";
import { element, kind, named } from "./text.js";
import { elementOf, hintFor, typed } from "./typed.js";

export class Field {
  /** `onchange` hears of what is given; `dims` are then those of the array, null where nothing tells. */
  constructor(port, number) {
    this.port = port;
    this.file = null;
    const id = `input-${number}`;
    this.text = element("textarea", { id, name: port.name, rows: 1, placeholder: hintFor(port.type), spellcheck: false });
    this.text.setAttribute("aria-describedby", `${id}-wrong`);
    this.text.oninput = () => this.read();
    this.wrong = element("p.wrong", { id: `${id}-wrong`, role: "status" });
    this.given = element("p.given", { hidden: true });
    this.choices = element("div.choices");
    this.chooser("Array", "NumPy's .npy file", ".npy", `${id}-array`);
    if (this.takesPictures) this.chooser("Picture", "picture", "image/*", `${id}-picture`);
    const label = element("label.what", { htmlFor: id }, named(port.name), element("small", {}, kind(port.type, port.dims)));
    this.row = element("div.input", {}, label, element("div.entry", {}, this.text, this.given, this.choices), this.wrong);
  }

  chooser(title, what, accept, id) {
    const input = element("input.hidden", { id, type: "file", accept });
    input.onchange = () => {
      if (input.files.length) this.take(input.files[0]);
      input.value = "";
    };
    const more = element("span.hidden", {}, ` for ${this.port.name}: a ${what}`);
    this.choices.append(element("label.button.small", { htmlFor: id }, title, more), input);
  }

  get takesPictures() {
    const { type, dims } = this.port;
    return /^float|^u?int8/.test(type) && layoutOf(dims) !== null;
  }

  /** Whether something was given that cannot be used. */
  get isWrong() {
    return this.wrong.textContent !== "";
  }

  get isGiven() {
    return Boolean(this.array || this.picture);
  }

  /** What was given, in a word or two, "" for nothing. */
  get words() {
    return this.file?.name ?? (this.array ? "what you typed" : "");
  }

  /** Take a file of NumPy's, or a picture. */
  async take(file) {
    this.clear();
    this.file = file;
    try {
      if (/\.npy$/i.test(file.name)) this.array = this.elements(arrayOf(new Uint8Array(await file.arrayBuffer())));
      else this.picture = await createImageBitmap(file).catch(() => {
        throw new Error("this browser cannot read it as a picture");
      });
      this.show();
    } catch (error) {
      this.file = null;
      this.say(`${file.name}: ${error.message}`);
    }
    this.onchange?.();
  }

  elements({ values, dims }) {
    return { values: values.map((value) => elementOf(value, this.port.type)), dims };
  }

  read() {
    this.array = null;
    try {
      this.array = this.text.value.trim() ? typed(this.text.value, this.port.type) : null;
      this.say("");
    } catch (error) {
      this.say(`${this.port.name}: ${error.message}.`);
    }
    this.onchange?.();
  }

  say(words) {
    this.wrong.textContent = words;
    this.text.setAttribute("aria-invalid", words !== "");
  }

  clear() {
    this.file = this.array = this.picture = null;
    this.text.value = "";
    this.say("");
    this.given.hidden = true;
    this.text.hidden = false;
  }

  /** The file in the place where else is typed. */
  show() {
    const away = element("button.small.quiet", { type: "button" }, "Remove", element("span.hidden", {}, ` ${this.file.name}`));
    away.onclick = () => {
      this.clear();
      this.text.focus();
      this.onchange?.();
    };
    this.given.replaceChildren(...(this.picture ? this.pictureParts() : [named(this.file.name), kind(this.port.type, this.array.dims)]), away);
    this.given.hidden = false;
    this.text.hidden = true;
  }

  pictureParts() {
    const thumb = element("img.thumb", { alt: "", src: URL.createObjectURL(this.file) });
    thumb.onload = thumb.onerror = () => URL.revokeObjectURL(thumb.src);
    const chosen = this.range?.value;
    const option = ([value, title]) => element("option", { value, selected: value === chosen }, title);
    this.range = element("select", {}, rangesFor(this.port.dims).map(option));
    this.range.onchange = () => this.onrange?.();
    return [thumb, named(this.file.name), element("label.range", {}, "pixels as ", this.range)];
  }

  /** The tensor for these sizes, null where the rank is open; nothing given is random. */
  async tensor(sizes) {
    const { port, array, picture } = this;
    if (picture) return pictured(port, sizes, picture, this.range.value);
    return array ? laid(port, array, sizes) : made(port, sizes ?? []);
  }

  /** What was typed for these sizes, null for nothing. */
  value(sizes) {
    return this.array && laid(this.port, this.array, sizes);
  }
}

/** A tensor of elements that were given; one stands for all where no brackets tell otherwise. */
function laid({ name, type }, { values, dims }, sizes) {
  const size = sizes?.reduce((a, b) => a * b, 1);
  if (dims?.length || !sizes) {
    if (sizes && String(dims) !== String(sizes)) throw new Error(`${name}: what is given is [${dims.join(", ")}], and [${sizes.join(", ")}] is wanted.`);
    return tensorOf(type, values, dims ?? [values.length]);
  }
  if (values.length === 1) return tensorOf(type, Array(size).fill(values[0]), sizes);
  if (values.length === size) return tensorOf(type, values, sizes);
  throw new Error(`${name}: ${values.length} elements are given, and [${sizes.join(", ")}] has ${size}; one would stand for all.`);
}
