/** Whether a bundle that was read can be run at all, checked before anything is done with it. */

import { OUTSIDE, defines } from "./executor.js";
import { evaluate, symbolsOf } from "./sizes.js";
import { isType, product, widthOf } from "./types.js";

const WIDTHS = [0, 1, 2, 4, 8, 16];
const NESTED = 32; // functions in functions
export const MOST = 1024; // buffers of a code

export const isCount = (value, end = 2 ** 53) => Number.isInteger(value) && value >= 0 && value < end;
const isText = (value) => typeof value === "string";

export function need(holds, reason) {
  if (!holds) throw new Error(reason);
}

/** What a function finds in the manifest of a bundle of this name, whose fault it is if it fails. */
export function sound(name, find) {
  try {
    return find();
  } catch (error) {
    throw new Error(`${name} is damaged: ${error.message}; compile the model anew`);
  }
}

/** Check what a manifest says of sections, weights and modules; errors say what is wrong. */
export function checkSections({ sections, weights, targets }) {
  const held = new Map();
  for (const [title, nbytes, checksum, size = nbytes, width = 0] of sections) {
    need(isText(title) && [nbytes, checksum, size].every((x) => isCount(x)) && WIDTHS.includes(width), `${title} is no section`);
    held.set(title, size);
  }
  for (const [name, [dtype, shape]] of Object.entries(weights)) {
    need(isType(dtype) && held.get(name) === product(shape) * widthOf(dtype), `${name} is no weight of ${dtype}[${shape}]`);
  }
  need(Object.values(targets).every(({ codes, plans }) => codes && plans), "a target has no plans");
  need(isText(targets.webgpu?.section ?? "") && (!targets.wasm || Array.isArray(targets.wasm.modules)), "a target has no code");
  for (const { section, features, memory, table, data, align } of targets.wasm?.modules ?? []) {
    const isSound = features.every(isText) && [memory, table, data].every((x) => isCount(x, held.get(section) + (1 << 16)));
    need(isSound && isCount(align, 1 << 16), `${section} is no module`);
  }
}

/** Check what a manifest says of the target `told`, of which `graph` was made. */
export function check({ weights, model: [inputs, outputs], strings }, told, graph) {
  for (const [name, reads, writes, reach] of told.codes) {
    const isReach = reach.length && reach.every(Array.isArray) && reach.flat().every((size) => Number.isInteger(size) || /^p\d{1,4}$/.test(size)) && reach.at(-1).every(isText);
    need(isText(name) && isCount(reads, MOST) && isCount(writes, MOST) && isReach, `${name} is no code`);
  }
  need(strings.every(isText), "its strings are none");
  need(told.plans.length && told.plans.every(({ accepts }) => isText(accepts)), "it has no plan");
  for (const [name, kind] of [...inputs, ...outputs]) {
    need((kind?.[2] ?? []).every((dim) => dim === null || isText(dim) || isCount(dim)), `${name} has no shape`);
  }
  for (const executor of graph.executors) {
    for (const [values, ports] of [[inputs, executor.plan.inputs], [outputs, executor.plan.outputs]]) {
      const isSame = values.length === ports.length && values.every(([name, kind], k) => name === ports[k].name && (values === outputs || kind[1] === ports[k].dtype));
      need(isSame, "a plan has other inputs or outputs");
    }
    checkPlan(executor, told.codes, weights, [], 0);
  }
}

