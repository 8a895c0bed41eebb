// Runs a script, with files beside it, and answers what it printed. Without `jspi` Python cannot wait for promises.
import { bytes, python, serve, stage } from "./worker.mjs";

serve(async ({ wheel, code, files, jspi }) => {
  if (jspi === false) delete WebAssembly.Suspending;
  stage("loading Pyodide");
  const pyodide = await python(wheel);
  const decoder = new TextDecoder();
  let printed = "";
  pyodide.setStdout({
    write(text) {
      printed += decoder.decode(text, { stream: true });
      stage(`after ${printed.trimEnd().split("\n").at(-1).slice(0, 200)}`);
      return text.length;
    },
  });
  for (const name of files) pyodide.FS.writeFile(name, await bytes(`/data/${name}`));
  stage("running the script");
  try {
    await pyodide.runPythonAsync(`${code}\nimport sys; sys.stdout.flush()`);
  } catch (error) {
    throw Error(printed + error.message);
  }
  return printed;
});
