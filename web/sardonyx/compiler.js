/** The worker of python.js: Python, and in it the engine. */

let engine;

/** First comes where everything lies, then models. */
onmessage = async ({ data }) => {
  try {
    if (!data.model) return void (await (engine = start(data)));
    const { compile } = await engine;
    postMessage({ stage: "compile", loaded: 0, total: 1 });
    const found = compile(data.model, data.targets, data.shapes, data.sizes);
    if (typeof found === "string") return void postMessage({ error: found });
    postMessage({ stage: "compile", loaded: 1, total: 1 });
    postMessage({ bundle: found.buffer }, [found.buffer]);
  } catch (error) {
    postMessage({ failure: error.message });
  }
};

async function start({ pyodide, core, stdlib, packages, rest, total }) {
  const wheels = packages.filter((each) => each.includes(":"));
  globalThis.fetch = early(counting(globalThis.fetch, total), stdlib ? [...core.slice(1), stdlib, ...wheels] : []);
  if (core.length) import(core[0]).catch(() => {}); // which Pyodide would ask for before all else
  const { loadPyodide } = await import(`${pyodide}pyodide.mjs`).catch((error) => {
    throw new Error(`there is no Pyodide at ${pyodide} (${error.message}): \`sardonyx web DIR\` puts it there`);
  });
  const python = await loadPyodide({ indexURL: pyodide, ...(stdlib && { stdLibURL: stdlib }) });
  await python.loadPackage(packages, { messageCallback() {} });
  if (rest.length) python.pyimport("sardonyx.web.rest").install(rest);
  return python.pyimport("sardonyx.web.page");
}

/** `fetch` that has already asked for these addresses. */
function early(fetch, addresses) {
  const asked = new Map(addresses.map((address) => [address, fetch(address)]));
  for (const response of asked.values()) response.catch(() => {}); // whoever waits for it will hear
  return (given, ...options) => {
    const address = new URL(given.url ?? given, location.href).href;
    const response = asked.get(address) ?? fetch(given, ...options);
    asked.delete(address);
    return response;
  };
}

/** `fetch` that tells how many bytes came, and takes them as they come, though nobody reads them yet. */
function counting(fetch, total) {
  let loaded = 0;
  const counter = () =>
    new TransformStream(
      {
        transform(piece, controller) {
          loaded += piece.length;
          postMessage({ stage: "pyodide", loaded, total });
          controller.enqueue(piece);
        },
      },
      undefined,
      new ByteLengthQueuingStrategy({ highWaterMark: Infinity }),
    );
  return async (...request) => {
    const response = await fetch(...request);
    return response.ok && response.body ? new Response(response.body.pipeThrough(counter()), response) : response;
  };
}
