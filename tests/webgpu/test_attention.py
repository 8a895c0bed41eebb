"""The routine of attention against float64: widths, heads that share keys, masks, few queries and many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx import primitives as p
from sardonyx.primitives.array import Array
from sardonyx.primitives.dot_product_attention import NEVER
from tests.support import require
from tests.support.attention import operands, reference
from tests.support.numbers import random
from tests.webgpu.folds import use
from tests.webgpu.traced import evaluate, launches

Numbers = np.ndarray[Any, Any]
OPEN = [(0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 2)]
"""Batch, queries and keys."""

require("webgpu")


@pytest.fixture(params=["threads", "groups"], autouse=True)
def _schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread has rows of its own, as where a processor plays the GPU, or a workgroup shares them."""
    use(request, monkeypatch)


def attended(q: Array, k: Array, v: Array) -> Array:
    return p.attention(q, k, v)


def close(found: Numbers, expected: Numbers, rtol: float = 2e-5) -> None:
    assert_allclose(found, expected, rtol=rtol, atol=rtol * float(np.abs(expected).max(initial=1)))


WIDTHS = [(1, 1), (4, 4), (6, 10), (32, 32), (64, 64), (68, 20), (80, 80), (128, 128), (256, 256), (64, 200)]


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_widths(widths: tuple[int, int]) -> None:
    arrays = operands((1, 2, 2, 3, 9, *widths))
    (found,), plan = evaluate(attended, *arrays)
    close(found, reference(*arrays))
    assert launches(plan) == {"attend": 1}


@pytest.mark.parametrize("lengths", [(1, 1), (1, 150), (2, 3), (4, 4), (5, 17), (9, 1), (70, 70)], ids=str)
@pytest.mark.parametrize("heads", [(1, 1), (4, 2), (6, 1)], ids=str)
def test_lengths_and_heads(heads: tuple[int, int], lengths: tuple[int, int]) -> None:
    arrays = operands((2, *heads, *lengths, 8, 8))
    (found,), _ = evaluate(attended, *arrays, opened=OPEN)
    close(found, reference(*arrays))
    (found,), _ = evaluate(lambda q, k, v: p.attention(q, k, v, causal=0), *arrays, opened=OPEN)
    close(found, reference(*arrays, causal=0))


@pytest.mark.parametrize("causal", [-3, 0, 2, 50])
def test_places_of_queries(causal: int) -> None:
    arrays = operands((1, 2, 1, 6, 11, 16, 8))
    (found,), _ = evaluate(lambda q, k, v: p.attention(q, k, v, causal=causal), *arrays)
    close(found, reference(*arrays, causal=causal))


def test_the_place_may_be_a_size() -> None:
    arrays = operands((1, 2, 2, 3, 8, 8, 8))
    (found,), _ = evaluate(lambda q, k, v: p.attention(q, k, v, causal=k.shape[2] - q.shape[2]), *arrays, opened=OPEN)
    close(found, reference(*arrays, causal=5))


@pytest.mark.parametrize("shape", [(2, 4, 5, 9), (2, 1, 1, 9), (1, 4, 1, 1), (5, 9), (5, 1)], ids=str)
@pytest.mark.parametrize("opened", [(), OPEN], ids=["known", "open"])
def test_masks_are_read_where_they_lie(shape: tuple[int, ...], opened: Any) -> None:
    arrays = operands((2, 4, 2, 5, 9, 12, 8))
    bias = random(*shape)
    hidden = random(*shape) > 0.5
    (found,), plan = evaluate(lambda q, k, v, bias: p.attention(q, k, v, bias=bias), *arrays, bias, opened=opened)
    close(found, reference(*arrays, bias))
    assert launches(plan) == {"attend": 1}
    (found,), plan = evaluate(lambda q, k, v, some: p.attention(q, k, v, allowed=some), *arrays, ~hidden, opened=opened)
    close(found, reference(*arrays, np.where(hidden, NEVER, 0)))
    assert launches(plan) == {"attend": 1}

    def both(q: Array, k: Array, v: Array, bias: Array, some: Array) -> Array:
        return p.attention(q, k, v, bias=bias, allowed=some, causal=1)

    (found,), plan = evaluate(both, *arrays, bias, ~hidden, opened=opened)
    close(found, reference(*arrays, np.where(hidden, NEVER, bias), 1))


def test_rows_that_see_nothing_are_zeros() -> None:
    arrays = operands((1, 2, 2, 4, 7, 8, 8))
    bias = np.zeros((4, 7), "f4")
    bias[1] = NEVER
    bias[2] = np.finfo("f4").min
    (found,), _ = evaluate(lambda q, k, v, bias: p.attention(q, k, v, bias=bias), *arrays, bias)
    close(found, reference(*arrays, bias.astype("f4")))
    assert_array_equal(found[:, :, 1], 0)
    (found,), _ = evaluate(lambda q, k, v: p.attention(q, k, v, causal=-2), *arrays)
    assert_array_equal(found[:, :, :2], 0)


def test_large_scores() -> None:
    q, k, v = operands((1, 1, 1, 6, 30, 8, 8))
    q *= 60
    (found,), _ = evaluate(attended, q, k, v)
    close(found, reference(q, k, v), 1e-4)


def test_not_a_number_stays() -> None:
    q, k, v = operands((1, 1, 1, 4, 9, 8, 8))
    q[0, 0, 2, 1] = np.nan
    (found,), _ = evaluate(attended, q, k, v)
    assert np.isnan(found[0, 0, 2]).all()
    close(np.delete(found, 2, 2), np.delete(reference(q, k, v), 2, 2))


def test_float16() -> None:
    arrays = operands((2, 4, 2, 5, 9, 16, 16), "f2")
    (found,), _ = evaluate(attended, *arrays)
    assert found.dtype == np.float16
    close(found, reference(*arrays), 2e-3)


@pytest.mark.parametrize("opened", [(), [(0, 0), (0, 1)]], ids=["known", "open"])
def test_heads_are_read_and_written_in_place(opened: Any) -> None:
    x = random(2, 7, 3 * 4 * 8)

    def whole(x: Array) -> Array:
        split = p.transpose(p.reshape(x, (*x.shape[:2], 3, 4, 8)), [2, 0, 3, 1, 4])
        q, k, v = (p.reshape(p.slice_axis(split, 0, part, 1), split.shape[1:]) for part in range(3))
        merged = p.transpose(p.attention(q, k, v), [0, 2, 1, 3])
        return p.reshape(merged, (*merged.shape[:2], 32))

    (found,), plan = evaluate(whole, x, opened=opened)
    q, k, v = x.reshape(2, 7, 3, 4, 8).transpose(2, 0, 3, 1, 4)
    close(found, reference(q, k, v).swapaxes(1, 2).reshape(2, 7, 32))
    assert launches(plan) == {"attend": 1}


def test_what_it_cannot_do_is_spelled_out() -> None:
    arrays = operands((1, 1, 1, 3, 4, 300, 300))
    (found,), plan = evaluate(attended, *arrays)
    close(found, reference(*arrays))
    assert "attend" not in launches(plan)


def test_no_keys() -> None:
    arrays = operands((1, 2, 2, 3, 0, 8, 8))
    (found,), _ = evaluate(attended, *arrays, opened=[(1, 2), (2, 2)])
    assert_array_equal(found, np.zeros((1, 2, 3, 8)))
