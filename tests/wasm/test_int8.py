"""Products of integers, against int64 NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx_wasm.primitives import MATMUL_INT8
from tests.support import require
from tests.wasm.compiled import Array, Product, Shapes

DTYPES = pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
TARGETS = pytest.mark.parametrize("target", ["v8", "wasmtime"])
WIDTHS = pytest.mark.parametrize("width", MATMUL_INT8.widths)

require("wasm")


def matmul(dtype: str, inputs: Shapes, outputs: Shapes, params: int = 0, target: str = "v8") -> Product:
    return Product("matmul_int8", (("int16", dtype), ("int32",)), inputs, outputs, params, target=target)


def numbers(shape: Sequence[int], dtype: str, seed: int = 0) -> Array:
    limits = np.iinfo(dtype)
    low, high = (-255, 255) if dtype == "int16" else (limits.min, limits.max)
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True).astype(dtype)


def packed(b: Array, width: int) -> Array:
    """b [..., K, N] of an even K -> [..., ceil(N / width), K / 2, width, 2]."""
    *outer, depth, columns = b.shape
    panels = -(-columns // width)
    filled = np.zeros((*outer, depth, panels * width), b.dtype)
    filled[..., :columns] = b
    split = filled.reshape(*outer, depth // 2, 2, panels, width)
    return np.moveaxis(split, (-2, -4, -1, -3), (-4, -3, -2, -1)).copy()


def exact(a: Array, b: Array) -> Array:
    """The product, wrapped to int32."""
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


@DTYPES
@WIDTHS
@TARGETS
def test_sizes(dtype: str, width: int, target: str) -> None:
    product = matmul(dtype, (("p0", "p1"), ("p2", "p3", width, 2)), (("p0", "p4"),), 5, target)
    for m, k, n in itertools.product((0, 1, 2, 3, 4, 5, 7, 61), (0, 2, 4, 6, 18), (1, 4, 11, 12, 13, 16, 33)):
        a, b = numbers((m, k), "int16"), numbers((k, n), dtype, 1)
        w = packed(b, width)
        assert_array_equal(product(a, w, (m, n), (m, k, len(w), k // 2, n), splits=[(0, m)]), exact(a, b))


@DTYPES
@WIDTHS
@pytest.mark.parametrize("m", [1, 3, 16, 17, 130])
def test_any_split(dtype: str, width: int, m: int) -> None:
    a, b = numbers((m, 38), "int16"), numbers((38, 50), dtype, 1)
    w = packed(b, width)
    product = matmul(dtype, (a.shape, w.shape), ((m, 50),))
    units, align = product.code.units, product.code.align
    assert units == (len(w) if m <= 16 else m)
    starts = [*range(0, units, align), units]
    for splits in ([(0, units)], [*itertools.pairwise(starts)][::-1], [(0, align), (align, align), (align, units)]):
        assert_array_equal(product(a, w, (m, 50), splits=splits), exact(a, b))


@DTYPES
@WIDTHS
@pytest.mark.parametrize("shape", [(2, 3, 5, 8, 9), (3, 1, 2, 26), (2, 0, 4, 4)])
def test_stacks(dtype: str, width: int, shape: tuple[int, ...]) -> None:
    *outer, m, k, n = shape
    a, b = numbers((*outer, m, k), "int16"), numbers((*outer, k, n), dtype, 1)
    w = packed(b, width)
    product = matmul(dtype, (a.shape, w.shape), ((*outer, m, n),))
    units = product.code.units
    splits = [(0, units)] if units < 2 else [(1, units), (0, 1)]
    assert_array_equal(product(a, w, (*outer, m, n), splits=splits), exact(a, b))


@WIDTHS
@TARGETS
@pytest.mark.parametrize(("left", "right"), [(-255, 255), (255, 255), (-255, -255)])
def test_extremes_are_exact(left: int, right: int, width: int, target: str) -> None:
    a, b = np.full((5, 1000), left, np.int16), np.full((1000, 13), right, np.int16)
    w = packed(b, width)
    product = matmul("int16", (a.shape, w.shape), ((5, 13),), target=target)
    assert_array_equal(product(a, w, (5, 13), splits=[(0, len(w))]), exact(a, b))


def test_sums_wrap() -> None:
    a, b = np.full((2, 140000), -128, np.int16), np.full((140000, 3), -128, np.int8)
    w = packed(b, MATMUL_INT8.width(3))
    result = matmul("int8", (a.shape, w.shape), ((2, 3),))(a, w, (2, 3), splits=[(0, 1)])
    assert exact(a, b)[0, 0] < 0
    assert_array_equal(result, exact(a, b))
