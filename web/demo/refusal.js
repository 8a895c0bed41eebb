/** What cannot run here, and why, said before the engine is loaded: it has the same list of what it knows. */

import { outline } from "./outline.js";

const NAMED = 3; // nodes or operators that are told one by one
const TEXT = 40; // letters of a file that is none but words
const NOTHING = { operators: null, newest: {}, strangers: [] };

/** What `sardonyx web` tells of the engine; nothing where the page has none. */
export const known = () =>
  fetch("sardonyx/known.json").then((response) => (response.ok ? response.json() : NOTHING)).catch(() => NOTHING);

/** The outline of a model; throws an Error that says what the bytes are instead. */
export function opened(bytes, { strangers }) {
  if (!bytes.length) throw new Error("there are no bytes in it, so no ONNX model.");
  const start = String.fromCharCode(...bytes.subarray(0, 64)).toLowerCase();
  const stranger = strangers.find(([offset, letters]) => start.startsWith(letters.toLowerCase(), offset));
  if (stranger) throw new Error(`this is ${stranger[2]}.`);
  try {
    return outline(bytes);
  } catch (error) {
    const words = wordsIn(bytes);
    if (words) throw new Error(`this is no ONNX model: it is a text that begins with “${words}”.`);
    const reason = error instanceof RangeError ? error.message : "its messages nest too deeply";
    throw new Error(`this is no ONNX model, or not the whole of one: ${reason}.`);
  }
}

/** Why a model with this outline cannot run here, "" if nothing is known against it. */
export function refusal({ opsets, used, files, inputs }, { operators, newest }) {
  const late = opsets.find(([domain, version]) => version > newest[domain]);
  if (late) {
    const [domain, version] = late;
    return `It is written in operator set ${version} of ${domain}, and ${newest[domain]} is the newest that is known here; `
      + `export it with opset_version=${newest[domain]} or lower.`;
  }
  const strange = operators ? used.filter(([title]) => !isKnown(title, operators)) : [];
  if (strange.length) return strangers(strange, operators);
  if (files.length) {
    return `Its weights lie in ${files.length > 1 ? "other files" : "another file"} (${some(files)}), which a page does not get; `
      + 'save it with them: onnx.save(onnx.load("model.onnx"), "whole.onnx").';
  }
  const odd = inputs.find(({ type }) => /sequence|map|optional|sparse/.test(type));
  if (odd) return `Its input ${odd.name} is ${odd.type === "optional" ? "an" : "a"} ${odd.type}, and pages give tensors; run it in Python.`;
  return "";
}

const isKnown = (title, operators) => {
  const [domain, name] = parted(title);
  return operators[domain]?.includes(name) ?? false;
};

/** An operator's domain and name. */
function parted(title) {
  const dot = title.lastIndexOf(".");
  return dot < 0 ? ["ai.onnx", title] : [title.slice(0, dot), title.slice(dot + 1)];
}

function strangers(strange, operators) {
  const each = strange.map(([title, nodes]) => `${title} (${nodes.length > 1 ? "nodes" : "node"} ${some(nodes)})`);
  const isStandard = strange.every(([title]) => parted(title)[0] in operators);
  const remedy = isStandard
    ? "export the model for another operator set, which says this in other operators"
    : "export the model with a function that says what it does, or declare it in Python with @sardonyx.custom_op";
  return `Nothing here knows the operator${strange.length > 1 ? "s" : ""} ${some(each)}; ${remedy}.`;
}

function some(names) {
  const shown = names.slice(0, NAMED);
  const rest = names.length - shown.length;
  return shown.join(", ") + (rest ? ` and ${rest} more` : "");
}

/** How a file that is a text begins, "" for others. */
function wordsIn(bytes) {
  const start = new TextDecoder().decode(bytes.subarray(0, 256)).replace(/\uFFFD{1,3}$/, "");
  return /^[^\p{C}\uFFFD]*$/u.test(start.replace(/[\t\r\n]/g, " ")) ? Array.from(start.trim()).slice(0, TEXT).join("") : "";
}
