// Measures one model in Pyodide and in onnxruntime-web, in turns on this worker's one thread. The answer has for each
// side milliseconds of `load`, `create`, `first` and `times`, bytes of `code` and `memory`, dtypes and shapes of
// `outputs`, whose contents are posted; or why it `failed`.
import { turns } from "./turns.mjs";
import { bytes, python, serve, stage } from "/support/worker.mjs";

const ARRAYS = {
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array,
  int32: Int32Array, uint64: BigUint64Array, int64: BigInt64Array, float32: Float32Array, float64: Float64Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};

// Every memory and every module that WebAssembly is asked for here, to know how large they are.
const memories = [];
let compiled = 0;
WebAssembly.Memory = new Proxy(WebAssembly.Memory, {
  construct(Memory, given) {
    memories.push(new Memory(...given));
    return memories.at(-1);
  },
});
WebAssembly.Module = new Proxy(WebAssembly.Module, {
  construct(Module, given) {
    compiled += given[0].byteLength;
    return new Module(...given);
  },
});

async function timed(work) {
  const begun = performance.now();
  const result = await work();
  return [performance.now() - begun, result];
}

// A side has create(model) and run(times), which take milliseconds, outputs() and memory() in bytes.
async function onnxruntime() {
  const ort = await import("/onnxruntime/ort.wasm.min.mjs");
  Object.assign(ort.env.wasm, { numThreads: 1, proxy: false, wasmPaths: "/onnxruntime/" });
  ort.env.logLevel = "error";
  const known = memories.length;
  const feeds = {};
  let session, results;
  return {
    feed(name, data, dtype, shape) {
      feeds[name] = new ort.Tensor(dtype, new ARRAYS[dtype](data.buffer), shape);
    },
    async create(model) {
      const [taken, made] = await timed(() => ort.InferenceSession.create(model));
      session = made;
      return taken;
    },
    async run(times) {
      const [taken] = await timed(async () => {
        for (let i = 0; i < times; i++) results = await session.run(feeds);
      });
      return taken / times;
    },
    outputs: () => session.outputNames.map((name) => {
      const { type, dims, data } = results[name];
      return [type, dims, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];
    }),
    memory: () => memories.slice(known).reduce((sum, { buffer }) => sum + buffer.byteLength, 0),
  };
}

async function sardonyx(wheel) {
  const pyodide = await python(wheel);
  pyodide.FS.writeFile("inside.py", await bytes("/benchmarks/inside.py"));
  const inside = pyodide.pyimport("inside");
  const results = {};
  return (name, provider) => ({
    feed: inside.feed,
    create: (model) => inside.create(name, model, provider),
    async run(times) {
      const [taken] = await timed(() => {
        for (let i = 0; i < times; i++) {
          const arrays = inside.run(name);
          results[name] = arrays.toJs();
          arrays.destroy();
        }
      });
      return taken / times;
    },
    outputs: () => inside.kinds(name).toJs().map(([dtype, shape], k) => [dtype, shape, results[name][k]]),
    memory: () => pyodide._module.HEAPU8.byteLength,
  });
}

serve(async ({ wheel, inputs, providers, runs, seconds }) => {
  const found = {}, sides = {};
  // Does `work` for each side that has not failed so far.
  let round = 0;
  async function each(what, work) {
    for (const [name, side] of turns(Object.entries(sides), round++)) {
      stage(`${name} ${what}`);
      try {
        await work(side, found[name], name);
      } catch (error) {
        const reason = (error.message || String(error)).trim().split("\n").at(-1);
        found[name] = { failed: `when it ${what}: ${reason}` };
        delete sides[name];
      }
    }
  }

  stage("loading the runtimes");
  const [loadTheirs, theirs] = await timed(onnxruntime);
  const [loadOurs, ours] = await timed(() => sardonyx(wheel));
  sides["onnxruntime-web"] = theirs;
  found["onnxruntime-web"] = { load: loadTheirs };
  for (const [name, provider] of Object.entries(providers)) {
    sides[name] = ours(name, provider);
    found[name] = { load: loadOurs };
  }

  // What both put off to the first session is part of loading, not of the session that is measured.
  const trivial = await bytes("/data/trivial");
  await each("makes a trivial session", async (side, figures) => {
    figures.load += (await timed(() => side.create(trivial)))[0];
  });

  const model = await bytes("/data/model");
  for (const [number, [name, dtype, shape]] of inputs.entries()) {
    const data = await bytes(`/data/input${number}`);
    await each(`takes ${name}`, (side) => side.feed(name, data, dtype, shape));
  }
  await each("makes the session", async (side, figures) => {
    figures.code = -compiled;
    figures.create = await side.create(model);
    figures.code += compiled;
  });
  await each("runs first", async (side, figures, name) => {
    figures.code -= compiled;
    figures.first = await side.run(1);
    figures.code += compiled;
    figures.outputs = [];
    for (const [number, [dtype, shape, data]] of side.outputs().entries()) {
      await fetch(`/${name}/${number}`, { method: "POST", body: data });
      figures.outputs.push([dtype, [...shape].map(Number)]);
    }
  });

  // Two runs of each side, and more, as many of each, until V8 has had half a second for all to optimize; runs of many
  // seconds need no warm-up, nor a median.
  const slow = Object.values(found).some(({ first }) => first > 5000);
  const repeat = {};
  const spent = {}, last = {};
  for (let i = 0; !slow && (i < 2 || Object.keys(sides).some((name) => !(spent[name] >= 500))); i++)
    await each("warms up", async (side, figures, name) => {
      last[name] = await side.run(1);
      spent[name] = (spent[name] ?? 0) + last[name];
    });
  for (const [name, figures] of Object.entries(found)) {
    repeat[name] = Math.max(1, Math.min(100, Math.round(5 / (last[name] ?? figures.first)))); // some milliseconds
    figures.times = [];
  }

  const end = performance.now() + 1000 * seconds;
  for (let i = 0; i < runs && (i < (slow ? 1 : 3) || performance.now() < end); i++)
    await each(`runs for the ${i + 1}. time`, async (side, figures, name) => {
      figures.times.push(await side.run(repeat[name]));
    });
  await each("tells its memory", (side, figures) => { figures.memory = side.memory(); });
  return found;
});
