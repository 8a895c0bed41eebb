"""Every design of products gives the same: sizes, views as operands, what is done to results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sardonyx import primitives as p
from sardonyx.primitives.contraction import swap_last
from sardonyx_webgpu.routines import designs
from sardonyx_webgpu.routines.designs import SHARED, SPLIT, THREAD, Design
from tests.support import require
from tests.webgpu import nodes
from tests.webgpu.test_matmul import SIZES, check, heads, product, random
from tests.webgpu.traced import evaluate

require("webgpu")

on_device = nodes.on_device
DESIGNS = [
    Design(THREAD, 4, 1),
    Design(SPLIT, 1, 1, 8),
    Design(SPLIT, 4, 1, 2),
    Design(SPLIT, 8, 1, 1),
    Design(SHARED, 4, 1, 8),
    Design(SHARED, 8, 2, 8),
]
OPENED = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.fixture(params=DESIGNS, ids=lambda design: "-".join(map(str, design)), autouse=True)
def _design(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All products of a test are made by this design."""
    monkeypatch.setattr(designs, "software", lambda *sizes: request.param)
    monkeypatch.setattr(designs, "hardware", lambda *sizes: request.param)


@pytest.mark.parametrize("sizes", [*SIZES, (70, 36, 136), (65, 33, 66), (1, 1024, 8)], ids=str)
@pytest.mark.parametrize("opened", [(), OPENED], ids=["known", "open"])
def test_sizes(sizes: tuple[int, int, int], opened: Any) -> None:
    rows, depth, columns = sizes
    a, b = random(rows, depth), random(depth, columns)
    check(p.matmul, product(a, b), a, b, opened=opened)


@pytest.mark.parametrize("sizes", [(2, 30, 9), (7, 100, 3), (17, 64, 72)], ids=str)
def test_operands_may_be_transposed(sizes: tuple[int, int, int]) -> None:
    rows, depth, columns = sizes
    a, b = random(2, rows, depth), random(2, columns, depth)
    expected = product(a, b.swapaxes(1, 2))
    check(lambda a, b: p.matmul(a, swap_last(b)), expected, a, b, opened=[(0, 0), (1, 0)])
    a = np.ascontiguousarray(a.swapaxes(1, 2))
    check(lambda a, b: p.matmul(swap_last(a), swap_last(b)), expected, a, b)


@pytest.mark.parametrize("columns", [8, 5])
def test_what_follows_is_part_of_it(columns: int) -> None:
    a, b, bias, rest = random(2, 7, 40), random(40, 4 * columns), random(4 * columns), random(2, 7, 4 * columns)
    x = product(a, b) + bias + rest
    check(lambda a, b, bias, rest: p.matmul(a, b) + bias + rest, x, a, b, bias, rest)
    moved = (product(a, b) + bias).reshape(2, 7, 4, columns).swapaxes(1, 2)
    check(lambda a, b, bias: heads(p.matmul(a, b) + bias, 4), moved, a, weights=[b, bias])


def test_float16() -> None:
    a, b = random(9, 40, dtype="f2"), random(40, 24, dtype="f2")
    check(p.matmul, product(a, b).astype("f2"), a, b, rtol=2e-3)


def test_not_a_number_stays() -> None:
    """What lies beyond the sizes is not multiplied, whatever it is."""
    a, b = random(9, 37), random(37, 18)
    a[3, 36], a[4, 0], b[36, 5] = np.nan, np.inf, np.inf
    with np.errstate(invalid="ignore"):
        expected = product(a, b)
    (found,), _ = evaluate(p.matmul, a, b)
    finite = np.isfinite(expected)
    assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=1e-4)
    assert not np.isfinite(found[~finite]).any()
    assert np.isnan(found[3]).all()
