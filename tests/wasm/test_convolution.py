"""Convolutions of channels-last activations against float64: kernels, strides, dilations, groups, edges of tiles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.testing import assert_array_equal

from sardonyx_wasm.routines import tile
from tests.support import require
from tests.wasm.compiled import PLAIN, RELAXED, Array, run

TARGETS = sorted(tile.SHAPES)
# kernel, strides, dilations
WINDOWS = [
    ((1, 1), (1, 1), (1, 1)), ((3, 3), (1, 1), (1, 1)), ((3, 3), (2, 2), (1, 1)), ((5, 5), (1, 1), (1, 1)),
    ((2, 3), (1, 2), (2, 1)), ((3, 2), (2, 1), (1, 3)), ((1, 9), (1, 1), (1, 1)), ((4, 15), (3, 2), (1, 2)),
]  # fmt: skip

require("wasm")


@pytest.fixture(autouse=True)
def no_cache_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", "0")


def random(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype("f4")


def source(batch: int, rows: int, columns: int, channels: int, window: Any) -> Array:
    """An x that is just large enough for so many rows and columns of outputs."""
    sizes = [
        (count - 1) * stride + (taps - 1) * step + 1 for count, taps, stride, step in zip((rows, columns), *window)
    ]
    return random(batch, *sizes, channels)


def seen(x: Array, window: Any) -> Array:
    """What the taps see: [B, Ho, Wo, C, kh, kw] in float64."""
    kernel, (down, across), (high, wide) = window
    extents = [(taps - 1) * step + 1 for taps, step in zip(kernel, (high, wide))]
    views = sliding_window_view(x.astype(float), extents, (1, 2))
    return views[:, ::down, ::across, :, ::high, ::wide]


def one(primitive: str, arrays: list[Array], shape: tuple[int, ...], given: dict[str, Any], **more: Any) -> Array:
    """The result of a routine that has one, of float32."""
    return run(primitive, arrays, [("float32", shape)], given, **more)[0]


def attributes(window: Any, **more: Any) -> dict[str, Any]:
    return dict(zip(("kernel", "strides", "dilations"), map(list, window))) | more


def close(result: Array, views: Array, w: Array, terms: str) -> None:
    """The error of a sum grows with what was added."""
    expected, bound = (np.einsum(terms, f(views), f(w.astype(float))) for f in (np.asarray, np.abs))
    error = np.abs(result.reshape(expected.shape) - expected)
    assert (error <= np.prod(w.shape[:-1]) * 2.0**-23 * bound).all()


# ---- depthwise


def check_depthwise(batch: int, rows: int, columns: int, channels: int, window: Any, target: str, **more: Any) -> None:
    x, w = source(batch, rows, columns, channels, window), random(*window[0], channels)
    weights = w.reshape(-1, channels)
    shape = (batch, rows, columns, channels)
    result = one("depthwise", [x, weights], shape, attributes(window), target=target, **more)
    close(result, seen(x, window), w, "bijckl,klc->bijc")


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_depthwise(target: str, window: Any) -> None:
    for columns, channels in ((1, 4), (3, 6), (6, 3), (7, 8)):
        check_depthwise(2, 3, columns, channels, window, target)


@pytest.mark.parametrize("target", TARGETS)
def test_depthwise_sizes(target: str) -> None:
    for columns, channels in itertools.product((1, 2, 4, 5, 8, 9, 14, 17), (1, 2, 5, 7, 8, 9, 16, 33)):
        check_depthwise(1, 2, columns, channels, WINDOWS[1], target)


@pytest.mark.parametrize("target", TARGETS)
def test_depthwise_without_fusion(target: str) -> None:
    for window in WINDOWS[1:3]:
        check_depthwise(1, 5, 9, 10, window, target, features=PLAIN)


@pytest.mark.parametrize("channels", [1, 3, 4, 7, 24])
def test_depthwise_with_open_sizes(channels: int) -> None:
    for batch, rows, columns in ((1, 1, 1), (2, 5, 7), (3, 2, 6)):
        check_depthwise(batch, rows, columns, channels, WINDOWS[2], "v8", open_sizes=True, pieces=2)


# ---- packed


def packed(w: Array, groups: int, target: str) -> Array:
    """w [kh, kw, C / groups, M] -> [groups * ceil(M / groups / nr), kh * kw * C / groups, nr]."""
    nr = tile.panel_width(target)
    made = w.shape[-1] // groups
    panels = -(-made // nr)
    filled = np.zeros((groups, panels * nr, w.size // w.shape[-1]), "f4")
    filled[:, :made] = w.reshape(-1, groups, made).transpose(1, 2, 0)
    return np.ascontiguousarray(filled.reshape(groups * panels, nr, -1).swapaxes(1, 2))


def check_packed(
    shape: tuple[int, int, int, int], channels: int, window: Any, target: str, groups: int = 1, **more: Any
) -> None:
    batch, rows, columns, made = shape
    x, w = source(batch, rows, columns, channels, window), random(*window[0], channels // groups, made)
    given = attributes(window, groups=groups, m=made, nr=tile.panel_width(target))
    result = one("conv_packed", [x, packed(w, groups, target)], shape, given, target=target, **more)
    views = seen(x, window).reshape(batch, rows, columns, groups, channels // groups, *window[0])
    weights = w.reshape(*window[0], channels // groups, groups, made // groups)
    close(result, views, weights, "bijgckl,klcgm->bijgm")


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


# ---- both

# Along one axis: kernel, strides, dilations
LINES = [((5, 1), (1, 1), (1, 1)), ((31, 1), (2, 1), (1, 1)), ((3, 1), (1, 1), (2, 1)), ((1, 1), (3, 1), (1, 1))]


@pytest.mark.parametrize("window", LINES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_lines(target: str, window: Any) -> None:
    """With one column, neighbouring units are done at once."""
    for rows, channels, made in ((1, 4, 8), (14, 6, 5), (67, 1, 12)):
        for pieces in (1, 3):
            check_depthwise(2, rows, 1, channels, window, target, pieces=pieces)
            check_packed((2, rows, 1, made), channels, window, target, pieces=pieces)


@pytest.mark.parametrize("primitive", ["depthwise", "conv_packed"])
@pytest.mark.parametrize("target", TARGETS)
def test_any_split_gives_the_same_bits(primitive: str, target: str) -> None:
    window = WINDOWS[1]
    x = source(2, 9, 11, 12, window)
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
