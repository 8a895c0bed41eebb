"""What a model's outputs should be, and how near is near enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from tests.support.saturation import multiplies, unsigned

from .catalogue import MODELS, Model, path
from .feeds import inputs

Array = npt.NDArray[Any]


def session(id: str) -> onnxruntime.InferenceSession:
    """A session of onnxruntime, graph optimizations off: they change 8-bit arithmetic."""
    return session_of(path(id))


def session_of(model: Path | bytes) -> onnxruntime.InferenceSession:
    """The same for a model that is not listed; products of bytes are exact on any processor."""
    proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
    if multiplies(proto):
        model = unsigned(proto if isinstance(model, bytes) else onnx.load(model)).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def reference(id: str, seed: int = 0) -> list[Any]:
    """Return onnxruntime's outputs for `inputs(id, seed)`."""
    outputs: list[Any] = session(id).run(None, inputs(id, seed))
    return outputs


def assert_close(id: str, found: Sequence[Any], expected: Sequence[Any], cosine: float | None = None) -> None:
    """Assert that the outputs have the expected types, dtypes and shapes, and agree as closely as the list asks.

    A `cosine` is asked for instead of what the list asks for.

    Strings agree if they are equal, and so do integers, unless the list asks for a cosine. A list of maps, as from
    ZipMap, has the expected keys and agrees value by value.
    """
    model = MODELS[id] if cosine is None else replace(MODELS[id], tolerance=None, cosine=cosine)
    assert len(found) == len(expected), f"{id}: {len(found)} outputs, expected {len(expected)}"
    for index, (one, other) in enumerate(zip(found, expected)):
        where = f"{id}, output {index}"
        assert type(one) is type(other), f"{where}: {type(one).__name__}, expected {type(other).__name__}"
        if isinstance(other, list):
            assert [[*row] for row in one] == [[*row] for row in other], f"{where}: other keys"
            one, other = (np.array([[*row.values()] for row in rows]) for rows in (one, other))
        _assert_array(where, one, other, model)


def _assert_array(where: str, found: Array, expected: Array, model: Model) -> None:
    assert found.dtype == expected.dtype, f"{where}: {found.dtype}, expected {expected.dtype}"
    if model.spectrum is not None:
        _assert_sounds_alike(where, found, expected, model.spectrum)
        return
    assert found.shape == expected.shape, f"{where}: {list(found.shape)}, expected {list(expected.shape)}"
    if expected.dtype.kind == "O" or (expected.dtype.kind in "biu" and model.tolerance is not None):
        np.testing.assert_array_equal(found, expected, where)
    else:
        _assert_near(where, found.astype(np.float64).ravel(), expected.astype(np.float64).ravel(), model)


def _assert_sounds_alike(where: str, found: Array, expected: Array, least: float) -> None:
    """Assert that two sounds are as long as each other, to a twentieth, and that their spectra have this cosine."""
    assert abs(found.size - expected.size) <= expected.size / 20, f"{where}: {found.size} samples, not {expected.size}"
    count = min(found.size, expected.size)
    one, other = (spectrum(sound.ravel()[:count]) for sound in (found, expected))
    cosine = np.vdot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other))
    assert cosine >= least, f"{where}: spectra with cosine {cosine:.5f}, expected at least {least}"


def spectrum(sound: Array) -> Array:
    """Logarithms of the magnitudes of a sound's frequencies, [frames, 513]: frames of 1,024 samples, 256 apart."""
    frames = np.lib.stride_tricks.sliding_window_view(sound.astype(np.float64), 1024)[::256]
    magnitudes: Array = np.log(np.abs(np.fft.rfft(frames * np.hanning(1024))) + 1e-5)
    return magnitudes


def _assert_near(where: str, found: Array, expected: Array, model: Model) -> None:
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite], where)
    found, expected = found[finite], expected[finite]
    assert np.isfinite(found).all(), f"{where}: values that are not finite"
    error = np.abs(found - expected).max(initial=0)
    if model.tolerance is not None:
        error /= np.abs(expected).max(initial=1)
        assert error <= model.tolerance, f"{where}: off by {error:.2e} of the largest value"
    elif error > 1e-6:
        cosine = found @ expected / (np.linalg.norm(found) * np.linalg.norm(expected))
        assert cosine >= model.cosine, f"{where}: cosine {cosine:.5f}, expected at least {model.cosine}"
