"""Weighted sums of rows of bytes and of columns of these, against NumPy in float64, and where they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array as Traced
from sardonyx_wasm.abi import SCRATCH
from tests.support import require
from tests.wasm.compiled import PLAIN, RELAXED, Array, Compiled, run
from tests.wasm.traces import ROUTINES, check

SIZES = [(9, 7, 5, 6), (1, 1, 3, 2), (40, 33, 9, 11), (3, 2, 1, 1), (17, 50, 6, 4)]
"""Height and width of the bytes, and of the result."""
TAPS = (6, 3)

require("wasm")


def resampled(x: Array, rows: Array, row_weights: Array, columns: Array, column_weights: Array) -> Array:
    """In float64."""
    lines = np.einsum("tm,tmwc->twc", row_weights.astype(np.float64), x[rows].astype(np.float64))
    return np.einsum("sn,tsnc->tsc", column_weights.astype(np.float64), lines[:, columns])


def operands(high: int, wide: int, rows: int, columns: int, channels: int) -> list[Array]:
    """Bytes, and random taps, some of weight 0; of one row all are."""
    rng = np.random.default_rng(high * wide * channels)
    arrays: list[Array] = [rng.integers(0, 256, (high, wide, channels), np.uint8)]
    for size, places, taps in ((high, rows, TAPS[0]), (wide, columns, TAPS[1])):
        weights = rng.uniform(0, 1 / taps, (places, taps)) * (rng.random((places, taps)) < 0.8)
        arrays += [rng.integers(0, size, (places, taps)), weights.astype(np.float32)]
    arrays[2][rows // 2] = 0
    return arrays


def result(arrays: list[Array], *more: Any) -> Array:
    shape = (len(arrays[1]), len(arrays[3]), arrays[0].shape[2])
    return run("resample", arrays, [("float32", shape)], {}, *more)[0]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", SIZES)
def test_sums_of_rows_and_columns(size: tuple[int, int, int, int], channels: int) -> None:
    arrays = operands(*size, channels)
    wanted = resampled(*arrays)
    found = result(arrays)
    assert_allclose(found, wanted, atol=1e-4)
    assert_array_equal(result(arrays, 3, False, "wasmtime"), found)  # whatever threads share
    for features in (PLAIN, RELAXED):
        assert_allclose(result(arrays, 2, False, "v8", features), wanted, atol=1e-4)


def test_sizes_may_be_parameters() -> None:
    arrays, sizes = operands(19, 23, 7, 11, 4), (19, 23, 7, TAPS[0], 11, TAPS[1])
    high, wide, rows, down, columns, across = (f"p{k}" for k in range(6))
    shapes = [(high, wide, 4), *[(rows, down)] * 2, *[(columns, across)] * 2]
    types = [array.dtype.name for array in arrays], ["float32"]
    routine = Compiled("resample", types, shapes, [(rows, columns, 4)], 6)
    assert_array_equal(routine.run(arrays, [(7, 11, 4)], sizes, pieces=2)[0], result(arrays))


def test_lines_that_are_too_long() -> None:
    """They are summed element by element, with the same bits."""
    wide = SCRATCH // 16 // 4
    arrays = operands(5, wide, 6, 9, 4)
    wanted = resampled(*arrays)
    found = result(arrays)
    assert_allclose(found, wanted, atol=1e-4)
    arrays[3] %= wide // 2
    narrow = [np.ascontiguousarray(arrays[0][:, : wide // 2]), *arrays[1:]]
    assert_array_equal(result(arrays), result(narrow))


@pytest.mark.parametrize("wide", [3, SCRATCH // 16])
def test_indices_out_of_range_stay_within(wide: int) -> None:
    arrays = operands(4, wide, 3, 5, 3)
    arrays[1] += [-9, 9, 0, -(1 << 31), 1 << 30, 0]
    arrays[3] += [-9, 1 << 30, 0]
    clipped = [arrays[0], arrays[1].clip(0, 3), arrays[2], arrays[3].clip(0, wide - 1), arrays[4]]
    assert_allclose(result(arrays), resampled(*clipped), atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3)])
def test_no_pixels(shape: tuple[int, ...]) -> None:
    rows, columns = (np.full((4, taps), -1, np.int64) for taps in TAPS)
    weights = [np.zeros((4, taps), np.float32) for taps in TAPS]
    found = result([np.zeros(shape, np.uint8), rows, weights[0], columns, weights[1]])
    assert_array_equal(found, np.zeros((4, 4, 3)))


def summed(x: Traced, index: Traced, weights: Traced) -> Traced:
    places, taps = index.shape
    return p.sum_(p.gather(x, [index], [0]) * p.reshape(weights, (places, taps, 1, 1)), [1])


def test_what_becomes_of_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROUTINES, "resample", lambda *arrays, shape: resampled(*arrays).astype(np.float32))
    x, rows, row_weights, columns, column_weights = operands(9, 7, 5, 6, 3)
    row_weights, column_weights = (np.rint(64 * weights) / 64 for weights in (row_weights, column_weights))
    feeds = [x, rows, row_weights.astype(np.float32), columns, column_weights.astype(np.float32)]

    def picture(scale: float | None, order: tuple[int, ...] = (1, 2, 0)) -> Any:
        def function(x: Traced, rows: Traced, down: Traced, columns: Traced, across: Traced) -> Traced:
            levels = p.cast(x, dtypes.float32)
            lines = p.transpose(summed(levels if scale is None else levels * scale, rows, down), order)
            return p.transpose(summed(lines, columns, across), (2, 0, 1))

        return function

    for target in ("wasmtime", "v8"):
        for scale in (None, 1 / 256):
            used = check(target, feeds, picture(scale))
            assert "resample" in used
            assert "gather" not in used
    square = [operands(9, 7, 7, 6, 7)[0], *feeds[1:]]
    assert "resample" not in check("v8", square, picture(None))  # seven channels
