"""What becomes of products and convolutions of integers before they are fused, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Trace, constant
from sardonyx.symbolic import Guards
from sardonyx_wasm.legalize import legalize
from sardonyx_wasm.quantized import bounds
from sardonyx_wasm.routines.integer import WIDTH

TARGETS = pytest.mark.parametrize("target", ["wasmtime", "v8"])
RNG = np.random.default_rng(0)


def matmul_int8(a: np.ndarray, b: np.ndarray, shape: Any) -> np.ndarray:
    *outer, panels, half, width, _ = b.shape
    assert (a.dtype, width, a.shape[-1]) == (np.int16, WIDTH, 2 * half)
    flat = np.moveaxis(b, (-1, -4), (-3, -2)).reshape(*outer, 2 * half, panels * width)
    return (a.astype(np.int64) @ flat.astype(np.int64))[..., : shape[-1]].astype(np.int32)


def windows(x: np.ndarray, shape: Any, kernel: Any, strides: Any, dilations: Any) -> np.ndarray:
    span = [(n - 1) * step + 1 for n, step in zip(kernel, dilations, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, span, (1, 2))[..., :: dilations[0], :: dilations[1]]
    return seen[:, :: strides[0], :: strides[1]][:, : shape[1], : shape[2]]


def im2col(x: np.ndarray, shape: Any, **window: Any) -> np.ndarray:
    return np.moveaxis(windows(x, shape, **window), 3, 5).reshape(shape)


def depthwise(x: np.ndarray, w: np.ndarray, shape: Any, **window: Any) -> np.ndarray:
    seen = windows(x, shape, **window).reshape(*shape, -1)
    return np.einsum("bhwct,tc->bhwc", seen, w)


ROUTINES = {"matmul_int8": matmul_int8, "im2col": im2col, "depthwise": depthwise}


def evaluate(trace: Trace, feeds: Sequence[np.ndarray]) -> tuple[np.ndarray, set[str]]:
    """The trace's output, and the primitives in use."""
    known = {id(array): feed for array, feed in zip(trace.inputs, feeds, strict=True)}
    for equation in trace.equations:
        name = equation.primitive.name
        (output,) = equation.outputs
        operands = [known[id(x)] if x.value is None else x.value for x in equation.inputs]
        if name in ROUTINES:
            known[id(output)] = ROUTINES[name](*operands, shape=output.shape, **equation.params)
        else:
            known[id(output)] = equation.primitive.numpy(*operands, **equation.params)[0]
        assert known[id(output)].shape == output.shape, name
    return known[id(trace.outputs[0])], {equation.primitive.name for equation in trace.equations}


def check(target: str, feeds: Sequence[np.ndarray], function: Callable[..., Array], *weights: np.ndarray) -> set[str]:
    """Compare before and after; gives the names of the primitives in use."""
    trace = Trace(Guards())
    with trace:
        inputs = [trace.input(getattr(dtypes, str(feed.dtype)), feed.shape) for feed in feeds]
        trace.give([function(*inputs, *map(constant, weights))])
    expected, _ = evaluate(trace, feeds)
    legalize(trace, {-1}, target)
    found, used = evaluate(trace, feeds)
    assert_array_equal(found, expected)
    return used


def numbers(dtype: type[np.generic], *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def centred(x: Array, zero: int | None) -> Array:
    wide = p.cast(x, dtypes.int32)
    return wide if zero is None else wide - zero


@TARGETS
@pytest.mark.parametrize("left", [np.int8, np.uint8])
@pytest.mark.parametrize("right", [np.int8, np.uint8])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 32, 20), (5, 33, 12), (7, 90, 25)])
def test_products_of_bytes(target: str, left: Any, right: Any, m: int, k: int, n: int) -> None:
    used = check(target, [numbers(left, m, k)], lambda x, w: p.matmul(x, w, dtypes.int32), numbers(right, k, n))
    assert "matmul_int8" in used
    assert "dot_general" not in used


@TARGETS
@pytest.mark.parametrize("zeros", [(128, 128), (255, None), (0, 3)])
def test_products_less_zero_points(target: str, zeros: Any) -> None:
    def function(x: Array, w: Array) -> Array:
        return p.matmul(centred(x, zeros[0]), centred(w, zeros[1]))

    used = check(target, [numbers(np.uint8, 2, 6, 40)], function, numbers(np.uint8, 40, 14))
    assert "matmul_int8" in used


@TARGETS
def test_products_of_what_is_not_constant(target: str) -> None:
    feeds = numbers(np.uint8, 3, 9, 20), numbers(np.int8, 3, 20, 15)
    used = check(target, feeds, lambda x, y: p.matmul(x, y, dtypes.int32))
    assert "matmul_int8" in used


@TARGETS
def test_large_integers_stay_what_they_are(target: str) -> None:
    used = check(target, [numbers(np.int32, 9, 20)], lambda x, w: p.matmul(x, w), numbers(np.int32, 20, 15))
    assert "matmul_int8" not in used


@TARGETS
@pytest.mark.parametrize(
    ("x", "w", "strides", "dilations", "pads", "groups", "routine"),
    [
        ((2, 6, 9, 10), (12, 6, 3, 3), (1, 1), (1, 1), (1, 1), 1, "im2col"),
        ((1, 3, 9, 10), (8, 3, 3, 3), (2, 2), (1, 1), (1, 0), 1, "im2col"),
        ((1, 5, 9, 10), (7, 5, 2, 3), (1, 2), (2, 1), (0, 2), 1, "im2col"),
        ((2, 8, 9, 10), (12, 8, 1, 1), (1, 1), (1, 1), (0, 0), 1, "matmul_int8"),
        ((2, 7, 9, 10), (12, 7, 1, 1), (2, 2), (1, 1), (0, 0), 1, "matmul_int8"),
        ((1, 12, 9, 10), (12, 1, 3, 3), (1, 1), (1, 1), (1, 1), 12, "depthwise"),
        ((2, 6, 20), (12, 6, 3), (2,), (1,), (1,), 1, "im2col"),
        ((2, 16, 9, 10), (18, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1, "matmul_int8"),
        ((1, 17, 4, 3), (16, 17, 3, 3), (1, 1), (1, 1), (2, 0), 1, "matmul_int8"),
    ],
)
def test_convolutions(
    target: str, x: Any, w: Any, strides: Any, dilations: Any, pads: Any, groups: int, routine: str
) -> None:
    def function(x: Array, w: Array) -> Array:
        return p.conv_general(centred(x, 100), centred(w, None), strides, dilations, pads, pads, groups)

    used = check(target, [numbers(np.uint8, *x)], function, numbers(np.int8, *w))
    assert routine in used
    assert ("im2col" in used) == (routine == "im2col")  # the others are Winograd's, or have one tap
    assert "conv_general" not in used


def test_bounds() -> None:
    trace = Trace(Guards())
    with trace:
        x = trace.input(dtypes.uint8, (4,))
        wide = p.cast(x, dtypes.int32)
        assert bounds(wide - 3) == (-3, 252)
        assert bounds(p.pad(wide + wide, [1], [0], -1)) == (-1, 510)
        assert bounds(p.cast(wide - 128, dtypes.int8)) == (-128, 127)
        assert bounds(p.cast(wide - 3, dtypes.int8)) == (-128, 127)
        assert bounds(wide * wide) == (-(2**31), 2**31 - 1)
        assert bounds(constant(np.array([-4, 9]), dtypes.int32)) == (-4, 9)
        assert bounds(trace.input(dtypes.bool_, (2,))) == (0, 1)
