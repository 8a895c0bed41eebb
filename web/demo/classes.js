/** Which outputs are scores of classes, and what the classes are called. */

const MAKERS = /^(Softmax|LogSoftmax|Hardmax|ai\.onnx\.ml\.\w+(Classifier|Ensemble|Regressor)|ai\.onnx\.ml\.Normalizer)$/;
const NAMES = /logit|prob|score|class|label|softmax/i;
const LISTS = /^(class(es|_names|_labels)?|labels|names|id2label|categories)$/i;
const IMAGENET = [1000, 1001]; // with the background
const [LEAST, MOST] = [3, 1 << 17];

/**
 * How the classes of an output are called, by number; null where it has none. One vector of floats has classes if the
 * model lists as many, if what made it or its name says so, if its elements are shares of 1, or if it is ImageNet's.
 */
export function classesOf({ makers, metadata }, name, { type, dims }, values) {
  const count = dims.findLast((dim) => dim > 1);
  if (!/^b?float/.test(type) || dims.length > 4 || values.length !== count || count < LEAST || count > MOST) return null;
  const listed = Object.entries(metadata).filter(([key]) => LISTS.test(key)).map(([, text]) => listIn(text));
  const labels = listed.find((each) => each.length === count);
  const isTold = labels || MAKERS.test(makers[name] ?? "") || NAMES.test(name);
  return isTold || areShares(values) || IMAGENET.includes(count) ? (labels ?? values).map((each, k) => (labels ? each : String(k))) : null;
}

export function areShares(values) {
  const sum = values.reduce((a, b) => a + b, 0);
  return values.every((value) => value >= 0) && Math.abs(sum - 1) < 0.01;
}

/** Names in a model's metadata: JSON, a dictionary as Python prints it, or words with commas or lines between. */
function listIn(text) {
  const quoted = Array.from(text.matchAll(/(?:^|[[{,])\s*(?:["']?\d+["']?\s*:\s*)?(["'])(.*?)\1(?=\s*[\]},]|\s*$)/g), (match) => match[2]);
  return quoted.length ? quoted : text.split(/[,\n]/).map((word) => word.trim());
}
