"""Products of integers with zero points, before and after legalization, evaluated with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from sardonyx_wasm.device import blas
from tests.wasm.traces import check

TARGETS = pytest.mark.parametrize("target", ["wasmtime", "v8"])
RNG = np.random.default_rng(0)
A = RNG.integers(0, 256, (2, 3, 40)).astype(np.uint8)
B = np.clip(np.rint(RNG.normal(130, 20, (40, 21))), 0, 255).astype(np.uint8)
ROW = np.array(77, np.uint8)


def whole(x: Array) -> Array:
    return p.cast(x, dtypes.int32)


def spelled(a: Array, b: Array, row: Array | None, column: Array | None, depth: int = 40) -> Array:
    """(a - row) (b - column) as MatMulInteger spells it."""
    row, column = (None if zero is None else whole(zero) for zero in (row, column))
    result = p.matmul(a, b, dtypes.int32)
    if row is not None:
        result = result - row * p.sum_(whole(b), [-2], keepdims=True)
    if column is not None:
        result = result - p.sum_(whole(a), [-1], keepdims=True) * column
    if row is not None and column is not None:
        result = result + row * column * depth
    return result


@TARGETS
@pytest.mark.parametrize("column", [np.array(131, np.uint8), np.arange(110, 131, dtype=np.uint8)[None]])
def test_zero_points_are_subtracted_first(target: str, column: Any) -> None:
    def both(a: Array, row: Array, b: Array, column: Array) -> Array:
        return spelled(a, b, row, column)

    def row(a: Array, row: Array, b: Array) -> Array:
        return spelled(a, b, row, None)

    def columns(a: Array, b: Array, column: Array) -> Array:
        return spelled(a, b, None, column)

    names: list[str] = []
    check(target, [A, ROW], both, B, column, names=names)
    check(target, [A, ROW], row, (B.astype(np.int16) - 130).astype(np.int8), names=names)
    check(target, [A], columns, B, column, names=names)
    assert "reduce" not in names
    assert "dot_general" not in names


@TARGETS
def test_bytes_less_both_zero_points_are_multiplied_as_bytes(target: str) -> None:
    used = check(target, [A[0], ROW], lambda a, row, b: spelled(a, b, row, p.full((), 130, dtypes.uint8)), B)
    assert "matmul_quads" in used


@TARGETS
@pytest.mark.parametrize(
    ("feeds", "function", "weights"),
    [
        ([A, np.arange(3, dtype=np.uint8)[:, None]], lambda a, row, b: spelled(a, b, row, None), [B]),
        ([A, ROW, B], lambda a, row, b: spelled(a, b, row, None), []),
        ([A[..., :3]], lambda a, b: spelled(a, b, None, p.full((), 130, dtypes.uint8)), [B[:3]]),
        ([A, np.array(3, np.uint8)], lambda a, column, b: spelled(a, b, None, column), [B]),
        ([A, ROW], lambda a, row, b, w: p.matmul(a, b, dtypes.int32) - whole(row) * p.sum_(whole(w), [0]), [B, B + 1]),
        ([A, A], lambda a, x, b: p.matmul(a, b, dtypes.int32) - p.sum_(whole(x), [2], keepdims=True) * 3, [B]),
    ],
    ids=["of rows", "not constant", "small", "not known", "sums of others", "rows of others"],
)
def test_others_stay(target: str, feeds: Any, function: Any, weights: Any) -> None:
    assert "reduce" in check(target, feeds, function, *weights)


@TARGETS
def test_another_depth_stays(target: str) -> None:
    """What is added is not what the zero points make of the product."""

    def function(a: Array, row: Array, b: Array) -> Array:
        return spelled(a, b, row, p.full((), 130, dtypes.uint8), depth=41)

    assert "reduce" in check(target, [A, ROW], function, B)


@pytest.mark.parametrize(("depth", "casts"), [(40, 1), (4000, 9)])
def test_floats_of_products_stay_floats(monkeypatch: pytest.MonkeyPatch, depth: int, casts: int) -> None:
    """Sums that float32 holds are not cast to integers and back."""
    monkeypatch.setattr(blas, "FEWEST", 0)
    monkeypatch.setattr(blas, "in_blocks", lambda: True)
    names: list[str] = []
    a, b = np.full((900, depth), 255, np.uint8), np.full((depth, 24), 64, np.int8)
    check("wasmtime", [a], lambda a, b: p.cast(p.matmul(a, b, dtypes.int32), dtypes.float32), b, names=names)
    assert names.count("cast") == casts
