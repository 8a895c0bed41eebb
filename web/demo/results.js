/** Outputs of a model, told in a few words. */

import { numbersOf } from "./feeds.js";
import { element, figure, kind, percent, table } from "./text.js";

const TOP = 5;
const FEW = 4; // elements that are told one by one
const MOST_CLASSES = 1 << 17;

/** A table of the outputs, `{ name: Tensor }`, and the first classes of what may be scores. */
export function summary(outputs) {
  const rows = Object.entries(outputs).map(([name, tensor]) => [name, kind(tensor.type, tensor.dims), spread(tensor)]);
  const scores = Object.entries(outputs).filter(([, tensor]) => isScores(tensor));
  return [
    table("Outputs", ["Name", "Type", "Elements"], rows),
    ...scores.map(([name, tensor]) => element("div.top", {}, element("h4", {}, `Highest of ${name}`), top(tensor))),
  ];
}

/** The range and the mean; of few elements, and of texts, the elements. */
function spread(tensor) {
  if (tensor.type === "string") return list(tensor.data, String);
  const values = numbersOf(tensor);
  if (values.length <= FEW) return list(Array.from(values), figure);
  let [least, most, sum, odd] = [Infinity, -Infinity, 0, 0];
  for (const value of values) {
    if (!Number.isFinite(value)) odd++;
    else {
      least = Math.min(least, value);
      most = Math.max(most, value);
      sum += value;
    }
  }
  const usual = values.length - odd;
  if (!usual) return "none is finite";
  return `${figure(least)} … ${figure(most)}, mean ${figure(sum / usual)}${odd ? `; ${figure(odd)} not finite` : ""}`;
}

const list = (values, format) => values.slice(0, FEW).map(format).join(", ") + (values.length > FEW ? ", …" : "") || "none";

/** One vector of float scores, such as those of classes. */
function isScores({ type, dims, size }) {
  const classes = dims.findLast((dim) => dim > 1);
  return /float/.test(type) && dims.length > 0 && dims.length <= 4 && size === classes && size >= 3 && size <= MOST_CLASSES;
}

function top(tensor) {
  const values = Array.from(numbersOf(tensor));
  const order = values.map((_, k) => k).sort((a, b) => values[b] - values[a]).slice(0, TOP);
  const sum = values.reduce((a, b) => a + b, 0);
  const isShare = values.every((value) => value >= 0) && Math.abs(sum - 1) < 0.01;
  const [most, least] = [values[order[0]], values.reduce((a, b) => Math.min(a, b))];
  return element(
    "ol.bars",
    {},
    order.map((k) => {
      const fill = element("span.fill");
      fill.style.transform = `scaleX(${isShare ? values[k] : (values[k] - least) / (most - least || 1)})`;
      const share = element("span.share", {}, isShare ? percent(values[k]) : figure(values[k]));
      return element("li", {}, element("span.label", {}, String(k)), element("span.track", {}, fill), share);
    }),
  );
}
