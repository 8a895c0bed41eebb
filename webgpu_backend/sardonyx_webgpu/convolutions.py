"""Legalization of convolutions of floats, of images with their channels last.

Routines leave out what is beyond the border of an image, so that nothing writes zeros around it. Weights are put into
the order that routines read by movement: what depends on weights alone runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product as combinations
from math import prod
from typing import Any, NamedTuple

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation, constant
from sardonyx.compiler.sizes import Parameter
from sardonyx.legalization.beside import beside
from sardonyx.legalization.channels_last import ChannelsLast, are_floats
from sardonyx.legalization.filtering import POINTS, Filter, choices, moved, weight_transform
from sardonyx.symbolic import Size, hint, product, same, same_shape
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.products import matmul, tile

_MOVED = 4.5
"""An element that a transform reads or writes, in multiplications."""
_WEIGHT = 2
"""An element of a matrix, read anew for a few tiles."""
_LAUNCHED = 100_000
"""A dispatch."""
_LARGEST = 1 << 25
"""Elements between products and transforms that every device binds as one buffer."""
_UNROLLED = 320
"""Most multiplications of fours that are written out in a shader."""


class _Window(NamedTuple):
    """What is done along the spatial axes, as `conv_general` has it."""

    strides: Sequence[int]
    dilations: Sequence[int]
    spread: Sequence[int]
    low: Sequence[Size]

    @property
    def is_dense(self) -> bool:
        """Whether neighbours see neighbours."""
        return all(step == 1 for step in (*self.strides, *self.spread))


def conv_general(legalizer: ChannelsLast, equation: Equation) -> bool:
    """conv_general of floats -> conv, depthwise, Winograd's algorithm or a product"""
    x, w = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    window = _Window(*(params[name] for name in _Window._fields))
    if not all(isinstance(size, int) for size in w.shape) or hint(output.size) == 0 or not are_floats(x, w):
        return False
    if prod(window.strides) > 1 and prod(window.spread) > 1:
        return False
    is_new = not legalizer.is_image(x)
    image = legalizer.last(x)
    if is_new and int(w.shape[1]) % 4 == 3 and params["groups"] == 1:  # whoever writes the image writes whole fours
        image, w = _filled(image, x.rank - 1), _filled(w, 1)
    shape = [output.shape[0], *output.shape[2:], output.shape[1]]
    made = _convolved(legalizer, image, w, shape, params["groups"], window)
    legalizer.define_last(output, p.cast(made, output.dtype))
    return True


