// Times the functions of a module in turns, in a worker of a page; see integer_products.py. The answer has milliseconds
// of each side; what they computed is posted.
import { turns } from "./turns.mjs";
import { bytes, serve } from "/support/worker.mjs";

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

function timed(run, count) {
  const start = performance.now();
  for (let i = 0; i < count; i++) run();
  return (performance.now() - start) / count;
}

// How many runs fill a measurement, counted when the optimising compiler has had its time.
function repetitions(run, milliseconds) {
  let count = 0;
  for (let turn = 0; turn < 10; turn++) {
    const end = performance.now() + 2 * milliseconds;
    for (count = 0; performance.now() < end; count++) run();
  }
  return Math.max(1, count >> 1);
}

serve(async ({ sides, results, rounds, seconds, tries }) => {
  const { instance } = await WebAssembly.instantiate(await bytes("/data/module"), {});
  const { memory, ...functions } = instance.exports;
  new Uint8Array(memory.buffer).set(await bytes("/data/memory"));
  const runs = Object.entries(sides).map(([name, given]) => ({ name, run: () => functions[name](...given), times: [] }));
  for (const side of runs) side.count = repetitions(side.run, 1e3 * seconds);
  for (let k = 0; k < rounds; k++)
    for (const { run, count, times } of turns(runs, k))
      times.push(Math.min(...Array.from({ length: tries }, () => timed(run, count)))); // others may have the processor
  for (const [name, address, size] of results)
    await fetch(`/${name}`, { method: "POST", body: new Uint8Array(memory.buffer, address, size) });
  return Object.fromEntries(runs.map(({ name, times }) => [name, median(times)]));
});
