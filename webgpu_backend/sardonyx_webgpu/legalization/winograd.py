"""Winograd's algorithm: whether a convolution is faster by it, and what it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product as combinations
from math import prod
from typing import Any

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.channels_last import ChannelsLast
from sardonyx.compiler.legalization.filtering import POINTS, Filter, choices, moved
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size, hint, product
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.legalization.products import matmul
from sardonyx_webgpu.legalization.window import Window, filled, parameters

_MOVED = 4.5
"""An element that a transform reads or writes, in multiplications."""
_WEIGHT = 2
"""An element of a matrix, read anew for a few tiles."""
_LAUNCHED = 100_000
"""A dispatch."""
_LARGEST = 1 << 25
"""Elements between products and transforms that every device binds as one buffer."""


def fastest(legalizer: ChannelsLast, w: Array, shape: Sequence[Size], window: Window) -> tuple[Filter, Filter] | None:
    """The filters with which a convolution is fastest, if any."""
    maps, channels, *taps = map(int, w.shape)
    if prod(window.spread) > 1 or not legalizer.is_constant(w):
        return None
    flat = [1] * (2 - len(taps))
    axes = tuple(zip((*taps, *flat), (*window.strides, *flat), (*window.dilations, *flat), strict=True))
    sizes = [*map(hint, shape[:-1]), *flat]
    return _chosen((sizes[0], sizes[1], sizes[2]), channels, maps, axes)


@cache
def _chosen(
    places: tuple[int, int, int], channels: int, maps: int, axes: tuple[tuple[int, int, int], ...]
) -> tuple[Filter, Filter] | None:
    """The filters for axes of so many taps, with such strides and dilations.

    >>> _chosen((1, 56, 56), 64, 64, ((3, 1, 1), (3, 1, 1)))
    (Filter(outputs=4, taps=3, stride=1, dilation=1), Filter(outputs=4, taps=3, stride=1, dilation=1))
    >>> _chosen((1, 56, 56), 3, 64, ((3, 1, 1), (3, 1, 1)))
    >>> _chosen((1, 28, 28), 128, 128, ((3, 2, 1), (3, 2, 1)))
    """
    kernel = [taps for taps, _, _ in axes]
    # Tiles of strides have up to 81 places: they gain a hundredth of ResNet-50, and compile for a second.
    if prod(kernel) == 1 or min(channels, maps) < 4 or any(stride > 1 for _, stride, _ in axes):
        return None
    best: tuple[float, tuple[Filter, Filter] | None] = (prod(places) * prod(kernel) * channels * maps, None)
    for down, across in combinations(*(choices(*axis, POINTS[1 in kernel]) for axis in axes)):
        if 1 not in kernel and down.outputs != across.outputs:
            continue
        count, products = places[0] * down.tiles(places[1]) * across.tiles(places[2]), down.places * across.places
        if count * products * max(channels, maps) > _LARGEST:
            continue
        before, after = moved(down, across)
        cost = products * (max(count, 4) + _WEIGHT) * channels * maps
        cost += _MOVED * count * (before * channels + after * maps) + 2 * _LAUNCHED
        best = min(best, (cost, (down, across)), key=lambda way: way[0])
    return best[1]


def by_winograd(
    legalizer: ChannelsLast,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    window: Window,
    lines: tuple[Filter, Filter],
) -> Array:
    """A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015)."""
    maps, channels, *taps = map(int, w.shape)
    flat = [1] * (2 - len(taps))
    x = p.reshape(image, [*image.shape[:-1], *flat, image.shape[-1]])
    tiles = (shape[0], *(line.tiles(size) for line, size in zip(lines, [*shape[1:-1], *flat], strict=True)))
    names = ("tile", "kernel", "strides", "apart")
    params: dict[str, Any] = dict(zip(names, zip(*lines, strict=True), strict=True))
    params |= {"apart": parameters(params["apart"]), "dilations": (1, 1), "tiles": parameters(tiles)}
    places = lines[0].places * lines[1].places
    width = channels + -channels % 4
    v = legalizer.record(
        own.WINOGRAD_INPUT,
        [x],
        {**params, "low": parameters([*window.low, *[0] * len(flat)])},
        dtypes.float32,
        (places, product(tiles), width),
    )
    kernels = filled(filled(p.reshape(p.cast(w, dtypes.float32), [maps, channels, prod(taps)]), 0), 1)
    u = legalizer.record(
        own.WINOGRAD_WEIGHTS, [kernels], params, dtypes.float32, (places, *reversed(kernels.shape[:2]))
    )
    y = matmul(legalizer, v, u, dtypes.float32)
    wide = (*shape[:-1], *flat, shape[-1])
    result = legalizer.record(own.WINOGRAD_OUTPUT, [y], params, dtypes.float32, wide)
    return p.reshape(result, shape)
