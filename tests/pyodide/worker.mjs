// What workers of page.html share: to load Pyodide, and to answer.

// Pyodide with NumPy and the wheel; both come from the server of the page.
export async function python(wheel) {
  const { loadPyodide } = await import("/pyodide/pyodide.mjs");
  const pyodide = await loadPyodide({ indexURL: "/pyodide/" });
  await pyodide.loadPackage(["numpy", new URL(`/wheel/${wheel}`, location).href], { messageCallback() {} });
  return pyodide;
}

export const bytes = async (address) => new Uint8Array(await (await fetch(address)).arrayBuffer());

export const stage = (text) => postMessage({ stage: text });

// Answers the page's message with what `work` makes of it.
export function serve(work) {
  onmessage = async ({ data }) => {
    try {
      postMessage({ result: await work(data) });
    } catch (error) {
      postMessage({ error: error.message || String(error) });
    }
  };
}
