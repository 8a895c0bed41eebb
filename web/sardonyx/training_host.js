/** The worker of one training session: what training_remote.js asks of it. */

import { Bundle } from "./bundle.js";
import { Crew, borrowed } from "./crew.js";
import { Trainer } from "./trainer.js";
import { WasmDevice } from "./wasm.js";

Crew.helper = borrowed;

let trainer;
const listed = (found) => Object.entries(found).map(([name, { type, data, dims }]) => [name, type, data, dims]);
const buffers = (tensors) => tensors.map(([, , { buffer }]) => buffer).filter(Boolean);

/** What is done, and of what it gives, the buffers that are moved. */
const tasks = {
  async load({ file, name, threads }) {
    const bundle = await Bundle.open(file, { name });
    trainer = await Trainer.load(file, bundle, "wasm", new WasmDevice(bundle.manifest.targets.wasm, { threads }));
    return [];
  },
  async run({ part, feeds, names }) {
    const tensors = listed(await trainer.run(part, feeds, names));
    return [tensors, buffers(tensors)];
  },
  async parameters({ names }) {
    const tensors = listed(await trainer.parameters(names));
    return [tensors, buffers(tensors)];
  },
  write: async ({ names, bytes }) => [await trainer.write(names, bytes)],
  async export({ format, metadata }) {
    const bytes = await trainer.export(format, metadata);
    return [bytes, [bytes.buffer]];
  },
};

onmessage = async ({ data: { number, what, given } }) => {
  try {
    const [result, moved] = await tasks[what](given);
    postMessage({ number, result }, moved);
  } catch (error) {
    postMessage({ number, error });
  }
};
postMessage({ isReady: true });
