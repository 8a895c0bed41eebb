"""Winograd's convolution of integers, bit for bit that of NumPy in int64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm.legalization.integers import _BITS, _WEIGHTS, _winograd_tile
from sardonyx_wasm.routines.winograd_int8 import _tiles
from tests.support import require
from tests.wasm.compiled import Array, Product
from tests.wasm.test_int8 import packed

require("wasm")
TILES = pytest.mark.parametrize("tile", [2, 4])


def planes(w: Array, tile: int) -> Array:
    """w [M, C, 3, 3] as the routine takes it."""
    g = _WEIGHTS[tile]
    u = np.einsum("ai,bj,mcij->abcm", g, g, w.astype(np.int64))
    assert np.abs(u).max() < 1 << 15
    return packed(u.reshape(-1, *u.shape[2:]).astype(np.int16))


def case(x: Array, w: Array, tile: int, sizes: tuple[Any, ...] | None = None) -> tuple[Array, Array, Array]:
    """The image as far as tiles see, the weights, and the convolution."""
    seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3), (1, 2))
    exact = np.einsum("bhwcij,mcij->bhwm", seen, w.astype(np.int64))
    ends = [-size % tile for size in exact.shape[1:3]]
    junk = np.pad(x, [(0, 0), (0, ends[0]), (0, ends[1]), (0, 0)], constant_values=99)
    return junk, planes(w, tile), exact.astype(np.int32)


def numbers(shape: tuple[int, ...], low: int, high: int, dtype: str, seed: int) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True).astype(dtype)


@TILES
@pytest.mark.parametrize(
    ("batch", "height", "width", "channels", "features"),
    [(1, 4, 4, 8, 4), (2, 9, 7, 10, 12), (1, 1, 3, 16, 100), (3, 13, 30, 18, 20), (1, 30, 29, 130, 104)],
)
def test_sizes(tile: int, batch: int, height: int, width: int, channels: int, features: int) -> None:
    x = numbers((batch, height + 2, width + 2, channels), -255, 255, "int16", 0)
    image, u, expected = case(x, numbers((features, channels, 3, 3), -128, 127, "int8", 1), tile)
    types = (("int16", "int16"), ("int32",))
    routine = Product(
        "conv_winograd_int8", types, (image.shape, u.shape), (expected.shape,), 0, attributes={"tile": tile}
    )
    units = routine.code.units
    assert units == batch * -(-height // tile)
    for splits in ([(0, units)], [*itertools.pairwise(range(units + 1))][::-1]):
        assert_array_equal(routine(image, u, expected.shape, splits=splits), expected)


@TILES
def test_open_sizes(tile: int) -> None:
    shapes = (("p0", "p1", "p2", 12), ((tile + 2) ** 2, 2, 6, 12, 2)), (("p0", "p3", "p4", 16),)
    types = (("int16", "int16"), ("int32",))
    routine = Product("conv_winograd_int8", types, *shapes, 5, attributes={"tile": tile})
    for height, width in ((1, 1), (4, 5), (10, 3), (17, 18)):
        x = numbers((2, height + 2, width + 2, 12), -255, 255, "int16", 0)
        image, u, expected = case(x, numbers((16, 12, 3, 3), -128, 127, "int8", 1), tile)
        params = (*image.shape[:3], height, width)
        splits = [(0, 2 * -(-height // tile))]
        assert_array_equal(routine(image, u, expected.shape, params, splits=splits), expected)


@TILES
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_are_exact(tile: int, sign: int) -> None:
    """Transforms wrap around on the way to results that have all bits that they may have."""
    depth = 112
    x, w = np.full((1, 10, 10, depth), 255, np.int16), np.full((4, depth, 3, 3), sign * 127, np.int8)
    x[:, ::3, 1::2] = -255
    w[1, ::2] *= -1
    w[2, :, 1] = 3
    for each in (x, np.full_like(x, 255)):
        image, u, expected = case(each, w, tile)
        assert np.abs(expected.astype(np.int64)).max() < 1 << _BITS[tile]
        types = (("int16", "int16"), ("int32",))
        shapes = (image.shape, u.shape), (expected.shape,)
        routine = Product("conv_winograd_int8", types, *shapes, 0, attributes={"tile": tile})
        assert_array_equal(routine(image, u, expected.shape, splits=[(0, routine.code.units)]), expected)
    assert np.abs(expected.astype(np.int64)).max() > 1 << 24


def test_bands_fit_the_scratch_memory() -> None:
    for number, depth, columns in itertools.product((16, 36), (8, 64, 512, 2048), (4, 96)):
        count = _tiles(number, depth, columns)
        assert count > 1
        assert 1000 + number * (count * (2 * depth + 4 * columns) + 192) < 1 << 20


@pytest.mark.parametrize(("depth", "tile"), [(64, 4), (512, 2), (2048, 0)])
def test_tiles_are_chosen_by_how_large_sums_can_be(depth: int, tile: int) -> None:
    trace = Trace(Guards())
    with trace:
        x = p.cast(trace.input(dtypes.uint8, (1, depth, 28, 28)), dtypes.int32)
        w = p.cast(constant(np.full((16, depth, 3, 3), 127, np.int8)), dtypes.int32)
        output = p.conv_general(x, w, (1, 1), (1, 1), (1, 1), (1, 1), 1)
    assert output.equation is not None
    assert _winograd_tile(x, w, output, output.equation.params) == tile
