"""Pyodide in Chromium: its page, and that a model gives there what it gives elsewhere."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.pyodide import arrays
from tests.support.browser import Chromium

pytestmark = pytest.mark.slow

BLOB = """
import { loadPyodide } from "ADDRESS/pyodide/pyodide.mjs";
onmessage = async ({ data: [wheel, code] }) => {
  try {
    const pyodide = await loadPyodide({ indexURL: "ADDRESS/pyodide/" });
    await pyodide.loadPackage(["numpy", `ADDRESS/wheel/${wheel}`], { messageCallback() {} });
    postMessage(await pyodide.runPythonAsync(code));
  } catch (error) {
    postMessage(String(error));
  }
};
"""
"""A worker without an address of its own, as PyScript starts one."""
START = """([script, ...message]) => new Promise((resolve) => {
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
  worker.onmessage = ({ data }) => resolve(data);
  worker.onerror = ({ message }) => resolve(message ?? "no worker");
  worker.postMessage(message);
})"""
KEPT = """async ([wheel, code]) => {
  const { loadPyodide } = await import("/pyodide/pyodide.mjs");
  const pyodide = await loadPyodide({ indexURL: "/pyodide/" });
  await pyodide.loadPackage(["numpy", new URL(`/wheel/${wheel}`, location).href], { messageCallback() {} });
  pyodide.FS.mkdir("/kept");
  pyodide.FS.mount(pyodide.FS.filesystems.IDBFS, {}, "/kept");
  const synchronize = (isRead) => new Promise((resolve) => pyodide.FS.syncfs(isRead, resolve));
  await synchronize(true);
  const compiled = await pyodide.runPythonAsync(code);
  await synchronize(false);
  return compiled;
}"""
"""A page whose disk is kept in IndexedDB."""
MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def test_the_page_is_isolated_and_prints(chromium: Chromium) -> None:
    code = "import js, sys; print(sys.platform, js.crossOriginIsolated); print('é', end='')"
    assert chromium.run(code) == "emscripten True\né"


def test_failures_reach_the_host(chromium: Chromium) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)first.*NameError: name 'numpy'"):
        chromium.run("print('first')\nprint(numpy)")
    with pytest.raises(RuntimeError, match=r"no\.mjs cannot be loaded"):
        chromium.call("/support/no.mjs", {}, 15)


def test_a_worker_without_end_is_ended(chromium: Chromium) -> None:
    chromium.site.data["endless.mjs"] = b"onmessage = () => { postMessage({ stage: 'turning' }); for (;;); }"
    with pytest.raises(TimeoutError, match="no answer in 3 s: turning"):
        chromium.call("/data/endless.mjs", {}, 3)


def test_digits(chromium: Chromium) -> None:
    images = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    code = """
        import json
        from arrays import packed, unpacked
        from sardonyx import InferenceSession

        session = InferenceSession("digits.onnx", providers=["WasmExecutionProvider"])
        probabilities, = session.run(None, {"image": unpacked(json.load(open("image.json")))})
        print(json.dumps(packed(probabilities)), session.get_providers()[0])
    """
    files = {"digits.onnx": MODEL.read_bytes(), "image.json": json.dumps(arrays.packed(images)).encode()}
    files["arrays.py"] = Path(arrays.__file__).read_bytes()
    answer, provider = chromium.run(code, files).rsplit(" ", 1)
    (expected,) = onnxruntime.InferenceSession(MODEL).run(None, {"image": images})
    np.testing.assert_allclose(arrays.unpacked(json.loads(answer)), expected, atol=1e-4 * np.abs(expected).max())
    assert provider.strip() == "WasmExecutionProvider"


def test_addresses_in_a_worker_that_has_none(chromium: Chromium) -> None:
    code = """
        from sardonyx import InferenceSession
        told = []
        for url in ("/data/digits.onnx", "digits.onnx"):
            try:
                told.append((await InferenceSession.from_url(url)).get_inputs()[0].name)
            except Exception as error:
                told.append(f"{type(error).__name__}: {error}")
        "\\n".join(told)
    """
    chromium.site.data["digits.onnx"] = MODEL
    script = BLOB.replace("ADDRESS", chromium.site.address)
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        page.goto("/support/page.html")
        whole, relative = page.evaluate(START, [script, chromium.wheel, textwrap.dedent(code)]).splitlines()
    assert whole == "image"
    wanted = "InvalidArgument: digits.onnx is relative, and this worker has no address of its own; begin with https://"
    assert relative == f"{wanted}, or with / for a file of {chromium.site.address}"


def test_what_was_compiled_is_there_in_the_next_visit(chromium: Chromium) -> None:
    code = """
        import os
        os.environ["XDG_CACHE_HOME"] = "/kept"
        import numpy as np
        from pyodide.http import pyfetch
        from sardonyx import InferenceSession
        session = InferenceSession(await (await pyfetch("/data/digits.onnx")).bytes())
        session.run(None, {"image": np.zeros((1, 1, 28, 28), np.float32)})
        session.compiled
    """
    chromium.site.data["digits.onnx"] = MODEL
    compiled = []
    with chromium.visitor() as visitor:
        for _ in range(2):
            page = visitor.new_page()
            page.goto("/support/page.html")
            compiled.append(page.evaluate(KEPT, [chromium.wheel, textwrap.dedent(code)]))
            page.close()
    assert compiled == [1, 0]
