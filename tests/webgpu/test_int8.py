"""Products of bytes are exact, whatever the design, the signs and the sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from sardonyx_webgpu.legalization import integers
from sardonyx_webgpu.routines.designs import SPLIT, THREAD, Design
from tests.support import require
from tests.webgpu import nodes
from tests.webgpu.traced import evaluate, launches

Numbers = np.ndarray[Any, Any]

require("webgpu")

RNG = np.random.default_rng(0)
DESIGNS = [
    Design(THREAD, 8, 2),
    Design(THREAD, 1, 1, packed=True),
    Design(THREAD, 8, 2, packed=True),
    Design(SPLIT, 4, 1, 4),
    Design(SPLIT, 2, 1, 8, packed=True),
]
SIZES = [(1, 600, 8), (1, 64, 40), (2, 30, 29), (7, 101, 13), (9, 16, 64)]
on_device = nodes.on_device


@pytest.fixture(params=DESIGNS, ids=lambda design: "-".join(map(str, design)))
def _design(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All products of a test are made by this design."""
    monkeypatch.setattr(integers, "designs_of_bytes", lambda *_: dict.fromkeys(("software", "hardware"), request.param))


def numbers(dtype: Any, *shape: int) -> Numbers:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


@pytest.mark.usefixtures("_design")
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("left", "right"), [("i1", "i1"), ("u1", "i1"), ("u1", "u1"), ("i1", "u1")])
def test_sizes_and_signs(sizes: tuple[int, int, int], left: str, right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.primitives.evaluation.FOLD_LIMIT", 0)
    rows, depth, columns = sizes
    a, b = numbers(left, rows, depth), numbers(right, depth, columns)
    expected = a.astype("i8") @ b.astype("i8")
    (found,), plan = evaluate(lambda a, b: p.matmul(a, b, dtypes.int32), a, weights=[b], opened=[(0, 0)])
    np.testing.assert_array_equal(found, expected)
    counts = launches(plan)
    filled, sums = depth % 4 > 0, (left, right) == ("i1", "u1")
    assert counts["matmul_int8"] == 1
    assert counts.total() == 1 + filled + sums, counts


@pytest.mark.usefixtures("_design")
@pytest.mark.parametrize(("left", "right"), [("i1", "i1"), ("u1", "u1"), ("u1", "i1")])
def test_the_largest_sums_are_exact(left: str, right: str) -> None:
    depth = 5000
    a = np.full((2, depth), np.iinfo(left).min or 255, left)
    b = np.full((depth, 8), np.iinfo(right).min or 255, right)
    b[7:, 3], a[1, 4000:] = 1, 3
    (found,), _ = evaluate(lambda a, b: p.matmul(a, b, dtypes.int32), a, weights=[b])
    np.testing.assert_array_equal(found, a.astype("i8") @ b.astype("i8"))


def test_both_may_be_computed() -> None:
    a, b = numbers("u1", 3, 6, 20), numbers("i1", 3, 20, 10)
    (found,), plan = evaluate(lambda a, b: p.matmul(a, b, dtypes.int32), a, b, opened=[(0, 0), (0, 1), (1, 0)])
    np.testing.assert_array_equal(found, a.astype("i8") @ b.astype("i8"))
    assert launches(plan)["matmul_int8"] == 1


def test_what_follows_is_part_of_it() -> None:
    a, b, bias = numbers("u1", 9, 40), numbers("i1", 40, 24), numbers("i2", 24).astype("i4")

    def function(a: Array, b: Array, bias: Array) -> Array:
        total = p.cast(p.matmul(a, b, dtypes.int32) + bias, dtypes.float32) * 0.001
        return p.cast(p.minimum(p.maximum(p.round_even(total), -128), 127), dtypes.int8)

    (found,), plan = evaluate(function, a, weights=[b, bias])
    total = (a.astype("i8") @ b.astype("i8") + bias).astype("f4") * np.float32(0.001)
    np.testing.assert_array_equal(found, np.clip(np.rint(total), -128, 127).astype("i1"))
    assert launches(plan) == {"matmul_int8": 1}


@pytest.mark.parametrize("per_row", [False, True])
def test_zero_points(per_row: bool) -> None:
    """MatMulInteger with zero points of rows and columns, one of which only the run tells."""
    a, b = numbers("u1", 5, 36), numbers("i1", 36, 20)
    left, right = numbers("u1", 5) if per_row else numbers("u1"), numbers("i1", 20)
    (found,) = nodes.run("MatMulInteger", a, left, constants={1: b, 3: right}, opset=21)
    spread = left.astype("i8")[:, None] if per_row else left.astype("i8")
    np.testing.assert_array_equal(found, (a - spread) @ (b.astype("i8") - right))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("taps", [1, 3])
def test_convolutions(groups: int, taps: int) -> None:
    """ConvInteger, whose sums float32 holds."""
    x, w = numbers("u1", 2, 4, 9, 10), numbers("i1", 8, 4 // groups, taps, taps)
    zero, border = np.array(113, np.uint8), taps // 2
    attributes = {"group": groups, "pads": [border] * 4, "strides": [2, 1]}
    (found,) = nodes.run("ConvInteger", x, constants={1: w, 2: zero}, **attributes)
    wide = np.pad(x.astype("i8") - 113, [(0, 0), (0, 0), (border, border), (border, border)])
    seen = sliding_window_view(wide, (taps, taps), (2, 3))[:, :, ::2]
    parts = zip(np.split(seen, groups, 1), np.split(w.astype("i8"), groups), strict=True)
    expected = np.concatenate([np.einsum("bchwyx,mcyx->bmhw", *part) for part in parts], 1)
    np.testing.assert_array_equal(found, expected)


def test_empty_products() -> None:
    a, b = np.zeros((0, 40), "i1"), numbers("i1", 40, 30)
    (found,), _ = evaluate(lambda a, b: p.matmul(a, b, dtypes.int32), a, weights=[b], opened=[(0, 0)])
    assert found.shape == (0, 30)
