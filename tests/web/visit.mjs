// What a page, or a worker, does with a model: {source, file, feeds: {name: [type, elements, dims]}, options} ->
// {outputs: {name: [elements, dims]}, stages: {stage: [loaded, total]}}, or {error}. The option `typical` gives the
// feeds as shapes; `until` is the stage at which it is ended.
import { load } from "/site/sardonyx/runtime.js";
import { Tensor, compile } from "/site/sardonyx/compile.js";

/** `file` is the name of a File to make of what lies at `source`, as if it had been dropped; a bundle is loaded. */
export async function visit({ source, file, feeds = {}, options = {} }) {
  const stages = {};
  const end = new AbortController();
  const progress = ({ stage, loaded, total }) => {
    stages[stage] = [loaded, total];
    if (stage === options.until) end.abort(new Error("enough"));
  };
  const tensors = Object.entries(feeds).map(([name, [type, elements, dims]]) => [name, new Tensor(type, elements, dims)]);
  const shapes = options.typical ? Object.fromEntries(tensors) : options.shapes;
  const told = { ...options, shapes, progress, signal: end.signal };
  try {
    const given = file ? new File([await (await fetch(source)).arrayBuffer()], file) : source;
    const session = await (source.endsWith(".sdx") ? load(given, options) : compile(given, told));
    const found = Object.entries(await session.run(Object.fromEntries(tensors)));
    session.release();
    return { outputs: Object.fromEntries(found.map(([name, { data, dims }]) => [name, [Array.from(data), dims]])), stages };
  } catch (error) {
    return { error: error.message, stages };
  }
}

const answer = async (given, reply) => reply(await visit(given));
if (globalThis.ServiceWorkerGlobalScope) onmessage = ({ data, ports }) => answer(data, (told) => ports[0].postMessage(told));
else if (globalThis.WorkerGlobalScope) onmessage = ({ data }) => answer(data, postMessage);
