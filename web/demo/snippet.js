/** The lines that run a model in another page. */

const FEW = 8; // elements that are spelled out

/** Five lines of HTML that run the bundle `file` for inputs like these tensors. */
export function snippet(file, feeds) {
  const fed = Object.entries(feeds).map(([name, tensor]) => `${key(name)}: ${made(tensor)}`);
  return [
    '<script type="module">',
    '  import { load, Tensor } from "./sardonyx/runtime.js";',
    `  const session = await load(${quoted(encodeURIComponent(file))});`,
    `  console.log(await session.run({ ${fed.join(", ")} }));`,
    "</script>",
  ].join("\n");
}

/** A text in a script that stands in HTML. */
const quoted = (text) => JSON.stringify(text).replaceAll("<", "\\u003c");

const key = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : quoted(name));

const made = (tensor) => `new Tensor("${tensor.type}", ${elements(tensor)}, [${tensor.dims.join(", ")}])`;

/** Elements as they are if they are few, all the same or a row of integers; else zeros, for a page to fill. */
function elements({ type, data }) {
  const values = Array.from(data);
  const literal = (value) => (typeof value === "string" ? quoted(value) : `${value}${Number.isSafeInteger(Number(value)) || typeof value === "number" ? "" : "n"}`);
  if (values.length <= FEW) return `[${values.map(literal).join(", ")}]`;
  if (values.every((value) => value === values[0])) return `Array(${values.length}).fill(${literal(values[0])})`;
  if (/int/.test(type) && values.every((value, k) => Number(value) === k)) return `Array.from(Array(${values.length}).keys())`;
  return `Array(${values.length}).fill(${type === "string" ? '""' : 0})`;
}
