// A conversation with a bundle: {target, worker, batch, turns: [{length, count, feeds: [[name, type, data, dims]]}]}
// -> the elements of y of each turn, the tokens that there are then, and what was said of wrong asking.
import { Tensor, load } from "/sardonyx/runtime.js";
import { serve } from "/support/worker.mjs";

const told = (asked) => asked.then(() => "", (error) => error.message);

serve(async ({ target, worker, batch, turns }) => {
  const session = await load("/data/decoder.sdx", { target, worker });
  const caches = await session.caches(batch);
  const found = [];
  for (const { length, count, feeds } of turns) {
    caches.length = length;
    const given = feeds.map(([name, type, data, dims]) => [name, new Tensor(type, Float32Array.from(data), dims)]);
    const { y } = await caches.run(Object.fromEntries(given), ["y"], count);
    found.push([[...y.data], caches.length]);
  }
  const { x } = Object.fromEntries(turns[0].feeds.map(([name, type, data, dims]) => [name, new Tensor(type, Float32Array.from(data), dims)]));
  caches.length = 1000;
  const errors = [await told(caches.run({ x }, ["y"], 1))];
  await caches.release();
  session.release();
  const plain = await load("/data/plain.sdx", { target, worker });
  errors.push(await told(plain.caches()));
  plain.release();
  return { found, errors };
});
