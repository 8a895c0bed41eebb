"""Winograd's transforms against float64: alone and as a whole convolution."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx.compiler.legalization.filtering import Filter, weight_transform
from sardonyx_wasm.routines import tile
from sardonyx_wasm.routines.winograd import band
from tests.support import require
from tests.wasm.compiled import PLAIN, Compiled, run

Lines: TypeAlias = tuple[Filter, Filter]

TARGETS = sorted(tile.SHAPES)
TWO, FOUR, NONE = Filter(2, 3), Filter(4, 3), Filter()
SQUARE: list[Lines] = [(TWO, TWO), (FOUR, FOUR)]
LINES: list[Lines] = [
    *SQUARE,
    (Filter(3, 3), FOUR),
    (Filter(2, 5), Filter(2, 5)),
    (Filter(2, 3, 2), Filter(2, 3, 2)),
    (Filter(4, 3, 2), Filter(4, 3, 2)),
    (Filter(4, 3, 2), Filter(1, 1, 2)),
    (TWO, Filter(2, 3, 2)),
    (Filter(2, 5, 2), Filter(3, 4, 3)),
    (Filter(4, 7, 3), Filter(2, 5, 2)),
    (Filter(3, 3, dilation=2), Filter(2, 3, dilation=5)),
    *((Filter(m, 3), NONE) for m in (2, 3, 4, 5, 6)),
    *((NONE, Filter(m, 5)) for m in (2, 3, 4)),
    (Filter(4, 3, dilation=3), NONE),
    (NONE, Filter(4, 3, 2)),
]
BOUND = 4e-6
"""Largest error, as a part of the largest result."""

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def attributes(lines: Lines) -> dict[str, Any]:
    return dict(zip(("tile", "kernel", "strides", "dilations"), zip(*lines, strict=True), strict=True))


def numbers(lines: Lines, shape: Sequence[int]) -> tuple[list[int], int, list[int]]:
    """Tiles along both axes, places, and the rows and columns that tiles see, for outputs of this shape."""
    tiles = [line.tiles(size) for line, size in zip(lines, shape[1:3], strict=True)]
    seen = [line.seen(count) for line, count in zip(lines, tiles, strict=True)]
    return tiles, lines[0].places * lines[1].places, seen


def places(lines: Lines, u: np.ndarray) -> np.ndarray:
    """Weights of all places, from those that differ."""
    which = [np.minimum(np.arange(line.places), line.weights - 1) for line in lines]
    return u.reshape(lines[0].weights, lines[1].weights, *u.shape[1:])[np.ix_(*which)].reshape(-1, *u.shape[1:])


def error(lines: Lines, shape: tuple[int, int, int, int], channels: int, **more: Any) -> float:
    """Of a convolution with the product of the two transforms in NumPy, as a part of the largest result."""
    rng = np.random.default_rng((*shape, channels))
    (high, wide), count, seen = numbers(lines, shape)
    x = rng.standard_normal((shape[0], *seen, channels)).astype("f4")
    w = rng.standard_normal((lines[0].taps * lines[1].taps, channels, shape[3])).astype("f4")
    u = places(lines, np.einsum("pt,tcm->pcm", weight_transform(*lines), w)).astype("f4")
    tiles = (shape[0] * high * wide, count)
    v = run("winograd_input", [x], [("float32", (*tiles, channels))], attributes(lines), **more)[0]
    y = np.ascontiguousarray(np.matmul(v.swapaxes(0, 1), u).swapaxes(0, 1))
    result = run("winograd_output", [y], [("float32", shape)], attributes(lines), **more)[0]
    expected = convolved(lines, shape, x, w)
    return float(np.abs(result - expected).max() / np.abs(expected).max())


def convolved(lines: Lines, shape: Sequence[int], x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution with weights [taps, C, M], by 64 bits."""
    down, across = lines
    span = [(line.taps - 1) * line.dilation + 1 for line in lines]
    views = sliding_window_view(x.astype(float), span, (1, 2))[:, :: down.stride, :: across.stride]
    views = views[:, : shape[1], : shape[2], :, :: down.dilation, :: across.dilation]
    return np.tensordot(views.reshape(*views.shape[:4], -1), w.astype(float), ((3, 4), (1, 0)))