function checkPlan({ plan, functions }, codes, weights, outer, depth) {
  const { buffers, epochs, inputs, outputs } = plan;
  need(depth < NESTED, `functions nest more than ${NESTED} deep`);
  let known = new Set([...outer, ...plan.symbols.map(([name]) => name), ...inputs.flatMap(({ symbols }) => symbols)]);
  const knownIn = epochs.map(({ halt }) => {
    const now = known;
    known = new Set([...now, ...defines(halt ?? {})]);
    return now;
  });
  const isSize = (names) => (size) => {
    if (typeof size === "number") return Number.isInteger(size);
    return isText(size) ? names.has(size) : Array.isArray(size) && [...symbolsOf(size)].every((name) => names.has(name));
  };
  const numbers = (list, end, noun = "buffer") => {
    need(list.every((k) => isCount(k, end)), `there are ${end} ${noun}s, not ${noun} ${list}`);
    return list.map((k) => buffers[k]);
  };
  const sizes = (list, names) => need(list.every(isSize(names)), `[${list}] are no sizes, or not known yet`);
  /** Buffers that are there in an epoch, whose shapes it knows. */
  const tensors = (list, epoch) => {
    const found = numbers(list, buffers.length);
    found.forEach(({ weight, once, epoch: own, shape }) => {
      need(!once && (weight || own <= epoch), `buffers ${list} are not there in epoch ${epoch}`);
      sizes(shape, knownIn[epoch]);
    });
    return found.map(({ dtype }) => dtype);
  };
  const same = (a, b, noun) => need(String(a) === String(b), `${noun} is ${a}, not ${b}`);

  for (const [name, places] of plan.symbols) {
    need(places.length, `nothing tells ${name}`);
    places.forEach(([k, axis]) => need(isCount(k, inputs.length) && isCount(axis, inputs[k].shape.length), `${name} is no size`));
  }
  const later = new Set(epochs.flatMap(({ halt }) => defines(halt ?? {})));
  for (const { dtype, shape, epoch, beneath, weight, once, elements } of buffers) {
    need(isType(dtype) && isText(weight) && [0, 1].includes(once), `a buffer is ${dtype} ${weight} ${once}`);
    const isOutside = epoch === OUTSIDE && !weight;
    need(isOutside || isCount(epoch, weight ? Infinity : epochs.length), `there is no epoch ${epoch}`);
    sizes(shape, known);
    sizes([elements], weight ? new Set() : knownIn[isOutside ? 0 : epoch]);
    const isAbove = numbers(beneath, buffers.length).every((other) => !other.weight && other.epoch === epoch);
    need(isAbove, "a buffer lies above one of another chunk");
    need(shape.some((size) => later.has(size)) || !shape.every(Number.isInteger) || !(product(shape) > elements), "a buffer has no room");
  }
  const state = new Map();
  const visit = (k) => {
    need(state.get(k) !== 1, `buffer ${k} lies above itself`);
    if (state.has(k)) return;
    state.set(k, 1);
    buffers[k].beneath.forEach(visit);
    state.set(k, 2);
  };
  buffers.forEach((_, k) => visit(k));

  const launch = ([code, list, params]) => {
    need(isCount(code, codes.length), `there is no code ${code}`);
    const [name, reads, writes] = codes[code];
    need(list.length === reads + writes, `${name} is given ${list.length} buffers`);
    const found = numbers(list, buffers.length);
    return [found.slice(0, reads), found.slice(reads), params];
  };
  const made = new Set(Object.keys(weights));
  for (const step of plan.setup) {
    const [read, written, params] = launch(step);
    need(params.every(Number.isInteger), `[${params}] are no integers`);
    need(read.every(({ weight }) => made.has(weight)), "the setup reads what is not there yet");
    for (const { weight } of written) {
      need(weight.startsWith("~"), "the setup writes to what is given");
      made.add(weight);
    }
  }
  for (const { weight, dtype, shape, elements } of buffers.filter((buffer) => buffer.weight)) {
    const room = evaluate(elements, {});
    const [kind, dims] = weights[weight] ?? [dtype, [room]];
    const fits = product(dims) * widthOf(kind) === room * widthOf(dtype) && product(shape) <= room;
    need(made.has(weight) && fits, `there is no weight ${weight} of ${dtype}[${shape}]`);
  }
  for (const [epoch, { launches, halt, guards }] of epochs.entries()) {
    for (const step of launches) {
      const [read, written, params] = launch(step);
      sizes(params, knownIn[epoch]);
      const isThere = ({ weight, once, epoch: own }) => (weight ? !once : own <= epoch);
      need([...read, ...written].every(isThere), `a launch of epoch ${epoch} works on what is not there yet`);
      need(written.every(({ weight }) => !weight), "a launch writes to a weight");
    }
    for (const [size, sign, truth] of guards) {
      sizes([size], known);
      need((sign === "==" || sign === ">=") && typeof truth === "boolean", `${sign} ${truth} is no guard`);
    }
    if (halt) checkHalt(halt, epoch);
  }
  need(plan.guards === epochs.reduce((sum, { guards }) => sum + guards.length, 0), "a guard depends on what nothing tells");
  for (const [ports, epoch] of [[inputs, 0], [outputs, epochs.length - 1]]) {
    for (const { name, dtype, shape, buffer, symbols } of ports) {
      need(isText(name) && isType(dtype) && symbols.every(isText), `${name} is no tensor`);
      sizes(shape, knownIn[epoch]);
      if (buffer !== null) same(tensors([buffer], epoch), dtype, name);
      need(buffer !== null || ports === inputs, `${name} lies nowhere`);
      if (ports === outputs || buffer === null) continue;
      const { weight, epoch: own, shape: stored } = buffers[buffer];
      need(!weight && own <= 0, `${name} is not there at the start`);
      const isOther = (size, axis) => JSON.stringify(size) !== JSON.stringify(shape[axis]);
      const axis = own === OUTSIDE ? stored.findIndex(isOther) : -1;
      const fed = axis < 0 ? shape : shape.slice(0, -1).with(axis, shape.at(-1));
      same(JSON.stringify(fed), JSON.stringify(stored), `the shape of ${name}`);
    }
  }
  const held = new Set(inputs.map(({ buffer }) => buffer));
  need(buffers.every(({ epoch }, k) => epoch !== OUTSIDE || held.has(k)), "a buffer lies in no chunk, and is no input");

  function checkHalt(step, epoch) {
    if (step.do === "read") {
      const [dtype] = tensors([step.buffer], epoch);
      return need(/^(u?int|bool)/.test(dtype) && step.symbols.every(isText), "sizes are read that are no integers");
    }
    const gives = numbers(step.results, buffers.length).map(({ dtype }) => dtype);
    step.results.forEach((k) => need(buffers[k].epoch === epoch + 1 && !buffers[k].weight, "a result lies in another epoch"));
    for (const [name, k, axis] of step.symbols) {
      need(isText(name) && isCount(k, gives.length) && isCount(axis, buffers[step.results[k]].shape.length), `${name} is no size`);
    }
    if (step.do === "host") return same([step.function, ...gives], "random.key,uint32", "what Python does");
    const call = (number, takes, before = []) => {
      need(isCount(number, functions.length), `there is no function ${number}`);
      for (const executor of functions[number].executors) {
        same(executor.plan.inputs.map(({ dtype }) => dtype), takes, "what a function takes");
        same(executor.plan.outputs.map(({ dtype }) => dtype), [...before, ...gives], "what a function gives");
        checkPlan(executor, codes, weights, knownIn[epoch], depth + 1);
      }
    };
    if (step.do === "branch") {
      tensors([step.condition], epoch);
      need(step.functions.length === 2 && step.operands.length === 2, "a branch has no two ways");
      return step.functions.forEach((number, k) => call(number, tensors(step.operands[k], epoch)));
    }
    for (const [k, dtype] of [[step.trips, "int64"], [step.condition, "bool"]]) if (k !== -1) same(tensors([k], epoch), dtype, "a loop's bound");
    need(step.trips !== -1 || step.condition !== -1, "a loop has no end");
    need(step.carried.length <= gives.length, "a loop gives less than it carries");
    call(step.function, ["int64", "bool", ...tensors([...step.carried, ...step.captured], epoch)], ["bool"]);
  }
}
