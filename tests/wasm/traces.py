"""Traces before and after legalization, evaluated with NumPy: the provider's primitives have definitions here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from sardonyx.common import dtypes
from sardonyx.compiler.legalization.filtering import filters
from sardonyx.compiler.live import live_equations
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.primitives.window import REDUCE_WINDOW
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm.legalization import legalize
from sardonyx_wasm.primitives import MATMUL_INT8
from sardonyx_wasm.routines.quads import WIDTH as QUADS


def matmul_int8(a: np.ndarray, b: np.ndarray, shape: Any) -> np.ndarray:
    *outer, panels, half, width, _ = b.shape
    assert (a.dtype, width, a.shape[-1]) == (np.int16, MATMUL_INT8.width(shape[-1]), 2 * half)
    flat = np.moveaxis(b, (-1, -4), (-3, -2)).reshape(*outer, 2 * half, panels * width)
    return (a.astype(np.int64) @ flat.astype(np.int64))[..., : shape[-1]].astype(np.int32)


def matmul_quads(
    a: np.ndarray,
    b: np.ndarray,
    sums: np.ndarray,
    zero: np.ndarray,
    starts: np.ndarray,
    elements: np.ndarray,
    shape: Any,
) -> np.ndarray:
    panels, quads, width, _ = b.shape
    flat = np.moveaxis(b, (1, 3), (0, 1)).reshape(4 * quads, panels * width).astype(np.int64)
    assert (a.dtype, width, a.shape[-1]) == (np.uint8, QUADS, 4 * quads)
    assert_array_equal(sums, flat.sum(0))
    for panel, (begin, end) in enumerate(pairwise(starts)):
        for word in elements[begin:end].tolist():
            flat[word & 0xFFFF, width * panel + (word >> 16 & 15)] += word >> 20
    return ((a.astype(np.int64) - zero) @ flat)[..., : shape[-1]].astype(np.int32)


def windows(x: np.ndarray, shape: Any, kernel: Any, strides: Any, dilations: Any) -> np.ndarray:
    span = [(n - 1) * step + 1 for n, step in zip(kernel, dilations, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, span, (1, 2))[..., :: dilations[0], :: dilations[1]]
    return seen[:, :: strides[0], :: strides[1]][:, : shape[1], : shape[2]]


POINTS = {
    4: ((0, 1, -1, None), (1, 1, 1, 1)),
    6: ((0, 1, -1, 2, -2, None), (1, -1, -1, 1, 1, 1)),
    7: ((0, 1, -1, 2, -2, None, 3), (-10, 10, 5, -5, -1, 120, 1)),
    8: ((0, 1, -1, 2, -2, 3, -3, None), (-20, 15, 15, -3, -3, 1, 1, 90)),
}
"""Points, None for infinity, and what their rows of G are multiplied by."""


def transform(places: int, taps: int) -> np.ndarray:
    """G, from its definition."""
    if places == taps == 1:
        return np.ones((1, 1))
    last = [0] * (taps - 1) + [1]
    rows = [last if point is None else [point**k for k in range(taps)] for point in POINTS[places][0]]
    return np.array(rows, float) * np.array(POINTS[places][1])[:, None]


def conv_winograd_int8(x: np.ndarray, u: np.ndarray, shape: Any, tile: Any, **window: Any) -> np.ndarray:
    """From the definition of F(m, r): weights back from planes, and a plain convolution."""
    places, panels, half, width, _ = u.shape
    lines = filters({"tile": tile, **window})
    assert (x.dtype, width, x.shape[-1]) == (np.int16, MATMUL_INT8.width(shape[-1]), 2 * half)
    assert all(x.shape[1 + k] >= lines[k].seen(lines[k].tiles(shape[1 + k])) for k in range(2))
    flat = np.moveaxis(u, 4, 3).reshape(places, panels, 2 * half, width)
    planes = np.moveaxis(flat, 1, 2).reshape(places, 2 * half, -1)[..., : shape[-1]].astype(np.float64)
    matrix = np.kron(*(transform(line.places, line.taps) for line in lines))
    taps = np.einsum("pk,kcn->pcn", np.linalg.pinv(matrix), planes)
    assert np.abs(taps - np.rint(taps)).max() < 1e-6
    w = np.rint(taps).astype(np.int64).reshape(*window["kernel"], 2 * half, -1)
    return np.einsum("bhwcij,ijcn->bhwn", windows(x, shape, **window).astype(np.int64), w).astype(np.int32)


def conv_line_int8(x: np.ndarray, u: np.ndarray, shape: Any) -> np.ndarray:
    """From the definition of F(4, r): weights back from planes, and a plain convolution."""
    places, panels, half, width, _ = u.shape
    groups, rest = divmod(2 * half, x.shape[-1])
    assert (x.dtype, u.dtype, width, rest) == (np.int16, np.int16, MATMUL_INT8.width(shape[-1]), 0)
    assert x.shape[1] == 4 * (-(-shape[1] // 4) + groups - 2) + places
    flat = np.moveaxis(u, 4, 3).reshape(places, panels, 2 * half, width)
    planes = np.moveaxis(flat, 1, 2).reshape(places, groups, x.shape[-1], -1)[..., : shape[-1]].astype(np.float64)
    taps = np.einsum("tp,pgcn->gtcn", np.linalg.pinv(transform(places, places - 3)), planes)
    assert np.abs(taps - np.rint(taps)).max() < 1e-6
    w = np.zeros((4 * groups + 1, *taps.shape[2:]), np.int64)
    for group, part in enumerate(np.rint(taps).astype(np.int64)):
        w[4 * group : 4 * group + len(part)] += part
    long = np.pad(x.astype(np.int64), [(0, 0), (0, 5), (0, 0)])  # taps of zeros may see what is behind the last tile
    seen = np.lib.stride_tricks.sliding_window_view(long, len(w), 1)[:, : shape[1]]
    return np.einsum("slct,tcn->sln", seen, w).astype(np.int32)


def im2col(x: np.ndarray, shape: Any, **window: Any) -> np.ndarray:
    made = np.moveaxis(windows(x, shape, **window), 3, 5).reshape(*shape[:-1], -1)
    return np.pad(made, [(0, 0)] * (made.ndim - 1) + [(0, made.shape[-1] % 2 if x.dtype == np.int16 else 0)])


def depthwise(x: np.ndarray, w: np.ndarray, shape: Any, **window: Any) -> np.ndarray:
    seen = windows(x, shape, **window).reshape(*shape, -1)
    return np.einsum("bhwct,tc->bhwc", seen, w)


def matmul(a: np.ndarray, b: np.ndarray, shape: Any, **panels: Any) -> np.ndarray:
    matrix = np.moveaxis(b, -3, -2).reshape(b.shape[-2], -1)[:, : shape[-1]] if panels else b
    return np.matmul(a, matrix).astype(np.float32)


def conv_panels(x: np.ndarray, w: np.ndarray, shape: Any, n: int, nr: int, **window: Any) -> np.ndarray:
    seen = np.moveaxis(windows(x, shape, **window), 3, 5).reshape(*shape[:3], -1)
    return matmul(seen, w, shape, n=n, nr=nr)


def bordered(x: np.ndarray, shape: Any, border: Any) -> np.ndarray:
    made = np.zeros(shape, x.dtype)
    place = tuple(slice(first, first + size) for first, size in zip(border, x.shape[1:3]))
    made[(slice(None), *place) if any(border) or made.shape != x.shape else ...] = x
    return made


def requantize(x: Any, bias: Any, scale: Any, limits: Any, *table: Any, shape: Any, border: Any, dtype: Any) -> Any:
    bias, scale = (np.resize(part, x.shape[-1]) for part in (bias, scale))
    low, high, moved = limits
    index = np.clip(np.rint((x + bias).astype(np.float32) * scale), low, high) - low
    values = table[0][index.astype(int)] if table else (index + moved).astype(dtype)
    return bordered(values, shape, border)


def lookup(x: np.ndarray, table: np.ndarray, shape: Any, border: Any, dtype: Any) -> np.ndarray:
    return bordered(table[x.view(np.uint8)], shape, border)


def pool(x: np.ndarray, shape: Any, **window: Any) -> np.ndarray:
    sizes = zip(
        x.shape[1:3], shape[1:3], *(window[name] for name in ("window", "strides", "dilations", "low")), strict=True
    )
    high = [(made - 1) * step + (n - 1) * apart + 1 - size - low for size, made, n, step, apart, low in sizes]
    return REDUCE_WINDOW.numpy(x.transpose(0, 3, 1, 2), high=high, **window)[0].transpose(0, 2, 3, 1)


ROUTINES: dict[str, Callable[..., np.ndarray]] = {
    "pool": pool,
    **dict.fromkeys(("matmul", "matmul_packed", "matmul_panels"), matmul),
    "matmul_int8": matmul_int8,
    "conv_line_int8": conv_line_int8,
    "conv_winograd_int8": conv_winograd_int8,
    "matmul_quads": matmul_quads,
    "im2col": im2col,
    "depthwise": depthwise,
    "conv_panels": conv_panels,
}
TYPED: dict[str, Callable[..., np.ndarray]] = {"requantize": requantize, "lookup": lookup}


def evaluate(trace: Trace, feeds: Sequence[np.ndarray]) -> tuple[np.ndarray, set[str]]:
    """The trace's output, and the primitives in use."""
    known = dict(zip(trace.inputs, feeds, strict=True))
    for equation in trace.equations:
        name = equation.primitive.name
        (output,) = equation.outputs
        operands = [known[x] if x.value is None else x.value for x in equation.inputs]
        if name in ROUTINES:
            known[output] = ROUTINES[name](*operands, shape=output.shape, **equation.params)
        elif name in TYPED:
            storage = output.dtype.storage
            known[output] = TYPED[name](*operands, shape=output.shape, dtype=storage, **equation.params)
        else:
            known[output] = equation.primitive.numpy(*operands, **equation.params)[0]
        assert known[output].shape == output.shape, name
    return known[trace.outputs[0]], {equation.primitive.name for equation in live_equations(trace)}


def check(
    target: str,
    feeds: Sequence[np.ndarray],
    function: Callable[..., Array],
    *weights: np.ndarray,
    names: list[str] | None = None,
) -> set[str]:
    """Compare before and after; gives the names of the primitives in use, and all of them to a list."""
    trace = Trace(Guards())
    with trace:
        inputs = [trace.input(getattr(dtypes, str(feed.dtype)), feed.shape) for feed in feeds]
        trace.give([function(*inputs, *map(constant, weights))])
    expected, _ = evaluate(trace, feeds)
    legalize(trace, {-1}, target)
    found, used = evaluate(trace, feeds)
    assert_array_equal(found, expected)
    if names is not None:
        names += [equation.primitive.name for equation in live_equations(trace)]
    return used
