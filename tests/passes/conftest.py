"""ONNX's own small test models, with what they are fed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import load_model_tests

from sardonyx.model.ir import TensorType
from sardonyx.model.serde.reader import read

Case = tuple[str, bytes, list[np.ndarray]]


@pytest.fixture(scope="session")
def onnx_cases() -> list[Case]:
    """Name, model and feeds of the models of onnx's backend tests that take nothing but tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the expected outputs divides by zero
        kinds = ("node", "simple", "pytorch-converted", "pytorch-operator")
        cases = [case for kind in kinds for case in load_model_tests(kind=kind)]
    found = []
    for case in cases:
        if case.name == "test_scan_sum":  # written for operator set 8, whose Scan ran over batches
            continue
        data, feeds = _loaded(case)
        inputs = read(data).graph.inputs
        if all(isinstance(value.type, TensorType) for value in inputs) and len(feeds) == len(inputs):
            arrays = [_stored(feed, value.dtype) for feed, value in zip(feeds, inputs)]
            found.append((case.name, data, arrays))
    return found


def _loaded(case: Any) -> tuple[bytes, Sequence[Any]]:
    """A model and its first feeds, which some cases keep in files."""
    if case.model is not None:
        return case.model.SerializeToString(), [feed for feed in case.data_sets[0][0] if isinstance(feed, np.ndarray)]
    folder = Path(case.model_dir)
    files = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda path: int(path.stem[6:]))
    tensors = [onnx.TensorProto.FromString(path.read_bytes()) for path in files]
    return (folder / "model.onnx").read_bytes(), list(map(onnx.numpy_helper.to_array, tensors))


def _stored(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array as the engine stores it: types that NumPy lacks are unsigned integers."""
    if array.dtype.kind in "SUO":
        return array.astype(object)
    return array if array.dtype == dtype.storage else array.view(dtype.storage)
