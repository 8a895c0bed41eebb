"""Products with dequantized weights against float64: their numbers stay packed, whatever the design."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.microsoft.nbits import unpack
from sardonyx.plans.plan import Launch, Plan
from sardonyx.primitives.array import Array
from sardonyx_webgpu.routines import designs
from sardonyx_webgpu.routines.designs import SHARED, SPLIT, THREAD, Design
from tests.support import require
from tests.webgpu import nodes
from tests.webgpu.traced import evaluate, launches

Numbers = np.ndarray[Any, Any]

require("webgpu")

RNG = np.random.default_rng(0)
on_device = nodes.on_device
DESIGNS = [Design(THREAD, 2, 2), Design(SPLIT, 1, 1, 8), Design(SPLIT, 4, 1, 2), Design(SHARED, 4, 1, 8)]


@pytest.fixture(autouse=True)
def _unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights count as large, so that what depends on them is recorded."""
    monkeypatch.setattr("sardonyx.primitives.evaluation.FOLD_LIMIT", 0)


@pytest.fixture(params=DESIGNS, ids=lambda design: "-".join(map(str, design)))
def _design(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All products of a test are made by this design."""
    monkeypatch.setattr(designs, "software", lambda *sizes: request.param)
    monkeypatch.setattr(designs, "hardware", lambda *sizes: request.param)


def integers(dtype: Any, *shape: int, low: int | None = None, high: int | None = None) -> Numbers:
    limits = np.iinfo(dtype)
    low, high = limits.min if low is None else low, limits.max if high is None else high
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


def scales(*shape: int) -> Numbers:
    return RNG.uniform(0.01, 0.1, shape).astype("f4")


def floats(*shape: int, dtype: str = "f4") -> Numbers:
    return RNG.standard_normal(shape).astype(dtype)


def linear(numbers: Array, scale: Array, zero: Array | None = None) -> Array:
    """As DequantizeLinear spells it."""
    wide = p.cast(numbers, dtypes.int32)
    difference = wide if zero is None else wide - p.cast(zero, dtypes.int32)
    return p.cast(difference, dtypes.float32) * scale


def check(
    function: Callable[..., Array], x: Numbers, matrix: Numbers, *weights: Numbers, rtol: float = 1e-5, **more: Any
) -> dict[str, Any]:
    """The function gives the product of x and the matrix, in one launch; what the routine is told."""
    (found,), plan = evaluate(function, x, weights=weights, **more)
    wide, matrix = x.astype("f8").reshape(-1, len(matrix)), matrix.astype("f8")
    expected, most = wide @ matrix, np.abs(wide) @ np.abs(matrix)
    assert (np.abs(found.reshape(expected.shape) - expected) <= rtol * most + 1e-6).all()
    assert launches(plan) == {"matmul_nbits": 1}
    return attributes(plan)


def attributes(plan: Plan) -> dict[str, Any]:
    codes = [plan.codes[step.code] for step in plan.steps if isinstance(step, Launch)]
    return dict(next(code["attributes"] for code in codes if code.get("primitive") == "matmul_nbits"))


@pytest.mark.usefixtures("_design")
@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("columns", [40, 37])
def test_bytes_of_4_bits(rows: int, zeros: bool, columns: int) -> None:
    """As MatMulNBits spells it: [N, blocks, bytes]."""
    codes, scale = integers(np.uint8, columns, 4, 16), scales(columns, 4, 1, 1)
    zero = integers(np.uint8, columns, 4, 1, 1, high=15) if zeros else np.full((1, 1, 1, 1), 8, np.uint8)

    def function(x: Array, codes: Array, scale: Array, *zero: Array) -> Array:
        offset = p.cast(zero[0], dtypes.float32) if zeros else 8.0
        weights = (p.cast(unpack(codes, 4), dtypes.float32) - offset) * scale
        return p.dot_general(p.reshape(x, (x.shape[0], 4, 16, 2)), weights, ([1, 3, 2], [1, 2, 3]))

    numbers = np.stack([codes & 15, codes >> 4], -1).reshape(columns, 4, 32).astype("f8")
    matrix = ((numbers - zero[..., 0]) * scale[..., 0]).reshape(columns, 128).T
    told = check(function, floats(rows, 128), matrix, codes, scale, *([zero] if zeros else []), opened=[(0, 0)])
    assert (told["bits"], told["chunk"], told["repeat"]) == (4, 32, 1)
    assert told["zero"] == (None if zeros else 8)


@pytest.mark.usefixtures("_design")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("block", "chunk"), [(8, 8), (48, 16), (64, 32)])
@pytest.mark.parametrize(("dtype", "bits"), [(np.uint8, 8), (np.int8, 8), (np.int8, 4)])
def test_blocks(transposed: bool, block: int, chunk: int, dtype: Any, bits: int) -> None:
    """As DequantizeLinear spells blocks of either axis."""
    high = 15 if bits == 4 else None
    shape, along = ((50, 12, block), (50, 12, 1)) if transposed else ((12, block, 50), (12, 1, 50))
    numbers = integers(dtype, *shape, low=0 if bits == 4 else None, high=high)
    scale, zero = scales(*along), integers(dtype, *along, low=0 if bits == 4 else None, high=high)

    def function(x: Array, numbers: Array, scale: Array, zero: Array) -> Array:
        masked = p.cast(numbers, dtypes.int32) & 15 if bits == 4 else numbers
        below = p.cast(zero, dtypes.int32) & 15 if bits == 4 else zero
        weights = p.reshape(linear(masked, scale, below), (50, 12 * block) if transposed else (12 * block, 50))
        return p.matmul(x, p.transpose(weights, [1, 0]) if transposed else weights)

    matrix = (numbers.astype("f8") - zero) * scale
    matrix = matrix.reshape(50, -1).T if transposed else matrix.reshape(-1, 50)
    told = check(function, floats(7, 12 * block), matrix, numbers, scale, zero)
    assert (told["bits"], told["chunk"], told["repeat"]) == (bits, chunk, block // chunk)


@pytest.mark.usefixtures("_design")
@pytest.mark.parametrize("depth", [70, 96, 519])
@pytest.mark.parametrize("channels", [False, True])
def test_scales_of_columns_and_tensors(depth: int, channels: bool) -> None:
    """What is beyond the last row of weights is not multiplied, even if it is not a number."""
    numbers, scale, zero = integers(np.int8, depth, 61), scales(61) if channels else scales(1), integers(np.int8, 61)
    matrix = (numbers.astype("f8") - zero) * scale
    x = floats(3, depth)
    told = check(lambda x, n, s, z: p.matmul(x, linear(n, s, z)), x, matrix, numbers, scale, zero)
    assert (told["repeat"], told["guarded"]) == (0, depth % 32 > 0)
    x[1] = np.nan
    (found,), _ = evaluate(lambda x, n, s, z: p.matmul(x, linear(n, s, z)), x, weights=[numbers, scale, zero])
    assert_allclose(found[[0, 2]], x[[0, 2]] @ matrix, rtol=1e-4, atol=1e-3)
    assert np.isnan(found[1]).all()


def test_numbers_of_2_bits() -> None:
    codes, scale = integers(np.uint8, 40, 4, 8), scales(40, 4, 1, 1)

    def function(x: Array, codes: Array, scale: Array) -> Array:
        weights = (p.cast(unpack(codes, 2), dtypes.float32) - 2.0) * scale
        return p.dot_general(p.reshape(x, (x.shape[0], 4, 8, 4)), weights, ([1, 3, 2], [1, 2, 3]))

    numbers = np.stack([codes >> shift & 3 for shift in (0, 2, 4, 6)], -1).reshape(40, 4, 32).astype("f8")
    matrix = ((numbers - 2) * scale[..., 0]).reshape(40, 128).T
    assert check(function, floats(5, 128), matrix, codes, scale)["bits"] == 2


def test_half() -> None:
    """Scales stay as they are stored."""
    numbers, scale = integers(np.int8, 96, 60), scales(60).astype("f2")
    x = floats(3, 96, dtype="f2")

    def function(x: Array, n: Array, s: Array) -> Array:
        return p.matmul(x, p.cast(linear(n, p.cast(s, dtypes.float32)), dtypes.float16))

    check(function, x, numbers * scale.astype("f8"), numbers, scale, rtol=2e-3)


def test_what_follows_is_part_of_it() -> None:
    numbers, scale, bias = integers(np.int8, 96, 60), scales(60), floats(60)
    x = floats(3, 96)
    function = lambda x, n, s, b: p.maximum(p.matmul(x, linear(n, s)) + b, 0.0)  # noqa: E731
    (found,), plan = evaluate(function, x, weights=[numbers, scale, bias])
    expected = np.maximum(x @ (numbers * scale) + bias, 0)
    assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    assert launches(plan) == {"matmul_nbits": 1}


@pytest.mark.parametrize(
    ("dtype", "shape", "scale"),
    [
        (np.int8, (64, 70), (64, 1)),  # one for each row
        (np.int16, (64, 70), (70,)),
        (np.int8, (10, 7), (7,)),  # few
        (np.int8, (12, 6, 70), (12, 1, 70)),  # blocks of 6
    ],
)
def test_what_becomes_floats(dtype: Any, shape: tuple[int, ...], scale: tuple[int, ...]) -> None:
    numbers, factors = integers(dtype, *shape), scales(*scale)
    depth = numbers.size // shape[-1]
    x = floats(2, depth)
    function = lambda x, n, s: p.matmul(x, p.reshape(linear(n, s), (depth, shape[-1])))  # noqa: E731
    (found,), plan = evaluate(function, x, weights=[numbers, factors])
    expected = x @ (numbers * factors).reshape(depth, -1)
    assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert "matmul_nbits" not in launches(plan)
