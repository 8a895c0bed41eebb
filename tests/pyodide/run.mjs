// node run.mjs PYODIDE WHEEL SCRIPT
// Loads Pyodide from the folder PYODIDE, NumPy and WHEEL into it, and runs SCRIPT in its folder, mounted at /project.
// The exit code is Python's.
import { writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";

// SystemExit is caught inside Python: Pyodide's event loop would let it escape from a callback.
const EXIT_CODE = `
import sys
from pyodide.code import eval_code_async

async def exit_code(source, filename):
    sys.path.insert(0, ".")
    try:
        await eval_code_async(source, {"__name__": "__main__"}, filename=filename)
    except SystemExit as stop:
        if isinstance(stop.code, int | None):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    finally:
        sys.stdout.flush()
    return 0

exit_code
`;

async function main(root, wheel, script) {
  const { loadPyodide } = await import(pathToFileURL(`${root}/pyodide.mjs`));
  const pyodide = await loadPyodide();
  pyodide.setStdout({ write: (bytes) => writeSync(1, bytes) });
  pyodide.setStderr({ write: (bytes) => writeSync(2, bytes) });
  await pyodide.loadPackage(["numpy", pathToFileURL(wheel).href], { messageCallback() {} });
  pyodide.mountNodeFS("/project", dirname(script));
  pyodide.FS.chdir("/project");
  return pyodide.runPython(EXIT_CODE)(await readFile(script, "utf8"), `/project/${basename(script)}`);
}

try {
  process.exitCode = await main(...process.argv.slice(2).map((path) => resolve(path)));
} catch (error) {
  // Node itself would print the source line that threw: the megabyte of pyodide.asm.js.
  console.error(error.message);
  process.exitCode = 1;
}