@pytest.mark.parametrize("lines", LINES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_convolution(target: str, lines: Lines) -> None:
    sizes = itertools.product((1, 4, 5), (3, 8)) if lines in SQUARE else [(1, 3), (5, 4), (9, 17)]
    for rows, columns in sizes:
        assert error(lines, (2, rows, columns, 8), 4, target=target) < BOUND


@pytest.mark.parametrize("lines", [*SQUARE, (FOUR, NONE), (Filter(4, 3, 2), Filter(4, 3, 2))], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_channels(target: str, lines: Lines) -> None:
    for channels, made in ((5, 7), (9, 16), (17, 15), (33, 4), (64, 47)):
        assert error(lines, (1, 5, 6, made), channels, target=target) < BOUND


@pytest.mark.parametrize("lines", LINES, ids=str)
def test_without_fusion(lines: Lines) -> None:
    assert error(lines, (2, 7, 9, 12), 16, features=PLAIN) < BOUND


@pytest.mark.parametrize("lines", LINES, ids=str)
def test_open_sizes(lines: Lines) -> None:
    for rows, columns in ((1, 1), (5, 4), (7, 11)):
        assert error(lines, (3, rows, columns, 6), 5, open_sizes=True, pieces=2) < BOUND


@pytest.mark.parametrize("lines", LINES, ids=str)
def test_any_split_gives_the_same_bits(lines: Lines) -> None:
    rng = np.random.default_rng(0)
    shape = (2, 15, 11, 20)
    tiles, count, seen = numbers(lines, shape)
    x = rng.standard_normal((2, *seen, 20)).astype("f4")
    y = rng.standard_normal((2 * tiles[0] * tiles[1], count, 20)).astype("f4")
    for primitive, array, made in (("winograd_input", x, y.shape), ("winograd_output", y, shape)):
        whole, *others = (run(primitive, [array], [("float32", made)], attributes(lines), n)[0] for n in (1, 2, 8))
        for parts in others:
            assert_array_equal(parts.view("u4"), whole.view("u4"))


def whole(
    lines: Lines, shape: tuple[int, int, int, int], channels: int, target: str = "v8", pieces: Sequence[int] = (1,)
) -> tuple[list[np.ndarray], np.ndarray]:
    """Results of all at once, with units in so many pieces, and those that are expected; sizes are parameters."""
    rng = np.random.default_rng((*shape, channels))
    _, _, seen = numbers(lines, shape)
    nr, made = tile.panel_width(target), shape[3]
    x = rng.standard_normal((shape[0], *seen, channels)).astype("f4")
    w = rng.standard_normal((lines[0].taps * lines[1].taps, channels, made)).astype("f4")
    u = np.einsum("pt,tcm->pcm", weight_transform(*lines), w)
    filled = np.zeros((len(u), channels, -(-made // nr) * nr), "f4")
    filled[:, :, :made] = u
    packed = np.moveaxis(filled.reshape(len(u), channels, -1, nr), 2, 1).copy()
    given = (("p0", "p1", "p2", channels), packed.shape), (("p0", "p3", "p4", made),)
    params = {"n": made, "nr": nr, **attributes(lines)}
    types = ("float32", "float32"), ("float32",)
    routine = Compiled("conv_winograd", types, *given, params=5, attributes=params, target=target)
    sizes = [shape[0], *seen, *shape[1:3]]
    results = [routine.run([x, packed], [shape], sizes, pieces=n)[0] for n in pieces]
    return results, convolved(lines, shape, x, w)


@pytest.mark.parametrize("lines", LINES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_whole(target: str, lines: Lines) -> None:
    for shape, channels in (((2, 7, 9, 12), 16), ((1, 1, 1, 4), 4), ((3, 14, 5, 33), 7)):
        (result,), expected = whole(lines, shape, channels, target)
        assert np.abs(result - expected).max() < BOUND * np.abs(expected).max()


@pytest.mark.parametrize("lines", [*SQUARE, (Filter(4, 3, 2), Filter(4, 3, 2)), (NONE, Filter(4, 3))], ids=str)
@pytest.mark.parametrize(("channels", "made"), [(8, 9), (70, 129), (128, 200)])
def test_bands(lines: Lines, channels: int, made: int) -> None:
    """Tiles go in several bands, channels that are made too; neither nor threads change a bit."""
    shape = (2, 33, 41, made)
    (result, *others), expected = whole(lines, shape, channels, pieces=(1, 2, 7))
    assert np.abs(result - expected).max() < BOUND * np.abs(expected).max()
    for other in others:
        assert_array_equal(other.view("u4"), result.view("u4"))


def test_bands_have_whole_vectors() -> None:
    lines = Filter(4, 3, 2), Filter(4, 3, 2)
    for made in range(4, 300):
        tiles, columns = band(lines, 64, made)
        assert tiles > 12
        assert made % columns == 0 or made % columns >= 4
    assert band(lines, 4000, 4000).tiles == 0


@pytest.mark.parametrize("shape", [(0, 4, 4, 8), (1, 0, 4, 8), (1, 4, 0, 8), (1, 4, 4, 0)])
@pytest.mark.parametrize("lines", [*SQUARE, (Filter(4, 3, 2), NONE), (Filter(4, 3, dilation=3), NONE)], ids=str)
def test_nothing_to_do(lines: Lines, shape: tuple[int, int, int, int]) -> None:
    tiles, count, seen = numbers(lines, shape)
    planes = (shape[0] * tiles[0] * tiles[1], count, shape[3])
    x = np.ones((shape[0], *seen, shape[3]), "f4")
    assert run("winograd_input", [x], [("float32", planes)], attributes(lines))[0].size == 0
    assert run("winograd_output", [np.ones(planes, "f4")], [("float32", shape)], attributes(lines))[0].size == 0


@pytest.mark.parametrize("line", dict.fromkeys(line for lines in LINES for line in lines), ids=str)
def test_matrices(line: Filter) -> None:
    """y = A' [(G g) * (B' d)], by 64 bits; equal rows of G come last."""
    b, g, a = (np.array(matrix) for matrix in line.matrices())
    rng = np.random.default_rng(0)
    elements, taps = rng.standard_normal(line.span), rng.standard_normal(line.taps)
    seen = sliding_window_view(elements, line.taps)[:: line.stride]
    assert_allclose(a @ ((g @ taps) * (b @ elements)), seen @ taps, rtol=1e-12, atol=1e-12)
    assert_array_equal(g[line.weights :], np.broadcast_to(g[line.weights - 1], g[line.weights :].shape))
    assert_array_equal(np.array(b, "f4"), b)
    assert_array_equal(np.array(a, "f4"), a)
