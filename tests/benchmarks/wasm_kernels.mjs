// Times the kernels of a module in turns with onnxruntime-web, both on one thread; see wasm_kernels.py.
//
//   node wasm_kernels.mjs JOBS.json [ONNXRUNTIME_WEB]
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { turns } from "./turns.mjs";

const [jobsFile, runtimeFolder] = process.argv.slice(2);
const jobs = JSON.parse(await readFile(jobsFile, "utf8"));
const { instance } = await WebAssembly.instantiate(await readFile(jobs.module), {});
const { memory, ...functions } = instance.exports;
const ort = runtimeFolder ? await import(pathToFileURL(`${runtimeFolder}/dist/ort.wasm.min.mjs`)) : null;
if (ort) ort.env.wasm.numThreads = 1;

const seconds = 0.1; // of one measurement; the clock of a thread ticks every 4 ms
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

// Milliseconds of this thread: others may have the processor meanwhile.
function now() {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1e3;
}

async function timed(run, count) {
  const start = now();
  for (let i = 0; i < count; i++) await run();
  return (now() - start) / count;
}

function timedKernel(job, count) {
  const start = now();
  for (let i = 0; i < count; i++) functions[job.name](...job.arguments);
  return (now() - start) / count;
}

// How many runs fill a measurement, counted when the optimising compiler has had its time.
async function repetitions(run) {
  let count = 0;
  for (let turn = 0; turn < 3; turn++) {
    const end = now() + 1e3 * seconds;
    for (count = 0; now() < end; ) for (let i = 0; i <= count >> 3; i++, count++) await run();
  }
  return count;
}

function fill(address, values) {
  new Float32Array(memory.buffer, address, values).forEach((_, i, all) => (all[i] = ((i * 7919) % 1013) / 506.5 - 1));
}

const results = [];
for (const job of jobs.cases) {
  for (const [address, values] of job.operands) fill(address, values);
  let session = null;
  let feeds = null;
  if (ort) {
    session = await ort.InferenceSession.create(await readFile(job.model), { executionProviders: ["wasm"] });
    feeds = Object.fromEntries(
      Object.entries(job.feeds).map(([name, dims]) => {
        const data = Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, i) => ((i * 7919) % 1013) / 506.5 - 1);
        return [name, new ort.Tensor("float32", data, dims)];
      }),
    );
  }
  const once = async () => (await session.run(feeds)).y.dispose();
  const mine = await repetitions(async () => timedKernel(job, 1));
  const theirs = ort ? await repetitions(once) : 0;
  const times = { kernel: [], onnxruntime: [] };
  const sides = { kernel: () => timedKernel(job, mine), onnxruntime: () => timed(once, theirs) };
  for (let k = 0; k < jobs.rounds; k++)
    for (const side of turns(ort ? ["kernel", "onnxruntime"] : ["kernel"], k)) times[side].push(await sides[side]());
  const row = { kernel: median(times.kernel) };
  if (ort) row["onnxruntime-web"] = median(times.onnxruntime);
  results.push(row);
}
console.log(JSON.stringify(results));
process.exit(0);
