"""Matrix products: every edge of a tile, for both compilers' shapes, against float64; any split gives the same bits."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx_wasm.routines import tile
from sardonyx_wasm.routines.matmul import FEW
from tests.support import require
from tests.wasm.compiled import PLAIN, RELAXED, Array, Product, Shapes

TARGETS = sorted(tile.SHAPES)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33)

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def matmul(primitive: str, target: str, inputs: Shapes, outputs: Shapes, params: int = 0, **more: Any) -> Product:
    dtype = more.pop("dtype", "float32")
    return Product(primitive, ((dtype, dtype), (dtype,)), inputs, outputs, params, target=target, **more)


def random(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(dtype)


def packed(b: Array, target: str) -> Array:
    """b [..., K, N] -> [..., ceil(N / nr), K, nr]."""
    nr = tile.panel_width(target, str(b.dtype))
    *outer, depth, columns = b.shape
    panels = -(-columns // nr)
    filled = np.zeros((*outer, depth, panels * nr), b.dtype)
    filled[..., :columns] = b
    return np.moveaxis(filled.reshape(*outer, depth, panels, nr), -2, -3).copy()


def check(result: Array, a: Array, b: Array) -> None:
    """The error of a sum grows with what was added."""
    bound = np.abs(a).astype(float) @ np.abs(b).astype(float)
    error = np.abs(result - a.astype(float) @ b.astype(float))
    assert (error <= a.shape[-1] * np.finfo(a.dtype).eps * bound).all()


@pytest.mark.parametrize("features", [RELAXED, PLAIN], ids=["relaxed", "plain"])
@pytest.mark.parametrize("target", TARGETS)
def test_packed(target: str, features: frozenset[str]) -> None:
    product = matmul("matmul_packed", target, (("p0", "p1"), ("p2", "p1", 0)), (("p0", "p3"),), 4, features=features)
    for m, k, n in itertools.product(SIZES, (0, 1, 2, 3, 5, 8, 17), SIZES):
        a, b = random(m, k), random(k, n)
        w = packed(b, target)
        check(product(a, w, (m, n), (m, k, len(w), n), splits=[(0, m)]), a, b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("m", "k", "n"), [(59, 40, 20), (61, 40, 20), (130, 7, 25), (0, 3, 4), (200, 0, 9), (30, 9, 0)]
)
def test_packed_blocks(target: str, m: int, k: int, n: int) -> None:
    a, b = random(m, k), random(k, n)
    w = packed(b, target)
    product = matmul("matmul_packed", target, (a.shape, w.shape), ((m, n),))
    assert product.code.units == (-(-n // tile.panel_width(target)) if m <= 16 else m)
    whole = product(a, w, (m, n), splits=[(0, product.code.units)])
    check(whole, a, b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("m", [1, 2, 5, 16, 17, 100])
def test_any_split_gives_the_same_bits(target: str, m: int) -> None:
    a, b = random(m, 37), random(37, 70)
    w = packed(b, target)
    product = matmul("matmul_packed", target, (a.shape, w.shape), ((m, 70),))
    units, align = product.code.units, product.code.align
    whole = product(a, w, (m, 70), splits=[(0, units)])
    check(whole, a, b)
    starts = [*range(0, units, align), units]
    assert_array_equal(product(a, w, (m, 70), splits=[*itertools.pairwise(starts)][::-1]), whole)
    assert_array_equal(product(a, w, (m, 70), splits=[(0, align), (align, align), (align, units)]), whole)


@pytest.mark.parametrize("target", TARGETS)
def test_unpacked(target: str) -> None:
    product = matmul("matmul", target, (("p0", "p1"), ("p1", "p2")), (("p0", "p2"),), 3)
    for m, k, n in itertools.product((1, 4, 23, 24, 61), (0, 1, 3, 8, 17), SIZES):
        a, b = random(m, k), random(k, n)
        check(product(a, b, (m, n), (m, k, n), splits=[(0, m)]), a, b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [(1, 40), (40, 1), (16, 17), (17, 3)])
def test_shapes_share_their_code(target: str, rows: tuple[int, int]) -> None:
    """Few rows are divided along the columns, many along themselves, and neither is taken for the other."""
    k, n = 9, 50
    b = random(k, n)
    for primitive, operand in (("matmul_packed", packed(b, target)), ("matmul", b)):
        shapes = [((m, k), operand.shape) for m in rows], [((m, n),) for m in rows]
        alone = matmul(primitive, target, shapes[0][1], shapes[1][1])
        product = matmul(primitive, target, shapes[0][1], shapes[1][1], beside=[(shapes[0][0], shapes[1][0])])
        a = random(rows[1], k)
        check(product(a, operand, (rows[1], n), splits=[(0, product.code.units)]), a, b)
        assert product.code.units == alone.code.units
        is_shared = (rows[0] <= FEW) == (rows[1] <= FEW) or primitive == "matmul"
        assert (product.size < alone.size + 100) == is_shared


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 3, 5, 7, 9), (4, 30, 6, 33), (3, 1, 8, 16), (2, 0, 3, 4), (0, 3, 4, 5)])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_batches(target: str, shape: tuple[int, ...], shared: bool) -> None:
    *batch, m, k, n = shape
    a, b = random(*batch, m, k), random(*([] if shared else batch), k, n)
    product = matmul("matmul", target, (a.shape, b.shape), ((*batch, m, n),))
    units = product.code.units
    assert units == math.prod(batch) * m
    whole = product(a, b, (*batch, m, n), splits=[(0, units)])
    check(whole, a, b)
    if units > 5:
        assert_array_equal(product(a, b, whole.shape, splits=[(5, units), (0, 5)]), whole)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 5), (3, 13), (30, 13)])
def test_deeper_than_the_scratch_memory(target: str, m: int, n: int) -> None:
    a, b = random(m, 40000), random(40000, n)
    product = matmul("matmul", target, (a.shape, b.shape), ((m, n),))
    check(product(a, b, (m, n), splits=[(0, m)]), a, b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 3, 1), (1, 20, 33), (7, 5, 9), (30, 17, 13), (61, 40, 20)])
def test_float64(target: str, m: int, k: int, n: int) -> None:
    a, b = random(m, k, dtype="float64"), random(k, n, dtype="float64")
    w = packed(b, target)
    for primitive, operand in (("matmul_packed", w), ("matmul", b)):
        product = matmul(primitive, target, (a.shape, operand.shape), ((m, n),), dtype="float64")
        result = product(a, operand, (m, n), splits=[(0, product.code.units)])
        assert_allclose(result, a @ b, rtol=1e-13, atol=1e-13)


def test_infinities_stay_in_their_row_and_column() -> None:
    a, b = random(7, 9), random(9, 13)
    a[3, 4], b[2, 5] = np.inf, np.nan
    w = packed(b, "v8")
    product = matmul("matmul_packed", "v8", (a.shape, w.shape), ((7, 13),))
    result = product(a, w, (7, 13), splits=[(0, 2)])
    with np.errstate(invalid="ignore"):
        expected = a.astype(float) @ b.astype(float)
    assert_array_equal(np.isfinite(result), np.isfinite(expected))


@pytest.mark.parametrize("target", TARGETS)
def test_the_code_is_small(target: str) -> None:
    product = matmul("matmul", target, ((100, 64), (64, 64)), ((100, 64),))
    assert product.size < 12000
