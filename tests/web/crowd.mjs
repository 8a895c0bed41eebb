// Node: many sessions of a bundle: {file} in argv, and what became of them out. Run with --expose-gc.
import { readFileSync } from "node:fs";

const [runtime, told] = process.argv.slice(2);
const { Tensor, load } = await import(`${runtime}/runtime.js`);
const bundle = new Uint8Array(readFileSync(JSON.parse(told).file));
const image = (value) => new Tensor("float32", new Float32Array(784).fill(value), [1, 1, 28, 28]);
const read = async (session, value) => String((await session.run({ image: image(value) })).probabilities.data);
const collected = async () => {
  for (let k = 0; k < 5; k++) {
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
const homes = (sessions) => new Set(sessions.map(({ device }) => device.home));
const used = (some) => [...some].reduce((sum, { used }) => sum + used.size, 0);

const sessions = [];
for (let k = 0; k < 80; k++) sessions.push(await load(bundle, { threads: 1 }));
const wanted = [await read(sessions[0], 0.25), await read(sessions[0], 0.5)];
const areRight = async (some) => {
  const found = await Promise.all(some.flatMap((session) => [read(session, 0.25), read(session, 0.5)]));
  return found.every((answer, k) => answer === wanted[k % 2]);
};
const answers = [await areRight(sessions)];
const memories = homes(sessions).size;

// Those that are released, or dropped, give what they had to others; the rest keeps what it has.
const all = homes(sessions);
const before = used(all);
const [first] = sessions;
const alike = sessions.filter(({ device }) => device.home === first.device.home).length;
await Promise.all(sessions.splice(40).map((session) => session.release()));
const released = used(all);
answers.push(await areRight(sessions));
sessions.splice(20);
await collected();
const dropped = used(all);
for (let k = 0; k < 30; k++) sessions.push(await load(bundle, { threads: 1 }));
answers.push(await areRight(sessions));
const again = homes(sessions).size;

// Where no memory can be had, one of others has to do; where there is none, it is said.
const { Memory } = WebAssembly;
WebAssembly.Memory = function () {
  throw new RangeError("could not allocate memory");
};
const fresh = await import(`${runtime}/memory.js?fresh`);
const refusal = (() => {
  try {
    fresh.Memory.take(false, new Set());
  } catch (error) {
    return error.message;
  }
})();
await Promise.all(sessions.splice(5).map((session) => session.release()));
const late = await load(bundle, { threads: 1 });
answers.push(await areRight([late, ...sessions]), homes(sessions).has(late.device.home));
WebAssembly.Memory = Memory;

// Code that traps is told by the name of its bundle, and its memory comes back.
const broken = await load(bundle, { threads: 1, name: "broken.sdx" });
broken.device.exports = { run: () => { throw new WebAssembly.RuntimeError("unreachable"); } };
const trap = await read(broken, 0.5).catch((error) => error.message);
await Promise.all([broken, late, ...sessions].map((session) => session.release()));
await late.last;
await collected();
console.log(JSON.stringify({ memories, alike, before, released, dropped, again, answers, refusal, trap, end: used(all) }));
