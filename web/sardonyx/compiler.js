/** The worker of compile.js: Python, and in it the engine, for one model. */

let engine;

/** First comes where Pyodide lies, then the model. */
onmessage = async ({ data }) => {
  try {
    if (!data.model) return void (engine = start(data));
    const { compile } = await engine;
    postMessage({ stage: "compile", loaded: 0, total: 1 });
    const found = compile(data.model, data.targets, data.shapes, data.sizes);
    if (typeof found === "string") return void postMessage({ error: found });
    postMessage({ stage: "compile", loaded: 1, total: 1 });
    postMessage({ bundle: found.buffer }, [found.buffer]);
  } catch (error) {
    postMessage({ error: error.message });
  }
};

async function start({ pyodide, wheel, total }) {
  globalThis.fetch = counting(globalThis.fetch, total);
  const { loadPyodide } = await import(`${pyodide}pyodide.mjs`).catch((error) => {
    throw new Error(`there is no Pyodide at ${pyodide} (${error.message}): \`sardonyx web DIR\` puts it there`);
  });
  const python = await loadPyodide({ indexURL: pyodide });
  await python.loadPackage(["numpy", wheel], { messageCallback() {} });
  return python.pyimport("sardonyx.web.page");
}

/** `fetch` that tells how many bytes came. */
function counting(fetch, total) {
  let loaded = 0;
  const counter = () =>
    new TransformStream({
      transform(piece, controller) {
        loaded += piece.length;
        postMessage({ stage: "pyodide", loaded, total });
        controller.enqueue(piece);
      },
    });
  return async (...request) => {
    const response = await fetch(...request);
    return response.ok && response.body ? new Response(response.body.pipeThrough(counter()), response) : response;
  };
}
