"""Estimators, converted, predict in Sardonyx what they predict by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx
from tests.engine.providers import NUMPY, WASM, WEBGPU, require_provider
from tests.estimators.conversion import fitted, model, wanted
from tests.estimators.entry import Entry
from tests.estimators.table import ESTIMATORS

SHARE = 10
"""Of the estimators one in so many is quick on other providers than NumPy, and with float64."""


def _others(names: list[str]) -> list[Any]:
    return [pytest.param(name, marks=() if k % SHARE == 0 else pytest.mark.slow) for k, name in enumerate(names)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_numpy(name: str) -> None:
    assert_like_estimator(name, "float32", NUMPY)


@pytest.mark.parametrize("name", _others([*ESTIMATORS]))
def test_wasm(name: str) -> None:
    assert_like_estimator(name, "float32", WASM)


@pytest.mark.parametrize("name", _others([*ESTIMATORS]))
def test_webgpu(name: str) -> None:
    require_provider(WEBGPU)
    assert_like_estimator(name, "float32", WEBGPU)


def _takes_float64(entry: Entry) -> bool:
    return entry.float64 and any(feed.dtype == "float64" for feed in entry.data().feeds("float64").values())


@pytest.mark.parametrize("name", _others([name for name, entry in ESTIMATORS.items() if _takes_float64(entry)]))
def test_float64(name: str) -> None:
    assert_like_estimator(name, "float64", NUMPY)


@pytest.mark.parametrize("name", [name for name, entry in ESTIMATORS.items() if entry.wrong])
def test_what_is_said_to_be_wrong_is(name: str) -> None:
    """Otherwise the estimator should be the reference."""
    entry = ESTIMATORS[name]
    references = zip(_onnxruntime(name, "float32"), wanted(name), strict=True)
    assert not all(_close(one, _table(name, other), entry.tolerance) for one, other in references)


def assert_like_estimator(name: str, dtype: str, provider: str) -> None:
    entry = ESTIMATORS[name]
    session = sardonyx.InferenceSession(model(name, dtype), providers=[provider])
    outputs = session.run(None, entry.data().feeds(dtype))
    references = _onnxruntime(name, dtype) if entry.wrong else wanted(name)
    for k, (output, reference) in enumerate(zip(outputs, references, strict=True)):
        found, expected = _table(name, output), _table(name, reference)
        if expected.size * 2 == found.size:  # one score of two classes is that of the second
            expected = np.stack([-expected, expected], 1)
        assert found.size == expected.size
        assert _close(found, expected, entry.tolerance), f"output {k}: {found} is not {expected}"


def _onnxruntime(name: str, dtype: str) -> list[Any]:
    session = onnxruntime.InferenceSession(model(name, dtype), providers=["CPUExecutionProvider"])
    return [_table(name, output) for output in session.run(None, ESTIMATORS[name].data().feeds(dtype))]


def _table(name: str, output: Any) -> np.ndarray:
    """An output as an array: a dictionary of classes is a row in their order."""
    if isinstance(output, list) and isinstance(output[0], dict):
        return np.array([[row[label] for label in fitted(name).classes_.tolist()] for row in output])
    return np.asarray(output.toarray() if hasattr(output, "toarray") else output)


def _close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Whether labels are the same, and numbers within a tolerance relative to the largest."""
    expected = expected.reshape(found.shape)
    if found.dtype.kind not in "fiu" or expected.dtype.kind not in "fiub":
        return bool((found.astype(str) == expected.astype(str)).all())
    if found.dtype.kind == "i":
        return bool((found == expected).all())
    largest = np.abs(expected).max(initial=0, where=np.isfinite(expected))
    return np.allclose(found, expected, rtol=0, atol=tolerance * float(largest), equal_nan=True)
