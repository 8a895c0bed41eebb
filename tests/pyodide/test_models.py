"""Real models in Pyodide, on WebAssembly and some on WebGPU, against onnxruntime here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.models import SHORT, assert_close, inputs, path, reference
from tests.pyodide import arrays
from tests.support import require, run_in_pyodide
from tests.support.browser import run_in_browser

WASM, WEBGPU = "WasmExecutionProvider", "WebGpuExecutionProvider"
HOSTS: dict[str, Callable[..., str]] = {"pyodide": run_in_pyodide, "browser": run_in_browser}
SMALL = ("ppocr2-cls", "silero-vad-seq", "skl-tfidf-text")
"""A picture, a sound and strings; the others run nightly."""

SCRIPT = """
import json
from arrays import packed, unpacked
from sardonyx import InferenceSession

session = InferenceSession("model.onnx", providers=[{provider!r}])
outputs = session.run(None, unpacked(json.load(open("feeds.json"))))
print(json.dumps([session.get_providers()[0], packed(outputs)]))
"""


def combination(id: str, host: str) -> Any:
    small = id in SMALL and host == "pyodide"
    return pytest.param(id, host, id=f"{id}-{host}", marks=pytest.mark.slow if small else pytest.mark.nightly)


def check(id: str, host: str, provider: str) -> None:
    require("pyodide")
    require(host)
    files = {
        "arrays.py": Path(arrays.__file__).read_bytes(),
        "model.onnx": path(id).read_bytes(),
        "feeds.json": json.dumps(arrays.packed(inputs(id))).encode(),
    }
    used, found = json.loads(HOSTS[host](SCRIPT.format(provider=provider), files, timeout=600))
    assert used == provider
    assert_close(id, arrays.unpacked(found), reference(id))


@pytest.mark.parametrize(("id", "host"), [combination(id, host) for host in HOSTS for id in SHORT])
def test_every_model(id: str, host: str) -> None:
    check(id, host, WASM)


@pytest.mark.nightly
@pytest.mark.parametrize("id", SMALL)
def test_small_models_on_webgpu(id: str) -> None:
    check(id, "browser", WEBGPU)
