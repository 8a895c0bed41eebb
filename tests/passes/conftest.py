"""ONNX's own test models of single operators, with what they are fed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnx.backend.test.loader import load_model_tests

from sardonyx.ir import TensorType
from sardonyx.serde import read

Case = tuple[str, bytes, list[np.ndarray]]


@pytest.fixture(scope="session")
def onnx_cases() -> list[Case]:
    """Name, model and feeds of the models of onnx's backend tests that take nothing but tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the expected outputs divides by zero
        cases = [case for kind in ("node", "simple") for case in load_model_tests(kind=kind)]
    found = []
    for case in cases:
        data = case.model.SerializeToString()
        inputs = read(data).graph.inputs
        feeds = case.data_sets[0][0]
        if all(isinstance(value.type, TensorType) for value in inputs) and all(
            isinstance(feed, np.ndarray) for feed in feeds
        ):
            arrays = [_stored(feed, value.dtype) for feed, value in zip(feeds, inputs, strict=True)]
            found.append((case.name, data, arrays))
    return found


def _stored(array: Any, dtype: Any) -> np.ndarray:
    """The array as the engine stores it: types that NumPy lacks are unsigned integers."""
    array = np.asarray(array)
    if array.dtype.kind in "SU":
        return array.astype(object)
    return array if array.dtype == dtype.storage else array.view(dtype.storage)
