// Runs mutated bundles with the page runtime: lines {file, feeds: {name: [type, elements, dims]}} in, for each a line
// {status, detail} out. A worker does it, which is ended when it does not answer for so many milliseconds; "endless" is
// who still hears what it is asked, as a page does whose model has a Loop that wants to go on for ever.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

if (isMainThread) {
  const [runtime, patience] = process.argv.slice(2);
  let worker;
  let answer; // to the case at hand
  const start = () => {
    worker = new Worker(new URL(import.meta.url), { workerData: runtime });
    worker.on("message", (told) => (told === "here" ? lose("endless") : answer(told)));
    worker.on("error", (error) => lose("crashed", String(error)));
  };
  const lose = (status, detail = "") => {
    worker.terminate();
    start();
    answer({ status, detail });
  };
  const attempt = (told) =>
    new Promise((resolve) => {
      const late = () => {
        worker.postMessage("where");
        timer = setTimeout(() => lose("hung"), Number(patience));
      };
      let timer = setTimeout(late, 1000 * told.seconds);
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
  parentPort.on("message", async (told) => {
    if (told === "where") return parentPort.postMessage("here");
    const { file, feeds } = told;
    try {
      const session = await load(new Uint8Array(readFileSync(file)), { target: "wasm" });
      const fed = session.inputs.map(({ name }) => [name, feeds[name]]).filter(([, feed]) => feed);
      const numbers = (type, values) => (/int64/.test(type) ? values.map(BigInt) : values);
      const tensors = fed.map(([name, [type, values, dims]]) => [name, new Tensor(type, numbers(type, values), dims)]);
      await session.run(Object.fromEntries(tensors));
      session.release();
      parentPort.postMessage({ status: "result", detail: "" });
    } catch (error) {
      const status = own.includes(error.constructor) ? "refused" : "broken";
      parentPort.postMessage({ status, detail: status === "broken" ? String(error.stack) : `${error.name}: ${error.message}` });
    }
  });
}
