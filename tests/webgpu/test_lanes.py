"""Elements taken by fours, and those that cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.support import require
from tests.webgpu.folds import FLOAT, model, run

require("webgpu")


@pytest.mark.parametrize("shape", [(3, 5, 8), (2, 7, 12), (4, 6, 5)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_indices_that_differ_between_neighbours(rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> None:
    x, index = rng.standard_normal(shape, np.float32), rng.integers(0, shape[axis], shape)
    nodes = [helper.make_node("GatherElements", ["x", "i"], ["g"], axis=axis), helper.make_node("Neg", ["g"], ["y"])]
    inputs = {"x": (np.float32, shape), "i": (np.int64, shape)}
    (found,), _ = run(model(nodes, inputs, {"y": FLOAT}), x, index)
    np.testing.assert_array_equal(found, -np.take_along_axis(x, index, axis))


@pytest.mark.parametrize("width", [8, 6])
def test_rows_of_a_table(rng: np.random.Generator, width: int) -> None:
    x, index = rng.standard_normal((9, width), np.float32), rng.integers(0, 9, (2, 5))
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"])]
    inputs = {"x": (np.float32, x.shape), "i": (np.int64, index.shape)}
    (found,), _ = run(model(nodes, inputs, {"y": FLOAT}), x, index)
    np.testing.assert_array_equal(found, x[index])


@pytest.mark.parametrize("count", [1, 3, 4, 5, 1023])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int64, np.bool_])
def test_any_number_of_elements(rng: np.random.Generator, dtype: type, count: int) -> None:
    x = rng.integers(0, 2, count).astype(dtype)
    nodes = [helper.make_node("Where", ["c", "x", "z"], ["y"])]
    c, z = rng.integers(0, 2, count).astype(bool), rng.integers(0, 2, 1).astype(dtype)
    kinds = {"c": (np.bool_, c.shape), "x": (dtype, x.shape), "z": (dtype, z.shape)}
    data = model(nodes, kinds, {"y": helper.np_dtype_to_tensor_dtype(np.dtype(dtype))})
    (found,), _ = run(data, c, x, z)
    np.testing.assert_array_equal(found, np.where(c, x, z))
