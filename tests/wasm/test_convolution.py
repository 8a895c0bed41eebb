"""Convolutions of channels-last activations against float64: kernels, strides, dilations, groups, edges of tiles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.testing import assert_array_equal

from sardonyx_wasm.routines import tile
from tests.support import require
from tests.support.numbers import random
from tests.wasm.compiled import PLAIN, RELAXED, Array, run

TARGETS = sorted(tile.SHAPES)
# kernel, strides, dilations
WINDOWS = [
    ((1, 1), (1, 1), (1, 1)), ((3, 3), (1, 1), (1, 1)), ((3, 3), (2, 2), (1, 1)), ((5, 5), (1, 1), (1, 1)),
    ((2, 3), (1, 2), (2, 1)), ((3, 2), (2, 1), (1, 3)), ((1, 9), (1, 1), (1, 1)), ((4, 15), (3, 2), (1, 2)),
]  # fmt: skip

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def source(batch: int, counts: Sequence[int], channels: int, window: Any, dtype: str = "float32") -> Array:
    """An x that is just large enough for so many outputs along each axis."""
    sizes = [(count - 1) * stride + (taps - 1) * step + 1 for count, taps, stride, step in zip(counts, *window)]
    return random(batch, *sizes, channels).astype(dtype)


def seen(x: Array, window: Any) -> Array:
    """What the taps see: [B, *sizes, C, taps] in float64."""
    kernel, strides, dilations = window
    extents = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilations)]
    views = sliding_window_view(x.astype(float), extents, tuple(range(1, 1 + len(kernel))))
    views = views[(slice(None), *(slice(None, None, step) for step in (*strides, 1, *dilations)))]
    return views.reshape(*views.shape[: -len(kernel)], prod(kernel))


def one(primitive: str, arrays: list[Array], shape: tuple[int, ...], given: dict[str, Any], **more: Any) -> Array:
    """The result of a routine that has one, of the dtype of its operands."""
    return run(primitive, arrays, [(arrays[0].dtype.name, shape)], given, **more)[0]


def attributes(window: Any, **more: Any) -> dict[str, Any]:
    return dict(zip(("kernel", "strides", "dilations"), map(list, window))) | more


def close(result: Array, views: Array, w: Array, terms: str) -> None:
    """The error of a sum grows with what was added."""
    expected, bound = (np.einsum(terms, f(views), f(w.astype(float))) for f in (np.asarray, np.abs))
    error = np.abs(result.reshape(expected.shape) - expected)
    assert (error <= np.prod(w.shape[:-1]) * np.finfo(w.dtype).eps * bound).all()


# ---- depthwise


def check_depthwise(shape: tuple[int, ...], window: Any, target: str, dtype: str = "float32", **more: Any) -> None:
    batch, *counts, channels = shape
    x, w = source(batch, counts, channels, window, dtype), random(prod(window[0]), channels).astype(dtype)
    result = one("depthwise", [x, w], shape, attributes(window), target=target, **more)
    close(result, seen(x, window), w, "b...ck,kc->b...c")


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_depthwise(target: str, window: Any) -> None:
    for columns, channels in ((1, 4), (3, 6), (6, 3), (7, 8)):
        check_depthwise((2, 3, columns, channels), window, target)


@pytest.mark.parametrize("target", TARGETS)
def test_depthwise_sizes(target: str) -> None:
    for columns, channels in itertools.product((1, 2, 4, 5, 8, 9, 14, 17), (1, 2, 5, 7, 8, 9, 16, 33)):
        check_depthwise((1, 2, columns, channels), WINDOWS[1], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", [16, 31, 64, 70])
def test_depthwise_divides_the_channels_of_few_lines(target: str, channels: int) -> None:
    for window, pieces in itertools.product(WINDOWS[:3], (1, 2, 5, 24)):
        check_depthwise((2, 3, 9, channels), window, target, pieces=pieces)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", [128, 512, 528])
def test_depthwise_pixels_that_compete_for_the_cache(target: str, channels: int) -> None:
    for window, columns in itertools.product(WINDOWS[1:4], (3, 4, 9)):
        check_depthwise((1, 2, columns, channels), window, target)


@pytest.mark.parametrize("target", TARGETS)
def test_depthwise_without_fusion(target: str) -> None:
    for window in WINDOWS[1:3]:
        check_depthwise((1, 5, 9, 10), window, target, features=PLAIN)


@pytest.mark.parametrize("channels", [1, 3, 4, 7, 24])
def test_depthwise_with_open_sizes(channels: int) -> None:
    for batch, rows, columns in ((1, 1, 1), (2, 5, 7), (3, 2, 6)):
        check_depthwise((batch, rows, columns, channels), WINDOWS[2], "v8", open_sizes=True, pieces=2)


# ---- packed


def packed(w: Array, groups: int, target: str) -> Array:
    """w [kh, kw, C / groups, M] -> [groups * ceil(M / groups / nr), kh * kw * C / groups, nr]."""
    nr = tile.panel_width(target, w.dtype.name)
    made = w.shape[-1] // groups
    panels = -(-made // nr)
    filled = np.zeros((groups, panels * nr, w.size // w.shape[-1]), w.dtype)
    filled[:, :made] = w.reshape(-1, groups, made).transpose(1, 2, 0)
    return np.ascontiguousarray(filled.reshape(groups * panels, nr, -1).swapaxes(1, 2))


def check_packed(
    shape: tuple[int, ...],
    channels: int,
    window: Any,
    target: str,
    groups: int = 1,
    dtype: str = "float32",
    **more: Any,
) -> None:
    batch, *counts, made = shape
    x = source(batch, counts, channels, window, dtype)
    w = random(*window[0], channels // groups, made).astype(dtype)
    given = attributes(window, groups=groups, m=made, nr=tile.panel_width(target, dtype))
    result = one("conv_packed", [x, packed(w, groups, target)], shape, given, target=target, **more)
    close_in_groups(result, x, w, window, groups)


def close_in_groups(result: Array, x: Array, w: Array, window: Any, groups: int) -> None:
    views, channels = seen(x, window), w.shape[-2]
    views = views.reshape(*views.shape[:-2], groups, channels, prod(window[0]))
    weights = w.reshape(prod(window[0]), channels, groups, -1)
    close(result.reshape(*result.shape[:-1], groups, -1), views, weights, "b...gck,kcgm->b...gm")


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_packed(target: str, window: Any) -> None:
    for rows, columns, channels, made in ((1, 1, 1, 1), (5, 7, 3, 16), (3, 33, 8, 9), (9, 9, 5, 24)):
        check_packed((2, rows, columns, made), channels, window, target)


@pytest.mark.parametrize(("groups", "channels", "made"), [(2, 8, 8), (3, 6, 12), (5, 5, 10), (4, 64, 64), (7, 7, 7)])
@pytest.mark.parametrize("target", TARGETS)
def test_groups(target: str, groups: int, channels: int, made: int) -> None:
    for window in WINDOWS[1:5]:
        check_packed((1, 4, 17, made), channels, window, target, groups)


@pytest.mark.parametrize("target", TARGETS)
def test_packed_without_fusion(target: str) -> None:
    check_packed((1, 8, 9, 17), 6, WINDOWS[1], target, features=PLAIN)


@pytest.mark.parametrize("groups", [1, 2])
def test_packed_with_open_sizes(groups: int) -> None:
    for batch, rows, columns in ((1, 1, 1), (2, 5, 7), (3, 9, 16)):
        check_packed((batch, rows, columns, 10), 4, WINDOWS[2], "v8", groups, open_sizes=True, pieces=2)


# ---- grouped


def check_grouped(shape: tuple[int, ...], channels: int, window: Any, target: str, groups: int, **more: Any) -> None:
    batch, *counts, made = shape
    x, w = source(batch, counts, channels, window), random(*window[0], channels // groups, made)
    lines = w.reshape(-1, window[0][-1], channels // groups, made // 4, 4).transpose(3, 0, 2, 1, 4)
    given = attributes(window, groups=groups)
    result = one("conv_grouped", [x, np.ascontiguousarray(lines)], shape, given, target=target, **more)
    close_in_groups(result, x, w, window, groups)


@pytest.mark.parametrize(("groups", "channels", "made"), [(2, 8, 8), (3, 3, 24), (5, 35, 20), (32, 128, 128)])
@pytest.mark.parametrize("target", TARGETS)
def test_grouped(target: str, groups: int, channels: int, made: int) -> None:
    for window in WINDOWS[:6]:
        check_grouped((2, 3, 5, made), channels, window, target, groups)


@pytest.mark.parametrize("target", TARGETS)
def test_grouped_sizes(target: str) -> None:
    for columns in (1, 2, 3, 4, 5, 7, 8, 9, 14, 15, 16, 17):
        check_grouped((1, 2, columns, 8), 10, WINDOWS[1], target, 2)
    check_grouped((1, 3, 9, 8), 8, WINDOWS[2], target, 2, features=PLAIN, pieces=2)


def test_grouped_with_open_sizes() -> None:
    for batch, rows, columns in ((1, 1, 1), (2, 5, 7), (3, 9, 16)):
        check_grouped((batch, rows, columns, 12), 6, WINDOWS[2], "v8", 3, open_sizes=True, pieces=2)


# ---- three axes

VOLUMES = [
    ((3, 3, 3), (1, 1, 1), (1, 1, 1)), ((2, 3, 5), (1, 2, 3), (1, 1, 1)), ((3, 1, 2), (2, 1, 1), (1, 1, 3)),
    ((1, 4, 9), (1, 1, 2), (1, 3, 1)), ((5, 1, 1), (3, 1, 1), (2, 1, 1)), ((1, 1, 1), (2, 2, 2), (1, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("window", VOLUMES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_volumes(target: str, window: Any) -> None:
    for counts, pieces in (((1, 1, 1), 1), ((3, 2, 7), 1), ((2, 4, 9), 3)):
        check_packed((2, *counts, 9), 3, window, target, pieces=pieces)
        check_packed((2, *counts, 12), 6, window, target, 3, pieces=pieces)
        check_depthwise((2, *counts, 6), window, target, pieces=pieces)
        check_grouped((2, *counts, 8), 6, window, target, 2, pieces=pieces)
    check_depthwise((1, 2, 3, 5, 16), window, target)  # a pixel is a line of the cache
    check_depthwise((1, 2, 3, 5, 3), window, target)


@pytest.mark.parametrize("window", VOLUMES[:3], ids=str)
def test_volumes_with_open_sizes(window: Any) -> None:
    check_packed((2, 3, 4, 5, 9), 3, window, "v8", open_sizes=True, pieces=2)
    check_depthwise((2, 3, 4, 5, 6), window, "v8", open_sizes=True, pieces=2)
    check_grouped((2, 3, 4, 5, 8), 6, window, "v8", 2, open_sizes=True, pieces=2)


# ---- float64


@pytest.mark.parametrize("window", [*WINDOWS[1:5], *VOLUMES[:2]], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_float64(target: str, window: Any) -> None:
    counts = (2, 3, 9)[-len(window[0]) :]
    for channels, made, groups in ((3, 9, 1), (6, 12, 3), (4, 5, 1)):
        check_packed((2, *counts, made), channels, window, target, groups, dtype="float64", pieces=2)
    for channels in (1, 2, 3, 8, 9, 32):
        check_depthwise((2, *counts, channels), window, target, dtype="float64", pieces=2)


def test_float64_with_open_sizes() -> None:
    check_packed((2, 5, 7, 10), 4, WINDOWS[2], "v8", dtype="float64", open_sizes=True, pieces=2)
    for channels in (1, 6):
        check_depthwise((2, 5, 7, channels), WINDOWS[2], "v8", dtype="float64", open_sizes=True, pieces=2)


# ---- what the windows see


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("window", [*WINDOWS[1:5], *VOLUMES], ids=str)
def test_im2col(window: Any, groups: int) -> None:
    for counts, channels in (((1, 1, 1), 6), ((2, 3, 5), 12), ((3, 2, 4), 24)):
        counts = counts[-len(window[0]) :]
        x = source(2, counts, channels, window)
        views = seen(x, window)
        expected = np.moveaxis(views.reshape(*views.shape[:-2], groups, channels // groups, -1), -1, -2)
        shape = (2, *counts, prod(window[0]) * channels)
        given = attributes(window, groups=groups)
        assert_array_equal(one("im2col", [x], shape, given, pieces=3), expected.reshape(shape))


@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("window", [*WINDOWS[1:5], *VOLUMES], ids=str)
def test_im2col_of_int16_ends_in_a_zero_where_numbers_are_odd(window: Any, channels: int) -> None:
    counts = (2, 3, 5)[-len(window[0]) :]
    x = np.rint(100 * source(2, counts, channels, window)).astype(np.int16)
    expected = np.moveaxis(seen(x, window), -1, -2).reshape(2, *counts, -1)
    depth = expected.shape[-1]
    made = one("im2col", [x], (2, *counts, depth + depth % 2), attributes(window), pieces=3)
    assert_array_equal(made[..., :depth], expected)
    assert not made[..., depth:].any()


# ---- both

# Along one axis: kernel, strides, dilations
LINES = [((5, 1), (1, 1), (1, 1)), ((31, 1), (2, 1), (1, 1)), ((3, 1), (1, 1), (2, 1)), ((1, 1), (3, 1), (1, 1))]


@pytest.mark.parametrize("window", LINES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_lines(target: str, window: Any) -> None:
    """With one column, neighbouring units are done at once."""
    for rows, channels, made in ((1, 4, 8), (14, 6, 5), (67, 1, 12)):
        for pieces in (1, 3):
            check_depthwise((2, rows, 1, channels), window, target, pieces=pieces)
            check_packed((2, rows, 1, made), channels, window, target, pieces=pieces)


@pytest.mark.parametrize("primitive", ["depthwise", "conv_packed"])
@pytest.mark.parametrize("target", TARGETS)
def test_any_split_gives_the_same_bits(primitive: str, target: str) -> None:
    window = WINDOWS[1]
    x = source(2, (9, 11), 12, window)
    given = attributes(window, groups=1, m=12, nr=tile.panel_width(target))
    w = random(9, 12) if primitive == "depthwise" else packed(random(3, 3, 12, 12), 1, target)
    results = [one(primitive, [x, w], (2, 9, 11, 12), given, target=target, pieces=pieces) for pieces in (1, 2, 5, 18)]
    for result in results[1:]:
        assert_array_equal(result.view("u4"), results[0].view("u4"))


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("shape", [(0, 2, 2, 4), (1, 0, 2, 4), (1, 2, 0, 4), (2, 2, 2, 0)])
@pytest.mark.parametrize("primitive", ["depthwise", "conv_packed"])
def test_nothing_to_do(primitive: str, shape: tuple[int, int, int, int], open_sizes: bool) -> None:
    batch, rows, columns, made = shape
    x = np.ones((batch, rows + 2 if rows else 1, columns + 2 if columns else 1, made), "f4")
    w = np.ones((9, made), "f4") if primitive == "depthwise" else np.ones((made // 4, 9 * made, 8), "f4")
    given = attributes(WINDOWS[1], groups=1, m=made, nr=8)
    assert one(primitive, [x, w], shape, given, features=RELAXED, open_sizes=open_sizes).size == 0


def test_no_channels_give_zeros() -> None:
    x, w = np.ones((1, 4, 4, 0), "f4"), np.ones((1, 0, 8), "f4")
    given = attributes(WINDOWS[1], groups=1, m=8, nr=8)
    assert_array_equal(one("conv_packed", [x, w], (1, 2, 2, 8), given), 0)
