"""The digits model in Pyodide: the same code as on a desktop, on both providers that it has there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.support import require, run_in_pyodide

pytestmark = pytest.mark.slow

MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
CODE = """
import json
import numpy as np
import sardonyx as ort

image = np.load("image.npy")
session = ort.InferenceSession("digits.onnx", providers=[{provider!r}])
first, = session.run(None, {{"image": image[:1]}})
both, = session.run(None, {{"image": image}})
plan = session.plans[0]
print(json.dumps([session.get_providers(), plan.placement, session.compiled, both.tolist(), first.tolist()]))
"""
AGAIN = """
import json
import numpy as np
import sardonyx as ort

image = np.load("image.npy")
data = open("digits.onnx", "rb").read()
for _ in range(2):
    session = ort.InferenceSession(data, providers=["WasmExecutionProvider"])
    result, = session.run(None, {"image": image})
    print(json.dumps([session.compiled, result.tolist()]))
"""


@pytest.mark.parametrize("provider", ["NumpyExecutionProvider", "WasmExecutionProvider", "CPUExecutionProvider"])
def test_digits(provider: str, tmp_path: Path) -> None:
    require("pyodide")
    import json

    images = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    np.save(tmp_path / "image.npy", images)
    files = {"digits.onnx": MODEL.read_bytes(), "image.npy": (tmp_path / "image.npy").read_bytes()}
    names, placement, compiled, both, first = json.loads(run_in_pyodide(CODE.format(provider=provider), files))
    (expected,) = onnxruntime.InferenceSession(MODEL).run(None, {"image": images})
    np.testing.assert_allclose(both, expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(first, expected[:1], atol=1e-4 * np.abs(expected).max())
    assert names[0] == provider
    assert ("WasmExecutionProvider" in names) == (provider != "NumpyExecutionProvider")
    assert set(placement) <= {0, -1}
    assert compiled <= 2


def test_the_second_session_of_the_same_bytes_compiles_nothing(tmp_path: Path) -> None:
    require("pyodide")
    import json

    np.save(tmp_path / "image.npy", np.random.default_rng(0).random((3, 1, 28, 28), np.float32))
    files = {"digits.onnx": MODEL.read_bytes(), "image.npy": (tmp_path / "image.npy").read_bytes()}
    first, second = map(json.loads, run_in_pyodide(AGAIN, files).splitlines())
    assert (first[0], second[0]) == (1, 0)
    assert first[1] == second[1]
