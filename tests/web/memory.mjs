// Node: runs of a bundle in which the nth allocation fails, for each n: {file, runs: [{name: [type, elements, dims]}]} in
// argv, and {count, refused, wrong: [what went wrong]} out. The first run of `runs` is the one that fails, and what comes
// after it must give what it gives in a session in which nothing failed.
import { readFileSync } from "node:fs";

const [runtime, told] = process.argv.slice(2);
const { Tensor, load } = await import(`${runtime}/runtime.js`);
const { Memory } = await import(`${runtime}/memory.js`);
const { file, runs } = JSON.parse(told);
const bundle = new Uint8Array(readFileSync(file));
let left = Infinity; // allocations that go well

for (const name of ["allocate", "grow"]) {
  const real = Memory.prototype[name];
  Memory.prototype[name] = function (...given) {
    if (left-- <= 0) throw new RangeError("no memory is left");
    return real.apply(this, given);
  };
}

const numbers = (type, values) => (/int64/.test(type) ? values.map(BigInt) : values);
const fed = (feeds) =>
  Object.fromEntries(Object.entries(feeds).map(([name, [type, values, dims]]) => [name, new Tensor(type, numbers(type, values), dims)]));
const told_ = (outputs) => JSON.stringify(Object.values(outputs).map(({ data, dims }) => [Array.from(data, String), dims]));
const run = async (session, feeds) => told_(await session.run(fed(feeds)));
const held = ({ device: { home } }) => [...home.used].reduce((sum, [start, end]) => sum + end - start, 0);
const free = ({ device: { home } }) => home.free.reduce((sum, [start, end]) => sum + end - start, 0);

const wrong = [];
const ranges = new Memory(false);
ranges.release(ranges.allocate(512));
try {
  ranges.allocate(2 ** 33);
} catch {
  if (String(ranges.free) !== "1024,65536" || ranges.end !== 65536) wrong.push(`a range was lost: ${ranges.free}`);
}

const whole = await load(bundle, { threads: 1 });
const wanted = [];
for (const feeds of runs) wanted.push(await run(whole, feeds));

let refused = 0;
let n = 0;
for (let isFailing = true; isFailing; n++) {
  for (const before of [0, 1]) { // in a new session, and in one that has frames of other sizes
    left = Infinity;
    const session = await load(bundle, { threads: 1 });
    const base = held(session);
    if (before) await run(session, runs.at(-1));
    left = n;
    const first = await run(session, runs[0]).catch((error) => (refused++, error.message));
    isFailing = left < 0;
    left = Infinity;
    if (isFailing ? first !== "no memory is left" && first !== wanted[0] : first !== wanted[0]) wrong.push(`${n}: first ${first}`);
    for (const [k, feeds] of runs.entries()) {
      const found = await run(session, feeds).catch((error) => error.message);
      if (found !== wanted[k]) wrong.push(`${n}: run ${k} after it gives ${found}, not ${wanted[k]}`);
    }
    session.graph.reset();
    const { memory, home } = session.device;
    if (held(session) !== base) wrong.push(`${n}: ${held(session)} bytes are held, not ${base}`);
    if (1024 + held(session) + free(session) > memory.buffer.byteLength || home.end !== memory.buffer.byteLength) wrong.push(`${n}: ranges`);
    if (held(session) + free(session) + 1024 !== home.end) wrong.push(`${n}: ${held(session)} and ${free(session)} are not ${home.end}`);
    session.release();
  }
}
// a load that fails gives its memory, and its workers, back
for (let k = 0; ; k++) {
  left = k;
  const session = await load(bundle, { threads: 1 }).catch((error) => (error.message === "no memory is left" ? null : wrong.push(error.stack)));
  if (left >= 0) break;
  if (session) wrong.push(`load ${k} did not fail`);
}
console.log(JSON.stringify({ count: n, refused, wrong: wrong.slice(0, 5) }));
