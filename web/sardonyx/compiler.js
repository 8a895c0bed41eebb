/** The worker of python.js: Python, and in it the engine. */

let engine;

/** First comes where everything lies, then the pieces of what the page fetches meanwhile, and models. */
onmessage = async ({ data }) => {
  if (data.address) return void arrivals.hear(data);
  try {
    if (!data.model) return void (await (engine = start(data)));
    const python = await engine;
    postMessage({ stage: "compile", loaded: 0, total: 1 });
    const { model, targets, shapes, sizes, files, training } = data;
    const found = training
      ? python.pyimport("sardonyx.web.page_training").compile(model, targets, sizes, files, training)
      : python.pyimport("sardonyx.web.page").compile(model, targets, shapes, sizes, files);
    if (typeof found === "string") return void postMessage({ error: found });
    postMessage({ stage: "compile", loaded: 1, total: 1 });
    postMessage({ bundle: found.buffer }, [found.buffer]);
  } catch (error) {
    postMessage({ failure: error.message });
  }
};

async function start({ pyodide, glue, stdlib, files, packages, rest }) {
  const [others, own] = [packages.slice(0, -1), packages.slice(-1)]; // NumPy, and the engine
  arrivals.expect(files.flat());
  if (glue) import(/* webpackIgnore: true */ glue).catch(() => {}); // Pyodide will hear
  const { loadPyodide } = await import(/* webpackIgnore: true */ `${pyodide}pyodide.mjs`).catch((error) => {
    throw new Error(`there is no Pyodide at ${pyodide} (${error.message}): \`sardonyx web DIR\` puts it there`);
  });
  const python = await loadPyodide({ indexURL: pyodide, ...(stdlib && { stdLibURL: unpacked(stdlib) }) });
  const load = (wheels) => python.loadPackage(wheels.map(unpacked), { messageCallback() {} });
  await load(others);
  python.pyimport("numpy"); // while the engine comes
  await load(own);
  if (rest.length) python.pyimport("sardonyx.web.rest").install(rest);
  python.pyimport("sardonyx.web.page");
  return python;
}

const PACKED = /\.packed$/;

/** The address by which Pyodide asks for what is sent gzipped. */
const unpacked = (address) => address.replace(PACKED, "");

/** What the page fetches, in pieces that wait as messages while Python works; other addresses are asked for here. */
class Arrivals {
  files = new Map();
  request = globalThis.fetch;

  expect(addresses) {
    for (const address of addresses) {
      const file = {};
      file.response = new Promise((resolve) => (file.begin = resolve));
      this.files.set(address, file);
      this.files.set(unpacked(address), file);
    }
  }

  hear({ address, type, piece }) {
    const file = this.files.get(address);
    if (piece) return file.pieces.enqueue(piece);
    if (file.pieces) return file.pieces.close();
    const body = new ReadableStream({ start: (controller) => (file.pieces = controller) });
    const whole = PACKED.test(address) ? body.pipeThrough(new DecompressionStream("gzip")) : body;
    return file.begin(new Response(whole, { headers: type ? { "content-type": type } : {} }));
  }

  fetch(given, options) {
    const file = this.files.get(new URL(given.url ?? given, location.href).href);
    return file ? file.response : this.request.call(globalThis, given, options);
  }
}

const arrivals = new Arrivals();
globalThis.fetch = (...request) => arrivals.fetch(...request);
