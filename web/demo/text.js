/** Words, numbers and elements. */

const LONG = 14; // letters in a row, after which a line may end before a capital

/** An element: its tag with classes, `"p.error"`, properties, and what is in it. */
export function element(tag, properties = {}, ...content) {
  const [name, ...classes] = tag.split(".");
  const made = Object.assign(document.createElement(name), properties);
  made.classList.add(...classes);
  made.append(...content.flat().filter((each) => each !== null && each !== undefined));
  return made;
}

/** A name that a line may end in between its words, and nowhere else. */
export function named(name) {
  const words = name.match(/[^\s_./:\\-]*[\s_./:\\-]+|[^\s_./:\\-]+$/g) ?? [];
  const humps = words.flatMap((word) => (word.length > LONG ? word.split(/(?<=[a-z\d])(?=[A-Z])/) : [word]));
  return element("span.name", {}, humps.flatMap((word, k) => (k ? [element("wbr"), word] : [word])));
}

/** A table with these heads. */
export function table(caption, heads, rows) {
  const head = element("tr", {}, heads.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map((row) => element("tr", {}, row.map((text) => element("td", {}, text))));
  const all = element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, body));
  return element("div.scroll", {}, all);
}

/** Terms and what they are, for a `dl`; empty ones are left out. */
export function facts(pairs) {
  const told = Object.entries(pairs).filter(([, text]) => text);
  return told.map(([term, text]) => element("div", {}, element("dt", {}, term), element("dd", {}, text)));
}

const SPACE = "\u00a0"; // between a number and its unit, where no line ends

export function bytes(count) {
  const power = Math.min(3, Math.max(0, Math.floor(Math.log10(Math.max(1, count)) / 3)));
  const value = count / 1000 ** power;
  return `${power && value < 99.5 ? value.toFixed(1) : Math.round(value)}${SPACE}${["B", "kB", "MB", "GB"][power]}`;
}

export function duration(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(2)}${SPACE}s`;
  return `${milliseconds >= 99.5 ? Math.round(milliseconds) : milliseconds.toPrecision(2)}${SPACE}ms`;
}

export const percent = (share) => `${(100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 0 : 1)}${SPACE}%`;

export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** A number with four digits that count. */
export function figure(value) {
  const text = Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
}

/** `float32 [1, 3, 224, 224]` */
export function kind(type, dims) {
  if (!dims) return `${type} of any shape`;
  return dims.length ? `${type} [${dims.map((size) => size ?? "?").join(", ")}]` : `${type}, one element`;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The browser has shown what was changed. */
export const shown = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
