// Runs mutated bundles with the page runtime: lines {file, feeds: {name: [type, elements, dims]}} in, for each a line
// {status, detail} out. A worker does it, which is ended when it does not answer for so many milliseconds.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

if (isMainThread) {
  const [runtime, patience] = process.argv.slice(2);
  let worker;
  let answer; // to the case at hand
  const start = () => {
    worker = new Worker(new URL(import.meta.url), { workerData: runtime });
    worker.on("message", (told) => answer(told));
    worker.on("error", (error) => lose("crashed", String(error)));
  };
  const lose = (status, detail = "") => {
    worker.terminate();
    start();
    answer({ status, detail });
  };
  const attempt = (told) =>
    new Promise((resolve) => {
      const timer = setTimeout(() => lose("hung"), Number(patience));
      answer = (outcome) => (clearTimeout(timer), resolve(outcome));
      worker.postMessage(told);
    });
  start();
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await attempt(JSON.parse(line)))}\n`);
  }
  process.exit();
} else {
  console.info = console.warn = () => {};
  const { Tensor, load } = await import(`${workerData}/runtime.js`);
  const own = [Error, RangeError, WebAssembly.RuntimeError, WebAssembly.CompileError, WebAssembly.LinkError];
  parentPort.on("message", async ({ file, feeds }) => {
    try {
      const session = await load(new Uint8Array(readFileSync(file)), { target: "wasm" });
      const told = session.inputs.map(({ name }) => [name, feeds[name]]).filter(([, feed]) => feed);
      const numbers = (type, values) => (/int64/.test(type) ? values.map(BigInt) : values);
      const tensors = told.map(([name, [type, values, dims]]) => [name, new Tensor(type, numbers(type, values), dims)]);
      await session.run(Object.fromEntries(tensors));
      session.release();
      parentPort.postMessage({ status: "result", detail: "" });
    } catch (error) {
      const status = own.includes(error.constructor) ? "refused" : "broken";
      parentPort.postMessage({ status, detail: status === "broken" ? String(error.stack) : `${error.name}: ${error.message}` });
    }
  });
}