def _convolved(
    legalizer: ChannelsLast, image: Array, w: Array, shape: Sequence[Size], groups: int, window: _Window
) -> Array:
    """The convolution of an image [B, *size, C] with w [M, C / groups, *taps] to this shape [B, *out, M]."""
    made, channels, *taps = map(int, w.shape)
    if groups == 1 and (found := _as_product(legalizer, image, w, shape, window)) is not None:
        return found
    if groups > 1 and channels == 1 and (found := _depthwise(legalizer, image, w, shape, window)) is not None:
        return found
    if groups == 1 and len(taps) < 3 and (lines := _lines(legalizer, w, shape, window)) is not None:
        return _by_winograd(legalizer, image, w, shape, window, lines)
    if groups == 1 and (widened := _beside(w, shape, window)) is not None:
        w, wide, window = widened
        return p.reshape(_convolved(legalizer, image, w, wide, 1, window), shape)
    kind = "one" if groups == 1 else "whole" if made // groups % 4 == 0 else "mixed"
    places = product([shape[0], *((size + step - 1) // step for size, step in zip(shape[1:-1], window.spread))])
    rows, quads = tile(hint(places), made // groups)
    params: dict[str, Any] = {name: _parameters(sizes) for name, sizes in window._asdict().items()}
    params |= {"spread": window.spread, "groups": kind, "tile": (rows, 1 if kind == "mixed" else quads)}
    weights = _filled(p.transpose(w, [*range(2, w.rank), 1, 0]), w.rank - 1)
    return legalizer.record(own.CONV, [image, weights], params, dtypes.float32, tuple(shape))


def _parameters(sizes: Sequence[Size]) -> list[Size]:
    """Sizes that code does not depend on."""
    return [Parameter(size) if isinstance(size, int) else size for size in sizes]


def _filled(x: Array, axis: int) -> Array:
    """An Array with zeros that make an axis a multiple of four."""
    high = [0] * x.rank
    high[axis] = -int(x.shape[axis]) % 4
    return p.pad(x, [0] * x.rank, high)


def _beside(w: Array, shape: Sequence[Size], window: _Window) -> tuple[Array, list[Size], _Window] | None:
    """Weights, shape and window for some outputs side by side, where that fills fours of channels."""
    made, _, *taps = map(int, w.shape)
    axis, size = len(taps) - 1, shape[-2]
    if made > 2 or taps[axis] == 1 or window.dilations[axis] > 1 or prod(window.spread) > 1:
        return None
    counts = [count for count in (8 // made, 4 // made) if isinstance(size, int) and size % count == 0]
    if not counts:
        return None
    step, count = window.strides[axis], counts[0]
    strides = [*window.strides[:-1], step * count]
    sizes = [*shape[:-2], size // count, made * count]
    return beside(w, axis, count, step), sizes, window._replace(strides=strides)


def _as_product(
    legalizer: ChannelsLast, image: Array, w: Array, shape: Sequence[Size], window: _Window
) -> Array | None:
    """A product of matrices, where windows are places, or each is the whole image."""
    made, _, *taps = map(int, w.shape)
    if prod(window.spread) > 1 or any(not same(border, 0) for border in window.low):
        return None
    if prod(taps) == prod(window.strides) == 1 and same_shape(image.shape[:-1], shape[:-1]):
        rows = product(shape[:-1])
    elif same_shape(image.shape[1:-1], taps) and all(same(size, 1) for size in shape[1:-1]):
        rows = shape[0]
    else:
        return None
    depth = prod(map(int, w.shape[1:]))
    matrix = p.reshape(p.transpose(w, [*range(2, w.rank), 1, 0]), [depth, made])
    return p.reshape(matmul(legalizer, p.reshape(image, [rows, depth]), matrix, dtypes.float32), shape)


def _depthwise(legalizer: ChannelsLast, image: Array, w: Array, shape: Sequence[Size], window: _Window) -> Array | None:
    """A convolution of each channel, if it has not too many taps."""
    made, _, *taps = map(int, w.shape)
    if len(taps) > 2 or prod(window.spread) > 1:
        return None
    flat = [1] * (2 - len(taps))
    sizes = [*flat, *(hint(size) for size in shape[1:-1])]
    fits = [
        (min(rows, sizes[0]), min(columns, sizes[1]))
        for rows, columns in ((4, 4), (2, 4), (1, 8), (1, 4), (1, 2), (1, 1))
        if min(rows, sizes[0]) * min(columns, sizes[1]) * prod(taps) <= _UNROLLED
    ]
    if not fits:
        return None
    params = {
        "kernel": (*flat, *taps),
        "strides": (*flat, *window.strides),
        "dilations": (*flat, *window.dilations),
        "low": _parameters([*[0] * len(flat), *window.low]),
        "tile": fits[0],
        "multiplier": made // int(image.shape[-1]),
    }
    x = p.reshape(image, [image.shape[0], *flat, *image.shape[1:]])
    weights = _filled(p.reshape(p.transpose(w, [*range(2, w.rank), 0, 1]), [*flat, *taps, made]), 2)
    flat_shape = (shape[0], *flat, *shape[1:])
    return p.reshape(legalizer.record(own.DEPTHWISE, [x, weights], params, dtypes.float32, flat_shape), shape)


def _lines(legalizer: ChannelsLast, w: Array, shape: Sequence[Size], window: _Window) -> tuple[Filter, Filter] | None:
    """The filters with which a convolution is fastest, if any."""
    made, channels, *taps = map(int, w.shape)
    if prod(window.spread) > 1 or not legalizer.is_constant(w):
        return None
    flat = [1] * (2 - len(taps))
    axes = tuple(zip((*taps, *flat), (*window.strides, *flat), (*window.dilations, *flat), strict=True))
    sizes = [*map(hint, shape[:-1]), *flat]
    return _fastest((sizes[0], sizes[1], sizes[2]), channels, made, axes)


@cache
def _fastest(
    places: tuple[int, int, int], channels: int, made: int, axes: tuple[tuple[int, int, int], ...]
) -> tuple[Filter, Filter] | None:
    """The filters for axes of so many taps, with such strides and dilations.

    >>> _fastest((1, 56, 56), 64, 64, ((3, 1, 1), (3, 1, 1)))
    (Filter(outputs=4, taps=3, stride=1, dilation=1), Filter(outputs=4, taps=3, stride=1, dilation=1))
    >>> _fastest((1, 56, 56), 3, 64, ((3, 1, 1), (3, 1, 1)))
    """
    kernel = [taps for taps, _, _ in axes]
    if prod(kernel) == 1 or min(channels, made) < 4:
        return None
    best: tuple[float, tuple[Filter, Filter] | None] = (prod(places) * prod(kernel) * channels * made, None)
    for down, across in combinations(*(choices(*axis, POINTS[1 in kernel]) for axis in axes)):
        if 1 not in kernel and down.outputs != across.outputs:
            continue
        count, products = places[0] * down.tiles(places[1]) * across.tiles(places[2]), down.places * across.places
        if count * products * max(channels, made) > _LARGEST:
            continue
        before, after = moved(down, across)
        cost = products * (max(count, 4) + _WEIGHT) * channels * made
        cost += _MOVED * count * (before * channels + after * made) + 2 * _LAUNCHED
        best = min(best, (cost, (down, across)), key=lambda way: way[0])
    return best[1]


def _by_winograd(
    legalizer: ChannelsLast,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    window: _Window,
    lines: tuple[Filter, Filter],
) -> Array:
    """A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015)."""
    made, channels, *taps = map(int, w.shape)
    flat = [1] * (2 - len(taps))
    x = p.reshape(image, [*image.shape[:-1], *flat, image.shape[-1]])
    tiles = (shape[0], *(line.tiles(size) for line, size in zip(lines, [*shape[1:-1], *flat], strict=True)))
    names = ("tile", "kernel", "strides", "apart")
    params: dict[str, Any] = dict(zip(names, zip(*lines, strict=True), strict=True))
    params |= {"apart": _parameters(params["apart"]), "dilations": (1, 1), "tiles": _parameters(tiles)}
    places = lines[0].places * lines[1].places
    width = channels + -channels % 4
    v = legalizer.record(
        own.WINOGRAD_INPUT,
        [x],
        {**params, "low": _parameters([*window.low, *[0] * len(flat)])},
        dtypes.float32,
        (places, product(tiles), width),
    )
    kernels = _filled(_filled(p.reshape(p.cast(w, dtypes.float32), [made, channels, prod(taps)]), 0), 1)
    transform = constant(weight_transform(*lines, repeated=True), dtypes.float32)
    u = p.transpose(p.dot_general(transform, kernels, ([1], [2])), [0, 2, 1])
    y = matmul(legalizer, v, u, dtypes.float32)
    wide = (*shape[:-1], *flat, shape[-1])
    result = legalizer.record(own.WINOGRAD_OUTPUT, [y], params, dtypes.float32, wide)
    return p.reshape(result, shape)
