// node run.mjs PYODIDE WHEEL SCRIPT
// Loads Pyodide from the folder PYODIDE, NumPy and WHEEL into it, and runs SCRIPT in its folder, which is mounted at /work.
// The exit code is Python's.
import { readFile } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [root, wheel, script] = process.argv.slice(2).map((path) => resolve(path));
const { loadPyodide } = await import(pathToFileURL(`${root}/pyodide.mjs`));

const pyodide = await loadPyodide();
await pyodide.loadPackage("numpy", { messageCallback() {} });
pyodide.unpackArchive(await readFile(wheel), "wheel");
pyodide.mountNodeFS("/work", dirname(script));
pyodide.FS.chdir("/work");

try {
  await pyodide.runPythonAsync(await readFile(script, "utf8"), { filename: `/work/${basename(script)}` });
} catch (error) {
  if (error.type === "SystemExit") {
    process.exitCode = Number(pyodide.runPython("import sys; sys.last_value.code or 0"));
  } else {
    console.error(error.message);
    process.exitCode = 1;
  }
}
