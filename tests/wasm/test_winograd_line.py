"""Winograd's convolution of sequences of integers with long filters, bit for bit that of NumPy in int64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx_wasm.legalization.winograd import _LOST, _WEIGHTS
from sardonyx_wasm.primitives import MATMUL_INT8
from sardonyx_wasm.routines.winograd_int8 import band
from sardonyx_wasm.routines.winograd_line import OUTPUTS
from tests.support import require
from tests.wasm.compiled import Array, Product
from tests.wasm.test_int8 import packed

require("wasm")
TARGETS = pytest.mark.parametrize("target", ["v8", "wasmtime"])
TYPES = ("int16", "int16"), ("int32",)


def planes(w: Array, last: int) -> Array:
    """w [M, C, taps] as the routine takes it, with so many taps in the last filter."""
    features, channels, taps = w.shape
    groups = max(1, 1 - (last - taps) // 4)
    u = np.zeros((last + 3, groups, channels, features), np.int64)
    for group in range(groups):
        part = w[..., 4 * group : 4 * group + (4 if group + 1 < groups else last)].astype(np.int64)
        u[:, group] = np.einsum("pt,mct->pcm", _WEIGHTS[4, last][:, : part.shape[2]], part)
    assert np.abs(u).max() < 1 << 15
    flat = u.reshape(len(u), groups * channels, features)
    return packed(flat.astype(np.int16), MATMUL_INT8.width(features))


def case(x: Array, w: Array, last: int = 4) -> tuple[Array, Array, Array]:
    """The sequences as far as tiles see, the weights, and the convolution."""
    seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), w.shape[2], 1)
    exact = np.einsum("slct,mct->slm", seen, w.astype(np.int64))
    groups = max(1, 1 - (last - w.shape[2]) // 4)
    end = 4 * (-(-exact.shape[1] // 4) + groups - 2) + last + 3
    junk = np.pad(x, [(0, 0), (0, end - x.shape[1]), (0, 0)], constant_values=99)
    return junk, planes(w, last), exact.astype(np.int32)


def numbers(shape: tuple[int, ...], low: int, high: int, dtype: str, seed: int) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True).astype(dtype)


@TARGETS
@pytest.mark.parametrize(("taps", "last"), [(4, 4), (5, 4), (7, 4), (11, 4), (17, 4), (5, 5), (8, 5), (9, 5), (17, 5)])
@pytest.mark.parametrize(
    ("batch", "length", "channels", "features"),
    [(1, 1, 8, 4), (1, 4, 16, 20), (2, 19, 18, 12), (1, 50, 10, 100), (3, 250, 16, 16)],
)
def test_sizes(target: str, taps: int, last: int, batch: int, length: int, channels: int, features: int) -> None:
    x = numbers((batch, length + taps - 1, channels), -255, 255, "int16", 0)
    x, u, expected = case(x, numbers((features, channels, taps), -128, 127, "int8", 1), last)
    routine = Product("conv_line_int8", TYPES, (x.shape, u.shape), (expected.shape,), target=target)
    units = routine.code.units
    assert units == batch * -(-length // OUTPUTS)
    for splits in ([(0, units)], [*itertools.pairwise(range(units + 1))][::-1]):
        assert_array_equal(routine(x, u, expected.shape, splits=splits), expected)


@TARGETS
def test_open_sizes(target: str) -> None:
    shapes = (("p0", "p1", 12), (7, 1, 12, 16, 2)), (("p0", "p2", 16),)
    routine = Product("conv_line_int8", TYPES, *shapes, 3, target=target)
    for length in (1, 4, 10, 230):
        x = numbers((2, length + 6, 12), -255, 255, "int16", 0)
        x, u, expected = case(x, numbers((16, 12, 7), -128, 127, "int8", 1))
        splits = [(0, 2 * -(-length // OUTPUTS))]
        assert_array_equal(routine(x, u, expected.shape, (*x.shape[:2], length), splits=splits), expected)


@TARGETS
@pytest.mark.parametrize(("depth", "last"), [(512, 4), (256, 5)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_are_exact(target: str, depth: int, last: int, sign: int) -> None:
    """Transforms wrap around on the way to results that have all bits that they may have."""
    x, w = np.full((1, 30, depth), 256, np.int16), np.full((4, depth, 8), sign * 255, np.int16)
    x[:, ::3, 1::2] = -256
    w[1, ::2] *= -1
    for each in (x, np.full_like(x, 256)):
        junk, u, expected = case(each, w, last)
        routine = Product("conv_line_int8", TYPES, (junk.shape, u.shape), (expected.shape,), target=target)
        assert_array_equal(routine(junk, u, expected.shape, splits=[(0, routine.code.units)]), expected)
    assert 0.99 < np.abs(expected.astype(np.int64)).max() / (1 << 31 - _LOST[4, last]) < 1


def test_bands_fit_the_scratch_memory() -> None:
    for depth, columns, more in itertools.product((8, 64, 512, 2048), (4, 96), (0, 3, 12)):
        count = band(7, depth, columns, more)
        assert count > 1
        assert 1000 + 7 * ((count + more) * 2 * depth + count * 4 * columns + 192) < 1 << 20
