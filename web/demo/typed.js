/** Arrays that a person types: `1, 2.5, -3`, `[[1 2] [3 4]]`, or texts. */

const RANGES = {
  int64: 64, int32: 32, int16: 16, int8: 8, int4: 4, int2: 2,
  uint64: -64, uint32: -32, uint16: -16, uint8: -8, uint4: -4, uint2: -2,
};
const BITS = /^float[468]e/; // which JavaScript lacks: a byte for each element
const NUMBER = /^[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf(inity)?|nan)$/i;
const DEEPEST = 16;
const WORDS = { true: 1, false: 0 };

/** `{ values, dims }` of what was typed; `dims` is null where no brackets tell. Throws an Error that says what is wrong. */
export function typed(text, type) {
  if (type !== "string") return nested(tokens(text), (token) => elementOf(token, type));
  if (!text.trim().startsWith("[")) return { values: text.replace(/\n$/, "").split("\n"), dims: null };
  try {
    return nested([...JSON.stringify(JSON.parse(text)).matchAll(/\[|\]|"(?:[^"\\]|\\.)*"|[^[\],]+/g)].flat(), textOf);
  } catch (error) {
    throw error instanceof SyntaxError ? new Error('texts in brackets are written as JSON is: ["one", "two"]') : error;
  }
}

/** How what is typed for a type looks. */
export function hintFor(type) {
  if (type === "string") return "random words; type one a line";
  if (BITS.test(type)) return "random; type its bits, 0 to 255";
  return type === "bool" ? "random; type true, false" : "random; type numbers, 1 2 3 or [[1, 2], [3, 4]]";
}

/** An element of a type, from a number, a bigint or a word. Throws an Error where it is none. */
export function elementOf(value, type) {
  const word = String(value).trim();
  if (type === "string") return String(value);
  const known = WORDS[word.toLowerCase()];
  if (known === undefined && !NUMBER.test(word)) throw new Error(`“${word}” is no number`);
  const number = known ?? (typeof value === "number" ? value : Number(word.replace(/^([+-]?)inf(inity)?$/i, "$1Infinity")));
  if (/^b?float\d+$/.test(type) || type === "bfloat16") return number;
  if (type === "bool") return Number(number !== 0);
  const range = RANGES[type] ?? (BITS.test(type) ? -8 : 0);
  if (!range) throw new Error(`numbers cannot be given as ${type} here`);
  const whole = typeof value === "bigint" ? value : /^[+-]?\d+$/.test(word) ? BigInt(word.replace("+", "")) : Number.isInteger(number) ? BigInt(number) : null;
  if (whole === null) throw new Error(`${word} is no integer, and ${type} is wanted`);
  const [least, most] = range > 0 ? [-(2n ** BigInt(range - 1)), 2n ** BigInt(range - 1) - 1n] : [0n, 2n ** BigInt(-range) - 1n];
  if (whole < least || whole > most) throw new Error(`${word} does not fit into ${type}, which is ${least} to ${most}`);
  return Math.abs(range) === 64 ? whole : Number(whole);
}

const tokens = (text) => text.match(/[[\]()]|[^[\](),;\s]+/g) ?? [];

/** Elements and the shape that their brackets have. */
function nested(parts, convert) {
  let position = 0;
  const list = (depth) => {
    if (depth > DEEPEST) throw new Error(`brackets are nested more than ${DEEPEST} deep`);
    const items = [];
    while (position < parts.length && !"])".includes(parts[position])) {
      const part = parts[position++];
      if (!"[(".includes(part)) items.push(convert(part));
      else {
        items.push(list(depth + 1));
        if (position++ >= parts.length) throw new Error("a bracket is not closed");
      }
    }
    return items;
  };
  const items = list(0);
  if (position < parts.length) throw new Error("a bracket closes that was not opened");
  if (!items.some(Array.isArray)) return { values: items, dims: null };
  const tree = items.length === 1 ? items[0] : items;
  const dims = [];
  for (let each = tree; Array.isArray(each); each = each[0]) dims.push(each.length);
  const isEven = (each, axis) => (axis === dims.length ? !Array.isArray(each) : each.length === dims[axis] && each.every((item) => isEven(item, axis + 1)));
  if (!isEven(tree, 0)) throw new Error("the brackets have different numbers of elements");
  return { values: tree.flat(Infinity), dims };
}

function textOf(token) {
  const value = JSON.parse(token);
  if (typeof value !== "string") throw new Error(`${token} is no text: put it in quotes`);
  return value;
}
