"""Winograd's convolution of integers, bit for bit that of NumPy in int64."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.filtering import Filter
from sardonyx.compiler.legalization.ranges import largest_sum
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm.abi import SCRATCH
from sardonyx_wasm.legalization.tiling import Window
from sardonyx_wasm.legalization.winograd import _LOST, _WEIGHTS, Way, fastest
from sardonyx_wasm.primitives import MATMUL_INT8
from sardonyx_wasm.routines.winograd_int8 import band
from tests.support import require
from tests.wasm.compiled import Array, Product
from tests.wasm.test_int8 import packed

require("wasm")
LINES = {
    "2x2": (Filter(2, 3), Filter(2, 3)),
    "4x4": (Filter(4, 3), Filter(4, 3)),
    "2": (Filter(2, 3), Filter()),
    "4": (Filter(4, 3), Filter()),
    "4, apart": (Filter(4, 3, dilation=3), Filter()),
    "2x2, apart": (Filter(2, 3, dilation=2), Filter(2, 3, dilation=5)),
    "6": (Filter(6, 3), Filter()),
    "across": (Filter(), Filter(4, 3, dilation=2)),
    "four taps": (Filter(4, 4, dilation=2), Filter()),
    "five taps": (Filter(), Filter(4, 5, dilation=2)),
}
TILES = pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
TYPES = ("int16", "int16"), ("int32",)

Lines: TypeAlias = tuple[Filter, Filter]


def attributes(lines: Lines) -> dict[str, Any]:
    return dict(zip(("tile", "kernel", "strides", "dilations"), zip(*lines, strict=True), strict=True))


def borders(lines: Lines) -> tuple[int, int]:
    """The rows and columns that an image has more than its results."""
    down, across = ((line.taps - 1) * line.dilation for line in lines)
    return down, across


def planes(w: Array, lines: Lines) -> Array:
    """w [M, C, *taps] as the routine takes it."""
    down, across = (_WEIGHTS[line[:2]] for line in lines)
    u = np.einsum("ai,bj,mcij->abcm", down, across, w.astype(np.int64))
    assert np.abs(u).max() < 1 << 15
    return packed(u.reshape(-1, *u.shape[2:]).astype(np.int16), MATMUL_INT8.width(len(w)))


def case(x: Array, w: Array, lines: Lines) -> tuple[Array, Array, Array]:
    """The image as far as tiles see, the weights, and the convolution."""
    window = [border + 1 for border in borders(lines)]
    seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), window, (1, 2))
    seen = seen[..., :: lines[0].dilation, :: lines[1].dilation]
    exact = np.einsum("bhwcij,mcij->bhwm", seen, w.astype(np.int64))
    ends = [line.seen(line.tiles(size)) for line, size in zip(lines, exact.shape[1:3], strict=True)]
    more = [(0, end - size) for end, size in zip(ends, x.shape[1:3], strict=True)]
    junk = np.pad(x, [(0, 0), *more, (0, 0)], constant_values=99)
    return junk, planes(w, lines), exact.astype(np.int32)


def numbers(shape: tuple[int, ...], low: int, high: int, dtype: str, seed: int) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True).astype(dtype)


def image(lines: Lines, batch: int, height: int, width: int, channels: int) -> Array:
    """One whose results are so high and wide."""
    down, across = borders(lines)
    return numbers((batch, height + down, width + across, channels), -255, 255, "int16", 0)


def weights(lines: Lines, features: int, channels: int) -> Array:
    return numbers((features, channels, lines[0].taps, lines[1].taps), -128, 127, "int8", 1)


@TILES
@pytest.mark.parametrize(
    ("batch", "height", "width", "channels", "features"),
    [(1, 4, 4, 8, 4), (2, 9, 7, 10, 12), (1, 1, 3, 16, 100), (3, 13, 30, 18, 20), (1, 30, 29, 130, 104)],
)
def test_sizes(lines: Lines, batch: int, height: int, width: int, channels: int, features: int) -> None:
    x, u, expected = case(image(lines, batch, height, width, channels), weights(lines, features, channels), lines)
    routine = Product("conv_winograd_int8", TYPES, (x.shape, u.shape), (expected.shape,), 0, attributes(lines))
    units = routine.code.units
    assert units == batch * lines[0].tiles(height)
    for splits in ([(0, units)], [*itertools.pairwise(range(units + 1))][::-1]):
        assert_array_equal(routine(x, u, expected.shape, splits=splits), expected)


@TILES
def test_open_sizes(lines: Lines) -> None:
    number = lines[0].places * lines[1].places
    shapes = (("p0", "p1", "p2", 12), (number, 1, 6, 16, 2)), (("p0", "p3", "p4", 16),)
    routine = Product("conv_winograd_int8", TYPES, *shapes, 5, attributes(lines))
    for height, width in ((1, 1), (4, 5), (10, 3), (17, 18)):
        x, u, expected = case(image(lines, 2, height, width, 12), weights(lines, 16, 12), lines)
        params = (*x.shape[:3], height, width)
        splits = [(0, 2 * lines[0].tiles(height))]
        assert_array_equal(routine(x, u, expected.shape, params, splits=splits), expected)


@TILES
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_are_exact(lines: Lines, sign: int) -> None:
    """Transforms wrap around on the way to results that have all bits that they may have."""
    taps = lines[0].taps, lines[1].taps
    depth = 56 * 9 // prod(taps) * 2
    x, w = np.full((1, 14, 14, depth), 255, np.int16), np.full((4, depth, *taps), sign * 127, np.int8)
    x[:, ::3, 1::2] = -255
    w[1, ::2] *= -1
    w[2, :, taps[0] // 2] = 3
    for each in (x, np.full_like(x, 255)):
        junk, u, expected = case(each, w, lines)
        lost = _LOST[lines[0][:2]] + _LOST[lines[1][:2]]
        assert np.abs(expected.astype(np.int64)).max() < 1 << 31 - lost
        routine = Product("conv_winograd_int8", TYPES, (junk.shape, u.shape), (expected.shape,), 0, attributes(lines))
        assert_array_equal(routine(junk, u, expected.shape, splits=[(0, routine.code.units)]), expected)
    assert np.abs(expected.astype(np.int64)).max() > 1 << 24


def test_bands_fit_the_scratch_memory() -> None:
    for number, depth, columns in itertools.product((16, 36), (8, 64, 512, 2048), (4, 96)):
        count = band(number, depth, columns)
        assert count > 1
        assert 1000 + number * (count * (2 * depth + 4 * columns) + 192) < 1 << 20


def chosen(
    depth: int,
    features: int,
    kernel: tuple[int, int],
    sizes: tuple[int | None, int],
    dilations: tuple[int, int] = (1, 1),
    weight: int = 127,
) -> Way | None:
    """What is chosen for a convolution to these sizes, of which None is open and a run has 1."""
    guards = Guards()
    trace = Trace(guards)
    with trace:
        shape = [1, *(guards.symbol("n", 1) if size is None else size for size in sizes), features]
        x = p.cast(trace.input(dtypes.uint8, (1, depth, 28, 28)), dtypes.int32)
        w = p.cast(constant(np.full((features, depth, *kernel), weight, np.int8)), dtypes.int32)
        return fastest(x, w, shape, Window(kernel, (1, 1), dilations), largest_sum(x, w, range(1, 4)))


@pytest.mark.parametrize(
    ("depth", "taps", "tile"),
    [
        (64, (3, 3), (4, 4)),
        (512, (3, 3), (2, 2)),
        (2048, (3, 3), (2, 1)),
        (4096, (3, 3), None),
        (256, (3, 1), (6, 1)),
        (2048, (3, 1), (4, 1)),
        (1 << 12, (1, 3), (1, 2)),
        (64, (5, 1), (4, 1)),
        (64, (3, 7), (1, 4)),
    ],
)
def test_tiles_are_chosen_by_how_large_sums_can_be(depth: int, taps: tuple[int, int], tile: Any) -> None:
    way = chosen(depth, 16, taps, (32 - taps[0], 32 - taps[1]))
    assert (way and (way.down.outputs, way.across.outputs)) == tile


@pytest.mark.parametrize(("features", "beside"), [(1, 8), (2, 4), (3, 4), (4, 2), (6, 2), (8, 1), (10, 2), (16, 1)])
def test_few_results_are_made_beside_their_neighbours(features: int, beside: int) -> None:
    way = chosen(16, features, (5, 3), (26, 26))
    assert way
    assert way.beside == beside


@pytest.mark.parametrize(("size", "taken"), [(1, False), (None, True)])
def test_open_sizes_are_not_taken_for_small(size: int | None, taken: bool) -> None:
    assert (chosen(256, 256, (7, 1), (size, 1)) is not None) == taken


@pytest.mark.parametrize(("taps", "fits"), [(40, True), (400, False)])
def test_tiles_of_long_filters_fit_the_scratch_memory(taps: int, fits: bool) -> None:
    assert (chosen(1024, 16, (taps, 1), (901 - taps, 1), weight=1) is not None) == fits
    assert 7 * (-(-taps // 4) + 4) * 2 * 1024 < SCRATCH or not fits


@pytest.mark.parametrize(("length", "dilation", "tile"), [(600, 1, 6), (100, 1, 4), (100, 16, 4), (100, 50, 2)])
def test_tiles_that_hang_over_count(length: int, dilation: int, tile: int) -> None:
    way = chosen(64, 64, (3, 1), (length, 1), (dilation, 1))
    assert way
    assert way.down.outputs == tile
