// A worker that runs a bundle without Python: {bundle, inputs: [[name, type, dims]], target, threads, runs} -> figures.
// Elements come from /data/input<k>; outputs are posted to /output<k>.
import { Tensor, load } from "/sardonyx/runtime.js";
import { arrayOf } from "/sardonyx/types.js";
import { bytes, serve, stage } from "/support/worker.mjs";

serve(async ({ bundle, inputs, target, threads = 1, runs = 1 }) => {
  const feeds = {};
  for (const [k, [name, type, dims]] of inputs.entries()) {
    const data = await bytes(`/data/input${k}`);
    feeds[name] = new Tensor(type, new (arrayOf(type))(data.buffer), dims);
  }
  stage("loading");
  const start = performance.now();
  const session = await load(bundle, { target, threads });
  const loaded = performance.now();
  stage("running");
  let outputs = await session.run(feeds);
  const first = performance.now() - loaded;
  const times = [];
  for (let k = 1; k < runs; k++) {
    const begin = performance.now();
    outputs = await session.run(feeds);
    times.push(performance.now() - begin);
  }
  const told = [];
  for (const [k, { name }] of session.outputs.entries()) {
    const { type, data, dims } = outputs[name];
    told.push([name, type, dims]);
    await fetch(`/output${k}`, { method: "POST", body: data });
  }
  session.release();
  return { outputs: told, load: loaded - start, first, times, target: session.target };
});
