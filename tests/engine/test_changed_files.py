"""A model's files that are written anew in place while a session reads them: an error, no crash and no other answer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

import sardonyx
from tests.engine.graphs import HEADER
from tests.engine.providers import NUMPY, PROVIDERS, WASM

SIZE = 256
TEXT = f"g (float[N, {SIZE}] x) => (float[N, {SIZE}] y) {{ a = MatMul (x, w)  y = Tanh (a) }}"


def weights(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.1, 0.1, (SIZE, SIZE)).astype(np.float32)


def save(path: Path, seed: int) -> None:
    """Write a model, whose weights lie in a file beside it."""
    made = onnx.parser.parse_model(HEADER + TEXT)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights(seed), "w"))
    data = path.with_suffix(".data")
    data.write_bytes(b"")  # in place: onnx.save would append
    onnx.save(made, path, save_as_external_data=True, location=data.name, size_threshold=0)
    later = time.time_ns() + seed * 10**9  # clocks of file systems may be slow
    os.utime(data, ns=(later, later))


def fed(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).uniform(-1, 1, (rows, SIZE)).astype(np.float32)


def expected(rows: int) -> np.ndarray:
    return np.tanh(fed(rows).astype(np.float64) @ weights(1))


@pytest.mark.parametrize("size", [0, SIZE * SIZE * 4], ids=["truncated", "other"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_that_is_written_anew(provider: str, size: int, tmp_path: Path) -> None:
    """NumPy reads weights where they lie; others have copies, and go on."""
    path = tmp_path / "model.onnx"
    save(path, 1)
    session = sardonyx.InferenceSession(path, providers=[provider])
    for rows in (3, 3, 3):
        np.testing.assert_allclose(session.run(None, {"x": fed(rows)})[0], expected(rows), rtol=1e-4, atol=1e-5)
    if size:
        save(path, 2)
    else:
        path.with_suffix(".data").write_bytes(b"")
    for rows in (3, 5):
        if provider == NUMPY:
            with pytest.raises(sardonyx.capi.onnxruntime_pybind11_state.Fail, match=r"\.data was written anew while"):
                session.run(None, {"x": fed(rows)})
        else:
            np.testing.assert_allclose(session.run(None, {"x": fed(rows)})[0], expected(rows), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_before_the_first_run(provider: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    save(path, 1)
    session = sardonyx.InferenceSession(path, providers=[provider])
    path.with_suffix(".data").write_bytes(b"")
    with pytest.raises(sardonyx.capi.onnxruntime_pybind11_state.Fail, match=r"\.data was written anew while"):
        session.run(None, {"x": fed(3)})


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_weights_that_are_read_in_each_run(provider: str, tmp_path: Path) -> None:
    """A memory limit that does not hold them all has them loaded from the file."""
    path, names = tmp_path / "model.onnx", [f"w{k}" for k in range(8)]
    steps = " ".join(f"x{k + 1} = MatMul (x{k}, {name})" for k, name in enumerate(names))
    made = onnx.parser.parse_model(HEADER + f"g (float[2, 128] x0) => (float[2, 128] x8) {{ {steps} }}")
    for k, name in enumerate(names):
        made.graph.initializer.append(onnx.numpy_helper.from_array(weights(k)[:128, :128].copy(), name))
    onnx.save(made, path, save_as_external_data=True, location="model.data", size_threshold=0)
    options = sardonyx.SessionOptions()
    options.memory_limit = 300_000
    session = sardonyx.InferenceSession(path, options, providers=[provider])
    for _ in range(3):
        session.run(None, {"x0": fed(2)[:, :128]})
    path.with_suffix(".data").write_bytes(b"")
    with pytest.raises(sardonyx.capi.onnxruntime_pybind11_state.Fail, match=r"\.data was written anew while"):
        session.run(None, {"x0": fed(2)[:, :128]})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_in_place_of_the_old_one(provider: str, tmp_path: Path) -> None:
    path, other = tmp_path / "model.onnx", tmp_path / "other.data"
    save(path, 1)
    session = sardonyx.InferenceSession(path, providers=[provider])
    other.write_bytes(weights(2).tobytes())
    os.replace(other, path.with_suffix(".data"))
    for rows in (3, 3, 5):
        np.testing.assert_allclose(session.run(None, {"x": fed(rows)})[0], expected(rows), rtol=1e-4, atol=1e-5)
