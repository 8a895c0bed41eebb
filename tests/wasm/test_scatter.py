"""Scattered updates, against the primitive's NumPy rule; any split of the units gives the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx.primitives.indexing import REDUCTIONS, SCATTER
from sardonyx_wasm.routines.scatter import COLUMNS
from tests.support import require
from tests.wasm.compiled import run

Array = np.ndarray[Any, Any]
CASES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[int, int]]] = [
    ((9,), (5,), (0,), {}),
    ((9, 6), (4,), (0,), {}),
    ((9, 6), (4, 3), (0, 1), {}),
    ((3, 2 * COLUMNS + 7), (4,), (0,), {}),
    ((5, 4), (3, 4), (0,), {1: 1}),
    ((5, 4), (5, 3), (1,), {0: 0}),
    ((5, 4), (4, 3), (1,), {0: 0}),
    ((5, 4), (7, 3), (1,), {0: 0}),
    ((5, 4), (3, 3), (0,), {1: 1}),
    ((3, 4, 5), (3, 6, 5), (1,), {0: 0, 2: 2}),
    ((3, 4, 5), (2, 4, 5), (0,), {1: 1, 2: 2}),
    ((3, 4, 5, 6), (2, 3), (2,), {}),
    ((3, 4, 5, 6), (3, 2), (2,), {0: 0}),
    ((3, 4, 5), (6, 5), (0,), {2: 1}),
    ((3, 4, 5), (7,), (1, 2), {}),
    ((3, 4, 5), (7,), (0, 2), {}),
    ((6, 2, COLUMNS + 9), (3, 2, COLUMNS + 2), (0,), {1: 1, 2: 2}),
]
"""The shapes of x and of the indices, indexed axes, and which axes of x go along with which ones of the indices."""

require("wasm")


def case(number: int, dtype: str = "float32") -> tuple[list[Array], list[Array], dict[str, Any]]:
    """Operands of the routine, those of the primitive, and the attributes of the routine."""
    shape, places, named, lines = CASES[number]
    rng = np.random.default_rng(number)
    x = rng.integers(0, 50, shape).astype(dtype)
    axes = [axis for axis in range(len(shape)) if axis in named or axis in lines]
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    updates = rng.integers(0, 50, (*places, *kept)).astype(dtype)
    indices = {axis: rng.integers(-2, shape[axis] + 2, places, "i4" if number % 2 else "i8") for axis in named}
    counting = {axis: np.broadcast_to(np.indices(places)[line], places) for axis, line in lines.items()}
    attributes = {"axes": list(named), "lines": [list(pair) for pair in lines.items()]}
    every = [(indices | counting)[axis] for axis in axes]
    return [x, updates, *indices.values()], [x, updates, *every], {**attributes, "every": tuple(axes)}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_updates(number: int, reduction: str) -> None:
    mine, given, attributes = case(number)
    axes = attributes.pop("every")
    (wanted,) = SCATTER.numpy(*given, axes=axes, reduction=reduction)
    for pieces, open_sizes in ((1, False), (3, True)):
        results = [("float32", mine[0].shape)]
        (found,) = run("scatter_updates", mine, results, {**attributes, "reduction": reduction}, pieces, open_sizes)
        assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float64"])
def test_types(dtype: str) -> None:
    for number in (0, 1, 4, 5):
        for reduction in ("none",) if dtype == "bool" else ("none", "add", "max"):
            mine, given, attributes = case(number, dtype)
            (wanted,) = SCATTER.numpy(*given, axes=attributes.pop("every"), reduction=reduction)
            results = [(dtype, mine[0].shape)]
            (found,) = run("scatter_updates", mine, results, {**attributes, "reduction": reduction})
            assert_array_equal(found, wanted)
