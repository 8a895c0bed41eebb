/** Outputs of a model, told in a few words. */

import { areShares, classesOf } from "./classes.js";
import { numbersOf } from "./feeds.js";
import { element, figure, kind, named, percent, table } from "./text.js";

const TOP = 5;
const FEW = 4; // elements that are told one by one

/** A table of the outputs, `{ name: Tensor }`, and the first classes of those that the outline shows to be scores. */
export function summary(outputs, outline) {
  const told = Object.entries(outputs);
  const rows = told.map(([name, tensor]) => [named(name), kind(tensor.type, tensor.dims), spread(tensor)]);
  const scores = told.flatMap(([name, tensor]) => {
    const values = tensor.type === "string" ? [] : Array.from(numbersOf(tensor));
    const labels = classesOf(outline, name, tensor, values);
    return labels ? [element("div.top", {}, element("h4", {}, "Highest of ", named(name)), top(values, labels))] : [];
  });
  return [table("Outputs", ["Name", "Type", "Elements"], rows), ...scores];
}

/** The range and the mean; of few elements, and of texts, the elements. */
function spread(tensor) {
  if (tensor.type === "string") return list(tensor.data, String);
  if (tensor.type === "bool") return list(Array.from(tensor.data), (value) => (value ? "true" : "false"));
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

function top(values, labels) {
  const order = values.map((_, k) => k).sort((a, b) => values[b] - values[a]).slice(0, TOP);
  const isShare = areShares(values);
  const [most, least] = [values[order[0]], values.reduce((a, b) => Math.min(a, b))];
  return element(
    "ol.bars",
    {},
    order.map((k) => {
      const fill = element("span.fill");
      fill.style.transform = `scaleX(${isShare ? values[k] : (values[k] - least) / (most - least || 1)})`;
      const share = element("span.share", {}, isShare ? percent(values[k]) : figure(values[k]));
      return element("li", {}, element("span.label", {}, named(labels[k])), element("span.track", {}, fill), share);
    }),
  );
}
