/** The worker of python.js: Python, and in it the engine. */

let engine;

/** First comes where everything lies, then models. */
onmessage = async ({ data }) => {
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

async function start({ pyodide, core, stdlib, packages, rest, total }) {
  const [others, own] = [packages.slice(0, -1), packages.slice(-1)]; // NumPy, and the engine
  const traffic = new Traffic(total);
  globalThis.fetch = (...request) => traffic.fetch(...request);
  let here = Promise.resolve(); // NumPy; Python works on it while the engine comes
  let arrival = here;
  if (stdlib) {
    const [glue, ...first] = core;
    import(/* webpackIgnore: true */ glue).catch(() => {}); // Pyodide will hear
    here = traffic.ask([...first, stdlib]).then(() => traffic.ask(others));
    arrival = here.then(() => traffic.ask(own));
  }
  const { loadPyodide } = await import(/* webpackIgnore: true */ `${pyodide}pyodide.mjs`).catch((error) => {
    throw new Error(`there is no Pyodide at ${pyodide} (${error.message}): \`sardonyx web DIR\` puts it there`);
  });
  const failure = new Promise((_, reject) => arrival.catch(reject)); // at which Pyodide would wait for ever
  const load = (wheels) => Promise.race([python.loadPackage(wheels.map(unpacked), { messageCallback() {} }), failure]);
  const python = await Promise.race([loadPyodide({ indexURL: pyodide, ...(stdlib && { stdLibURL: unpacked(stdlib) }) }), failure]);
  await load(others);
  python.pyimport("numpy");
  await here;
  await load(own);
  if (rest.length) python.pyimport("sardonyx.web.rest").install(rest);
  python.pyimport("sardonyx.web.page");
  return python;
}

const PACKED = /\.packed$/;

/** The address by which Pyodide asks for what is sent gzipped. */
const unpacked = (address) => address.replace(PACKED, "");

/** What comes from the network: it tells how many bytes did, and asks for some before they are wanted. */
class Traffic {
  loaded = 0;
  asked = new Map();
  request = globalThis.fetch;

  constructor(total) {
    this.total = total;
  }

  /** Asks for addresses; resolves when all is there, and rejects where something is not. */
  ask(addresses) {
    const arrival = (address) =>
      new Promise((resolve, reject) => {
        const response = this.counted(address, resolve);
        response.then(({ ok, status }) => ok || reject(new Error(`${address}: the server answers ${status}`)), reject);
        this.asked.set(unpacked(address), response);
      });
    return Promise.all(addresses.map(arrival));
  }

  fetch(given, options) {
    const address = new URL(given.url ?? given, location.href).href;
    const response = this.asked.get(address) ?? this.counted(given, () => {}, options);
    this.asked.delete(address);
    return response;
  }

  async counted(given, done, options) {
    const response = await this.request.call(globalThis, given, options);
    if (!response.ok || !response.body) return response;
    const counter = {
      transform: (piece, controller) => {
        postMessage({ stage: "pyodide", loaded: (this.loaded += piece.length), total: this.total });
        controller.enqueue(piece);
      },
      flush: done,
    };
    const all = new ByteLengthQueuingStrategy({ highWaterMark: Infinity }); // it comes though nobody reads it yet
    const body = response.body.pipeThrough(new TransformStream(counter, undefined, all));
    return new Response(PACKED.test(given) ? body.pipeThrough(new DecompressionStream("gzip")) : body, response);
  }
}
