"""Sparse tensors say what onnxruntime's say."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx

VALUES = np.array([1, 2], np.float32)
PLACES = {
    "coordinates": np.array([[0, 1], [1, 2]], np.int64),
    "row-major": np.array([1, 5], np.int64),
}


def facts(tensor: Any) -> list[Any]:
    return [tensor.values().tolist(), list(tensor.dense_shape()), tensor.data_type(), tensor.device_name()]


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_coordinates(places: np.ndarray) -> None:
    ours, theirs = (
        side.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, places, side.OrtDevice.make("cpu", 0))
        for side in (sardonyx, onnxruntime)
    )
    assert facts(ours) == facts(theirs)
    assert int(ours.format()) == int(theirs.format())
    np.testing.assert_array_equal(ours.as_coo_view().indices(), theirs.as_coo_view().indices())


@pytest.mark.parametrize("side", [sardonyx, onnxruntime])
def test_what_it_is_not(side: ModuleType) -> None:
    cpu = side.OrtDevice.make("cpu", 0)
    tensor = side.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, PLACES["row-major"], cpu)
    with pytest.raises(RuntimeError, match=r"does not contain CSR\(C\) format"):
        tensor.as_csrc_view()
    with pytest.raises(RuntimeError, match="does not contain BlockSparse format"):
        tensor.as_blocksparse_view()
    with pytest.raises(RuntimeError):
        side.SparseTensor.sparse_coo_from_numpy([3, 3], VALUES, np.zeros(3, np.int64), cpu)


def test_rows() -> None:
    inner, outer = np.array([1, 2], np.int64), np.array([0, 1, 1, 2], np.int64)
    ours, theirs = (
        side.SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, inner, outer, side.OrtDevice.make("cpu", 0))
        for side in (sardonyx, onnxruntime)
    )
    assert facts(ours) == facts(theirs)
    assert int(ours.format()) == int(theirs.format())
    for name in ("inner", "outer"):
        np.testing.assert_array_equal(getattr(ours.as_csrc_view(), name)(), getattr(theirs.as_csrc_view(), name)())
    with pytest.raises(RuntimeError, match="does not contain COO format"):
        ours.as_coo_view()
