"""Winograd's transforms against float64: alone and as a whole convolution."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx_wasm.routines import tile
from sardonyx_wasm.routines.filtering import tile_size, weight_transform
from tests.support import require
from tests.wasm.compiled import PLAIN, Array, run

TARGETS = sorted(tile.SHAPES)
BOUND = {2: 2e-6, 4: 4e-6}
"""Largest error, as a part of the largest result."""

require("wasm")


@pytest.fixture(autouse=True)
def no_cache_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", "0")


def error(m: int, shape: tuple[int, int, int, int], channels: int, **more: Any) -> float:
    """Of a convolution with the product of the two transforms in NumPy, as a part of the largest result."""
    batch, rows, columns, made = shape
    rng = np.random.default_rng((m, *shape, channels))
    high, wide = -(-rows // m), -(-columns // m)
    x = rng.standard_normal((batch, high * m + 2, wide * m + 2, channels)).astype("f4")
    w = rng.standard_normal((3, 3, channels, made)).astype("f4")
    g = weight_transform(m)
    u = np.einsum("ik,klcm,jl->ijcm", g, w, g).reshape(-1, channels, made).astype("f4")
    tiles = (batch * high * wide, (m + 2) ** 2)
    v = run("winograd_input", [x], [("float32", (*tiles, channels))], {"m": m}, **more)[0]
    y = np.matmul(v.swapaxes(0, 1), u).swapaxes(0, 1)
    result = run("winograd_output", [np.ascontiguousarray(y)], [("float32", shape)], {"m": m}, **more)[0]
    views = sliding_window_view(x.astype(float), (3, 3), (1, 2))[:, :rows, :columns]
    expected = np.einsum("bijckl,klcm->bijm", views, w.astype(float), optimize=True)
    return float(np.abs(result - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("target", TARGETS)
def test_convolution(target: str, m: int) -> None:
    for rows, columns in itertools.product((1, 2, 3, 4, 5, 7, 8), (1, 3, 6, 9)):
        assert error(m, (2, rows, columns, 8), 4, target=target) < BOUND[m]


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("target", TARGETS)
def test_channels(target: str, m: int) -> None:
    for channels, made in ((5, 7), (9, 16), (17, 15), (33, 4), (64, 47)):
        assert error(m, (1, 5, 6, made), channels, target=target) < BOUND[m]


@pytest.mark.parametrize("m", [2, 4])
def test_without_fusion(m: int) -> None:
    assert error(m, (2, 7, 9, 12), 16, features=PLAIN) < BOUND[m]


@pytest.mark.parametrize("m", [2, 4])
def test_open_sizes(m: int) -> None:
    for rows, columns in ((1, 1), (5, 4), (7, 11)):
        assert error(m, (3, rows, columns, 6), 5, open_sizes=True, pieces=2) < BOUND[m]


@pytest.mark.parametrize("m", [2, 4])
def test_any_split_gives_the_same_bits(m: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4 * m + 2, 3 * m + 2, 20)).astype("f4")
    y = rng.standard_normal((2 * 4 * 3, (m + 2) ** 2, 20)).astype("f4")
    shape = (2, 4 * m - 1, 3 * m - 1, 20)
    for pieces in (2, 3, 8):
        for primitive, array, made in (("winograd_input", x, y.shape), ("winograd_output", y, shape)):
            whole, parts = (run(primitive, [array], [("float32", made)], {"m": m}, n)[0] for n in (1, pieces))
            assert_array_equal(parts.view("u4"), whole.view("u4"))


@pytest.mark.parametrize("shape", [(0, 4, 4, 8), (1, 0, 4, 8), (1, 4, 0, 8), (1, 4, 4, 0)])
@pytest.mark.parametrize("m", [2, 4])
def test_nothing_to_do(m: int, shape: tuple[int, int, int, int]) -> None:
    batch, rows, columns, made = shape
    tiles = (batch * rows * columns // m**2, (m + 2) ** 2, made)
    x = np.ones((batch, rows + 2, columns + 2, made), "f4")
    assert run("winograd_input", [x], [("float32", tiles)], {"m": m})[0].size == 0
    assert run("winograd_output", [np.ones(tiles, "f4")], [("float32", shape)], {"m": m})[0].size == 0


@pytest.mark.parametrize("m", [2, 4])
def test_weight_transform(m: int) -> None:
    """A row of G is a polynomial of degree 2 at a point: the third difference over equal steps is 0."""
    g = weight_transform(m)
    assert g.shape == (m + 2, 3)
    assert_array_equal(g[-1], [0, 0, 1])
    points: Array = g[:-1, 1] / g[:-1, 0]
    assert_allclose(g[:-1, 2] / g[:-1, 0], points**2)
    assert_allclose(sorted(points), -np.array(sorted(points))[::-1])


@pytest.mark.parametrize(
    ("shape", "channels", "m"),
    [((1, 28, 28, 128), 128, 4), ((1, 7, 7, 512), 512, 4), ((1, 4, 4, 128), 128, 2), ((1, 56, 56, 8), 4, 1),
     ((1, 28, 28, 64), 3, 1), ((1, 1, 1, 64), 64, 1), ((8, 4, 4, 64), 64, 4)],
)  # fmt: skip
def test_tile_size(shape: tuple[int, int, int, int], channels: int, m: int) -> None:
    *places, made = shape
    assert tile_size(*places, channels, made) == m
