/** The form in which a model's inputs are given: an entry for each, and the sizes that are open. */

import { layoutOf } from "./feeds.js";
import { Field } from "./field.js";
import { element, named } from "./text.js";

const FEW = 4; // elements of an integer input that may decide on shapes
const SHOWN = 6; // inputs that are shown at once
const LARGEST = 1 << 24;

export class Inputs {
  /** Fill a form for these ports; `onsubmit` hears of the button, `onsee` of a picture that is to be read otherwise. */
  constructor(form, ports) {
    this.ports = ports;
    this.fields = ports.map((port, number) => new Field(port, number));
    this.sizes = new Map();
    this.button = element("button", { type: "submit" }, "Compile and run");
    ports.forEach((port) => this.ask(port));
    this.fields.forEach((field) => {
      field.onchange = () => this.changed(field);
      field.onrange = () => this.onsee?.();
    });
    form.onsubmit = (event) => {
      event.preventDefault();
      const wrong = this.fields.find(({ isWrong }) => isWrong);
      if (wrong) wrong.text.focus();
      else this.onsubmit?.();
    };
    const rows = this.fields.map(({ row }) => row);
    const rest = rows.length > SHOWN + 1 ? rows.splice(SHOWN) : [];
    form.replaceChildren(
      element("h4", {}, ports.length ? "Inputs for a run; what is left empty is random" : "The model has no inputs"),
      ...rows,
      ...(rest.length ? [element("details", {}, element("summary", {}, `${rest.length} more inputs`), rest)] : []),
      element("div.sizes", {}, [...this.sizes.values()].map(({ label }) => label), this.button),
    );
  }

  /** Entries for the sizes of a port that are open. */
  ask(port) {
    port.dims?.forEach((size, axis) => {
      const key = keyOf(port, axis);
      if (typeof size === "number" || this.sizes.has(key)) return;
      const limits = { type: "number", min: 0, max: LARGEST, inputMode: "numeric", required: true };
      const input = element("input", { ...limits, name: key, value: usual(port, axis) });
      input.oninput = () => this.onchange?.();
      const label = element("label", {}, element("span", {}, named(size ?? `${port.name}, axis ${axis}`)), input);
      this.sizes.set(key, { input, label });
    });
  }

  /** Whether something should be asked before the model is compiled. */
  get isOpen() {
    return this.sizes.size > 0 || this.ports.some(isFew);
  }

  /** What is given decides on sizes that are open. */
  changed({ port, array }) {
    const dims = array && (array.dims?.length ? array.dims : this.told(port, array.values.length));
    dims?.forEach((size, axis) => {
      const entry = typeof port.dims?.[axis] === "number" ? null : this.sizes.get(keyOf(port, axis));
      if (entry && dims.length === port.dims.length) entry.input.value = size;
    });
    this.onchange?.();
  }

  /** The sizes of a port that so many elements have, if only one of them is open. */
  told(port, count) {
    const open = port.dims?.flatMap((size, axis) => (typeof size === "number" ? [] : [axis])) ?? [];
    const rest = port.dims?.filter((size) => typeof size === "number").reduce((a, b) => a * b, 1);
    const isSo = open.length === 1 && count > 1 && count % rest === 0;
    return isSo ? port.dims.map((size, axis) => (axis === open[0] ? count / rest : size)) : null;
  }

  /** The sizes of a port, null where its rank is open. */
  sizesOf(port) {
    const size = (each, axis) => (typeof each === "number" ? each : Number(this.sizes.get(keyOf(port, axis)).input.value));
    return port.dims?.map(size) ?? null;
  }

  /** What the model is compiled for: sizes by input, and the elements of integers that may decide on shapes. */
  get shapes() {
    const wanted = this.fields.map((field) => {
      const sizes = this.sizesOf(field.port);
      const shape = (isFew(field.port) && field.value(sizes)) || sizes || field.array?.dims;
      return [field.port.name, shape];
    });
    return Object.fromEntries(wanted.filter(([, shape]) => shape));
  }

  async feeds() {
    const tensors = this.fields.map(async (field) => [field.port.name, await field.tensor(this.sizesOf(field.port))]);
    return Object.fromEntries(await Promise.all(tensors));
  }

  /** What is given, in words. */
  get words() {
    return [...new Set(this.fields.map(({ words }) => words).filter(Boolean))].join(" and ") || "random inputs";
  }

  /** The field that takes a file: the one of its name, else the first of its kind without one; null if there is none. */
  fieldFor(file) {
    const isArray = /\.npy$/i.test(file.name);
    const fit = isArray ? this.fields : file.type.startsWith("image/") ? this.fields.filter((field) => field.takesPictures) : [];
    const own = fit.find(({ port }) => `${port.name}.npy` === file.name);
    return own ?? fit.find(({ isGiven }) => !isGiven) ?? fit[0] ?? null;
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
