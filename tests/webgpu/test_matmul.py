"""Products as routines against float64: sizes, views as operands, what is done to results and where they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from sardonyx.primitives.contraction import swap_last
from tests.support import require
from tests.support.numbers import random
from tests.webgpu.traced import evaluate, launches

Numbers = np.ndarray[Any, Any]

require("webgpu")


def check(
    function: Callable[..., Array], expected: Numbers, *arrays: Numbers, most: int = 1, rtol: float = 1e-5, **more: Any
) -> None:
    """The function gives what is expected, in one product and no more launches than `most`."""
    (found,), plan = evaluate(function, *arrays, **more)
    assert found.shape == expected.shape
    assert_allclose(found, expected, rtol=rtol, atol=rtol * max(1.0, float(np.abs(expected).max(initial=0))))
    counts = launches(plan)
    assert counts["matmul"] == 1
    assert counts.total() <= most, counts


def product(a: Numbers, b: Numbers) -> Numbers:
    return a.astype(float) @ b.astype(float)


SIZES = [
    (1, 1, 600),
    (1, 64, 40),
    (1, 63, 41),
    (2, 30, 9),
    (3, 5, 37),
    (7, 100, 3),
    (8, 64, 64),
    (13, 16, 8),
    (16, 15, 12),
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("opened", [(), [(0, 0), (0, 1), (1, 0), (1, 1)]], ids=["known", "open"])
def test_sizes(sizes: tuple[int, int, int], opened: Any) -> None:
    rows, depth, columns = sizes
    a, b = random(rows, depth), random(depth, columns)
    check(p.matmul, product(a, b), a, b, opened=opened)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_right_side_may_lie_along_the_sums(sizes: tuple[int, int, int]) -> None:
    rows, depth, columns = sizes
    a, b = random(2, rows, depth), random(2, columns, depth)
    check(lambda a, b: p.matmul(a, swap_last(b)), product(a, b.swapaxes(1, 2)), a, b, opened=[(0, 0), (1, 0)])


def test_the_left_side_may_be_transposed() -> None:
    a, b = random(3, 20, 10), random(3, 20, 8)
    check(lambda a, b: p.matmul(swap_last(a), b), product(a.swapaxes(1, 2), b), a, b)


def test_matrices_may_be_shared() -> None:
    a, b = random(2, 3, 9, 16), random(3, 16, 20)
    check(p.matmul, product(a, b), a, b, opened=[(0, 0), (0, 2)])
    check(p.matmul, product(a, b[0]), a, b[0])
    a = random(1, 3, 9, 16)
    b = random(5, 1, 16, 7)
    check(p.matmul, product(a, b), a, b)


def heads(x: Array, count: int) -> Array:
    batch, length, wide = x.shape
    return p.transpose(p.reshape(x, (batch, length, count, wide // count)), [0, 2, 1, 3])


@pytest.mark.parametrize("depth", [8, 5])
@pytest.mark.parametrize("opened", [(), [(0, 0), (0, 1)]], ids=["known", "open"])
def test_heads_are_views(depth: int, opened: Any) -> None:
    """Queries and keys are slices of one Array, each with heads first."""
    x = random(2, 7, 6 * depth)
    q, k = (x[..., part * 3 * depth :][..., : 3 * depth].reshape(2, 7, 3, depth).swapaxes(1, 2) for part in (0, 1))

    def scores(x: Array) -> Array:
        q, k = (heads(p.slice_axis(x, 2, part * 3 * depth, 3 * depth), 3) for part in (0, 1))
        return p.matmul(q, swap_last(k))

    check(scores, product(q, k.swapaxes(2, 3)), x, opened=opened)


@pytest.mark.parametrize("wide", [8, 3])
@pytest.mark.parametrize("opened", [(), [(0, 0), (0, 1), (1, 0)]], ids=["known", "open"])
def test_results_go_where_movement_takes_them(wide: int, opened: Any) -> None:
    a, b, bias = random(2, 7, 20), random(20, 4 * wide), random(4 * wide)
    expected = (product(a, b) + bias).reshape(2, 7, 4, wide).swapaxes(1, 2) * 0.3
    check(lambda a, b, bias: heads(p.matmul(a, b) + bias, 4) * 0.3, expected, a, weights=[b, bias], opened=opened[:2])
    a, b = random(2, 4, 7, 20), random(2, 4, 20, wide)
    expected = product(a, b).swapaxes(1, 2).reshape(2, 7, 4 * wide)

    def merged(a: Array, b: Array) -> Array:
        moved = p.transpose(p.matmul(a, b), [0, 2, 1, 3])
        return p.reshape(moved, (*moved.shape[:2], 4 * wide))

    check(merged, expected, a, b, opened=[(0, 0), (0, 2), (1, 0)] if opened else ())
    check(lambda a, b: swap_last(p.matmul(a, b)), product(a, b).swapaxes(2, 3), a, b)


@pytest.mark.parametrize("columns", [32, 30])
def test_what_follows_is_part_of_it(columns: int) -> None:
    a, b, bias, rest = random(9, 16), random(16, columns), random(columns), random(9, columns)
    x = product(a, b) + bias
    check(lambda a, b, bias: p.maximum(p.matmul(a, b) + bias, 0.0), np.maximum(x, 0), a, b, bias)
    check(lambda a, b, bias, rest: p.matmul(a, b) + bias + rest, x + rest, a, b, bias, rest)

    def twice(a: Array, b: Array, bias: Array) -> Array:
        x = p.matmul(a, b) + bias
        return x * p.sigmoid(x)

    check(twice, x / (1 + np.exp(-x)), a, b, bias, opened=[(0, 0)])


def test_what_is_multiplied_may_be_added_too() -> None:
    a, b = random(12, 12), random(12, 12)
    check(lambda a, b: p.matmul(a, b) + a, product(a, b) + a, a, b)
    check(lambda a: p.matmul(a, a) + a, product(a, a) + a, a)


@pytest.mark.parametrize("sizes", [(5, 24, 16), (3, 7, 30)], ids=str)
def test_float16(sizes: tuple[int, int, int]) -> None:
    rows, depth, columns = sizes
    a, b = random(rows, depth, dtype="f2"), random(depth, columns, dtype="f2")
    check(p.matmul, product(a, b).astype("f2"), a, b, rtol=2e-3)
    check(lambda a, b: p.cast(p.matmul(a, b), dtypes.float32) + 1.0, product(a, b) + 1, a, b, rtol=2e-3)


def test_empty_products() -> None:
    a, b = np.zeros((0, 40), "f4"), random(40, 30)
    (found,), _ = evaluate(p.matmul, a, b, opened=[(0, 0)])
    assert found.shape == (0, 30)


def test_not_a_number_stays() -> None:
    a, b = random(9, 40), random(40, 16)
    a[3, 5], a[4, 0] = np.nan, np.inf
    (found,), _ = evaluate(p.matmul, a, b)
    assert np.isnan(found[3]).all()
    assert np.isinf(found[4]).all()
    assert np.isfinite(np.delete(found, [3, 4], 0)).all()


def test_projections_of_one_input_are_one_product() -> None:
    """Scalings of a part are done to its weights, which are put side by side once."""
    x = random(2, 5, 24)
    matrices = [random(24, 16) + k for k in range(3)]
    biases = [random(16) * k for k in range(2)]

    def parts(x: Array, *weights: Array) -> list[Array]:
        q, k, v = (p.matmul(x, weight) for weight in weights[:3])
        return [heads(q + weights[3], 2) * 0.5, heads(weights[4] + k, 2), heads(v, 2)]

    def scores(x: Array, *weights: Array) -> Array:
        q, k, v = parts(x, *weights)
        return p.attention(q, k, v)

    (found,), plan = evaluate(scores, x, weights=[*matrices, *biases], opened=[(0, 0), (0, 1)])
    q, k, v = (
        (product(x, matrix) + bias).reshape(2, 5, 2, 8).swapaxes(1, 2)
        for matrix, bias in zip(matrices, (*biases, 0), strict=True)
    )
    powers = np.exp(0.5 * q @ k.swapaxes(2, 3) - (0.5 * q @ k.swapaxes(2, 3)).max(3, keepdims=True))
    assert_allclose(found, powers / powers.sum(3, keepdims=True) @ v, rtol=1e-4, atol=1e-4)
    assert launches(plan) == {"matmul": 1, "attend": 1}
