// What a page does until it can begin, with what `sardonyx web` put into the folder of a side.

const MODEL = "/data/model.onnx";

// Milliseconds until compiling begins, and until the bundle is there.
async function compiling(side) {
  const begun = performance.now();
  const { bundleOf } = await import(`/${side}/sardonyx/compile.js`);
  let ready;
  const progress = ({ stage }) => { if (stage === "compile") ready ??= performance.now() - begun; };
  await bundleOf(MODEL, { progress });
  return [ready, performance.now() - begun];
}

// Milliseconds until a page's own Python has imported Sardonyx, and until it has compiled.
async function importing(side) {
  const begun = performance.now();
  const { loadPyodide } = await import(`/${side}/pyodide/pyodide.mjs`);
  const python = await loadPyodide({ indexURL: `/${side}/pyodide/` });
  await python.loadPackage("sardonyx", { messageCallback() {} });
  const { compile } = python.pyimport("sardonyx.web.page");
  const ready = performance.now() - begun;
  compile(await (await fetch(MODEL)).arrayBuffer(), ["wasm"], {}, {});
  return [ready, performance.now() - begun];
}

export const ways = { compiling, importing };
