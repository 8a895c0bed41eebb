"""Legalization of convolutions of floats, of images with their channels last.

Borders are explicit, so that whoever makes an image writes its zeros. Weights are put into the order that routines read
by movement: what depends on weights alone runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.beside import beside
from sardonyx.compiler.legalization.filtering import Filter, weight_transform
from sardonyx.compiler.legalization.phases import interleaved
from sardonyx.compiler.legalization.volumes import is_plane, is_small, planes
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size, hint, maximum, product, same

from .. import primitives as own
from ..device import blas
from .legalizer import Legalizer
from .products import FLOATS, in_panels, matmul, panel_width, precision
from .tiling import Way, Window, fastest

MOST_PHASES = 256
"""Of the outputs of a transposed convolution, each of which is a convolution."""


def conv_general(legalizer: Legalizer, equation: Equation) -> bool:
    """conv_general of floats -> conv_packed, conv_panels, depthwise, Winograd's algorithm or a product"""
    x, w = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    is_sized = all(isinstance(size, int) for size in w.shape) and hint(output.size) > 0
    if not (is_sized and x.dtype in FLOATS and x.rank in (3, 4, 5) and _plain(params)):
        return False
    if prod(params["spread"]) > MOST_PHASES:  # few of them meet a tap
        return False
    taken = precision(output.dtype)
    image, kernel = p.cast(legalizer.last(x), taken), p.cast(w, taken)
    lines = [params["strides"], params["dilations"], params["spread"], params["low"]]
    if flat := x.rank == 3:  # an image of one column: units are rows
        image = p.reshape(image, [*image.shape[:2], 1, image.shape[2]])
        kernel = p.reshape(kernel, [*w.shape, 1])
        lines = [[*line, fill] for fill, line in zip((1, 1, 1, 0), lines, strict=True)]
    shape = [output.shape[0], *output.shape[2:], *([1] * flat), output.shape[1]]
    strides, dilations, spread, low = lines
    if all(step == 1 for step in spread):
        result = convolve(legalizer, image, kernel, shape, params["groups"], strides, dilations, low)
    else:
        result = _transposed(legalizer, image, kernel, shape, params["groups"], spread, dilations, low)
    result = p.cast(result, output.dtype)
    if flat:
        result = p.reshape(result, [*result.shape[:2], result.shape[3]])
    legalizer.define_last(output, result)
    return True


def _transposed(
    legalizer: Legalizer,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    groups: int,
    spread: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[int],
) -> Array:
    """A convolution of an image with zeros between its elements: one without zeros for each phase of the outputs.

    Output s * j + r meets the taps t with d * t = low - r (mod s), d the dilation, at the elements from
    j - (low - r - d * t) / s on. From one such tap to the next it is s / gcd(s, d), and d / gcd(s, d) elements. Phases
    that see the same elements are features side by side.
    """
    sizes = [(size + step - 1) // step for size, step in zip(shape[1:-1], spread, strict=True)]
    rank, ones = len(sizes), [1] * len(sizes)
    common = [gcd(step, dilation) for step, dilation in zip(spread, dilations, strict=True)]
    apart = [step // divisor for step, divisor in zip(spread, common, strict=True)]
    closer = [dilation // divisor for dilation, divisor in zip(dilations, common, strict=True)]
    parts: list[Array | None] = []
    windows: list[tuple[list[int], list[int]]] = []
    for phase in np.ndindex(*spread):
        ahead = [before - r for before, r in zip(low, phase, strict=True)]
        met = [
            [t for t in range(int(n)) if (before - d * t) % s == 0]
            for n, before, d, s in zip(w.shape[2:], ahead, dilations, spread, strict=True)
        ]
        if not all(met):
            parts.append(None)
            windows.append(([], []))
            continue
        first, counts = [taps[0] for taps in met], [len(taps) for taps in met]
        starts = [(b - d * t) // s for b, d, t, s in zip(ahead, dilations, first, spread, strict=True)]
        parts.append(p.slice_(w, [0, 0, *first], [*w.shape[:2], *counts], [1, 1, *apart]))
        windows.append((starts, counts))
    if groups == 1 and None not in parts and all(window == windows[0] for window in windows):
        every = p.concat([part for part in parts if part is not None], 0)
        made = [shape[0], *sizes, len(parts) * shape[-1]]
        together = convolve(legalizer, image, every, made, 1, ones, closer, windows[0][0])
    else:
        made = [shape[0], *sizes, shape[-1]]
        phases = [
            p.full(made, 0.0, image.dtype)
            if part is None
            else convolve(legalizer, image, part, made, groups, ones, closer, starts)
            for part, (starts, _) in zip(parts, windows, strict=True)
        ]
        together = p.concat(phases, rank + 1)
    together = p.reshape(together, [shape[0], *sizes, *spread, shape[-1]])
    return p.slice_(interleaved(together), [0] * (rank + 2), shape)


def convolve(
    legalizer: Legalizer,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    groups: int,
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[Size],
    exact: bool = False,
) -> Array:
    """The convolution of an image [B, *spatial, C] with w [M, C / groups, *taps] to this shape [B, *sizes, M].

    `low` are the zeros before the image, whose elements are left out where they are negative. An `exact` one of
    integers has no other numbers on the way; nor has one of float64, since tiles are of float32.
    """
    exact = exact or image.dtype is dtypes.float64
    features, channels, *taps = map(int, w.shape)
    window = {"kernel": tuple(taps), "strides": tuple(strides), "dilations": tuple(dilations)}
    image, low = trimmed(image, low)
    if len(taps) == 3 and _by_planes(legalizer, shape, channels, features, groups, window, low, exact):
        depth = (shape[1] - 1) * strides[0] + (taps[0] - 1) * dilations[0] + 1
        volume = bordered(image, [low[0], 0, 0], [depth, *image.shape[2:-1]])
        image, w = planes(volume, w, shape[1], strides[0], dilations[0])
        flat = [image.shape[0], *shape[2:]]
        made_flat = convolve(legalizer, image, w, flat, groups, strides[1:], dilations[1:], low[1:], exact)
        return p.reshape(made_flat, shape)
    if channels == 1 and groups > 1:
        padded = bordered(image, low, _seen(shape, window))
        if features > groups:
            every = (*padded.shape[:-1], groups, features // groups)
            repeated = p.broadcast_to(p.unsqueeze(padded, [padded.rank]), every)
            padded = p.reshape(repeated, (*padded.shape[:-1], features))
        taps_first = p.transpose(p.reshape(w, [features, prod(taps)]), [1, 0])
        return legalizer.record(own.DEPTHWISE, [padded, taps_first], window, image.dtype, tuple(shape))
    if groups > 1 or prod(taps) == 1 or len(taps) == 3 or not legalizer.is_constant(w):
        return _direct(legalizer, image, w, shape, groups, window, low)
    if whole := _seen_whole(legalizer, image, w, shape, window, low, exact):
        k = 2 - whole
        image, w = _as_line(image, w, whole)
        line = [shape[0], shape[1 + k], 1, features]
        made = convolve(legalizer, image, w, line, 1, [strides[k], 1], [dilations[k], 1], [low[k], 0], exact)
        return p.reshape(made, shape)
    axis = 0 if isinstance(shape[2], int) and shape[2] == 1 else 1
    plane = Window((taps[0], taps[1]), (strides[0], strides[1]), (dilations[0], dilations[1]))
    way = _way(legalizer, shape, channels, features, plane, axis, exact)
    return _convolved(legalizer, image, w, shape, plane, low, way, axis)


def _way(
    legalizer: Legalizer, shape: Sequence[Size], channels: int, features: int, window: Window, axis: int, exact: bool
) -> Way:
    """How to do a convolution of an image."""
    places = (hint(shape[0]), hint(shape[1]), hint(shape[2]))
    return fastest(legalizer.target, places, channels, features, window, axis, exact)


def _seen_whole(
    legalizer: Legalizer,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    window: dict[str, Any],
    low: Sequence[Size],
    exact: bool,
) -> int:
    """The axis of an image of which the only window sees all, 0 if none; where tiles pay along the other axis."""
    features, channels, *taps = map(int, w.shape)
    for axis, (here, k) in {2: (1, 0), 1: (0, 1)}.items():
        is_one = same(shape[axis], 1) and same(image.shape[axis], taps[here]) and same(low[here], 0)
        if is_one and taps[here] > 1 and taps[k] > 1 and window["dilations"][here] == 1:
            line = Window(*((axes[k], 1) for axes in window.values()))
            if _way(legalizer, [shape[0], shape[1 + k], 1], taps[here] * channels, features, line, 0, exact).filters:
                return axis
    return 0


def _as_line(image: Array, w: Array, axis: int) -> tuple[Array, Array]:
    """An image of one column, whose channels are all that the image has along an axis, and weights for that."""
    features, channels, *taps = map(int, w.shape)
    across = taps[axis - 1]
    turned = p.transpose(image, [0, 3 - axis, axis, 3])
    column = p.reshape(turned, [*turned.shape[:2], 1, across * channels])
    ordered = p.transpose(w, [0, axis + 1, 1, 4 - axis])
    return column, p.reshape(ordered, [features, across * channels, taps[2 - axis], 1])


def _seen(shape: Sequence[Size], window: dict[str, Any]) -> list[Size]:
    """How much of an image windows see along each axis."""
    return [
        (size - 1) * stride + (n - 1) * step + 1
        for size, n, stride, step in zip(shape[1:-1], *window.values(), strict=True)
    ]


def _direct(
    legalizer: Legalizer,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    groups: int,
    window: dict[str, Any],
    low: Sequence[Size],
) -> Array:
    """One product, with all that the windows see, or one for each group."""
    padded = bordered(image, low, _seen(shape, window))
    features, channels, *taps = map(int, w.shape)
    here = legalizer.target == "v8" and (prod(taps) > 1 or prod(window["strides"]) > 1)
    if groups == 1 and not here:
        return _by_columns(legalizer, padded, w, shape, window)
    if groups > 1 and (result := _by_groups(legalizer, padded, w, shape, window, groups)) is not None:
        return result
    per_group, width = features // groups, legalizer.width(padded.dtype)
    weights = p.reshape(w, [groups, per_group, channels, prod(taps)])
    weights = p.reshape(p.transpose(weights, [0, 3, 2, 1]), [groups, prod(taps) * channels, per_group])
    packed = in_panels(weights, width)
    panels = p.reshape(packed, [product(packed.shape[:2]), *packed.shape[2:]])
    params = {**window, "groups": groups, "m": features, "nr": width}
    return legalizer.record(own.CONV_PACKED, [padded, panels], params, padded.dtype, tuple(shape))


def _by_columns(legalizer: Legalizer, padded: Array, w: Array, shape: Sequence[Size], window: dict[str, Any]) -> Array:
    """One product with all that the windows see, side by side (im2col)."""
    features, depth = int(w.shape[0]), prod(map(int, w.shape[1:]))
    matrix = p.reshape(p.transpose(w, [*range(2, w.rank), 1, 0]), [depth, features])
    single = prod(window["kernel"]) == 1
    if single and prod(window["strides"]) == 1:
        return matmul(legalizer, p.slice_(padded, [0] * w.rank, [*shape[:-1], depth]), matrix, padded.dtype)
    is_large = legalizer.target == "wasmtime" and hint(product(shape)) * depth >= blas.FEWEST
    whole = features if is_large and not blas.in_blocks() else 0  # as it is, but band by band
    if nr := panel_width(legalizer, shape[:-1], matrix) or whole:
        params = {**window, "n": features, "nr": nr}
        return legalizer.record(own.CONV_PANELS, [padded, in_panels(matrix, nr)], params, padded.dtype, tuple(shape))
    if single:
        columns = p.slice_(padded, [0] * w.rank, [*shape[:-1], depth], [1, *window["strides"], 1])
    else:
        columns = legalizer.record(own.IM2COL, [padded], window, padded.dtype, (*shape[:-1], depth))
    return matmul(legalizer, columns, matrix, padded.dtype)


def _by_groups(
    legalizer: Legalizer, padded: Array, w: Array, shape: Sequence[Size], window: dict[str, Any], groups: int
) -> Array | None:
    """Tiles of four channels where groups make no more; natively a product for each group, if that is large enough."""
    features, channels, *taps = map(int, w.shape)
    per_group, depth = features // groups, prod(taps) * channels
    lanes = own.CONV_GROUPED.lanes
    direct = per_group == lanes and taps[-1] <= own.DEPTHWISE.taps and padded.dtype is dtypes.float32
    natively = legalizer.target == "wasmtime" and hint(product(shape)) * depth >= blas.FEWEST
    if natively and not (direct and channels <= lanes):
        columns = p.reshape(p.transpose(w, [0, *range(2, w.rank), 1]), [groups, per_group, depth])
        nr = blas.panel_width(depth, per_group, hint(product(shape[:-1])), padded.dtype.itemsize) or per_group
        panels = in_panels(p.transpose(columns, [0, 2, 1]), nr)
        params = {**window, "groups": groups, "n": features, "nr": nr}
        return legalizer.record(own.CONV_PANELS, [padded, panels], params, padded.dtype, tuple(shape))
    if direct:
        lines = p.reshape(w, [features // lanes, lanes, channels, prod(taps[:-1]), taps[-1]])
        lanes_last = p.transpose(lines, [0, 3, 2, 4, 1])
        params = {**window, "groups": groups}
        return legalizer.record(own.CONV_GROUPED, [padded, lanes_last], params, dtypes.float32, tuple(shape))
    return None


def _by_planes(
    legalizer: Legalizer,
    shape: Sequence[Size],
    channels: int,
    features: int,
    groups: int,
    window: dict[str, Any],
    low: Sequence[Size],
    exact: bool,
) -> bool:
    """Whether the planes of a volume are better images: where Winograd's algorithm pays for them, or one is seen."""
    if prod(window["kernel"]) == 1:
        return False
    if is_plane(window["kernel"], window["strides"], low):
        return True
    channels *= window["kernel"][0]
    if exact or groups > 1 or not is_small(shape, channels):
        return False
    inner = Window(**{name: axes[1:] for name, axes in window.items()})
    return _way(legalizer, [product(shape[:2]), *shape[2:]], channels, features, inner, 1, exact).filters is not None


def _convolved(
    legalizer: Legalizer,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    window: Window,
    low: Sequence[Size],
    way: Way,
    axis: int,
) -> Array:
    """Some outputs side by side, rows with all that their windows see, tiles: what of that is `fastest`."""
    w, window, wide = widened(w, window, shape, axis, way.beside)
    if way.columns and way.filters:
        rows = way.filters[0].seen(way.filters[0].tiles(shape[1]))
        image, low = bordered(image, low, [rows, _seen(wide, window._asdict())[1]]), [0, 0]
        image, w = _in_columns(legalizer, image, w, wide, window)
    if way.filters:
        result = _by_winograd(legalizer, image, w, wide, low, way.filters)
    else:
        result = _direct(legalizer, image, w, wide, 1, window._asdict(), low)
    return apart(result, shape, axis, way.beside)


def widened(w: Array, window: Window, shape: Sequence[Size], axis: int, count: int) -> tuple[Array, Window, list[Size]]:
    """Weights, window and the shape of results [B, H, W, M], so many neighbours along an axis being features."""
    wide = [*shape]
    if count > 1:
        w, window = beside(w, axis, count, window.strides[axis]), window.beside(axis, count)
        wide[1 + axis], wide[3] = (shape[1 + axis] + (count - 1)) // count, count * shape[3]
    return w, window, wide


def apart(result: Array, shape: Sequence[Size], axis: int, count: int) -> Array:
    """The results [B, H, W, M], of which so many neighbours along an axis were features."""
    if count == 1:
        return result
    split = p.reshape(result, [*result.shape[:3], count, shape[3]])
    split = p.transpose(split, [0, 1, 3, 2, 4]) if axis == 0 else split
    every = [*result.shape[:3], shape[3]]
    every[1 + axis] = every[1 + axis] * count
    return p.slice_(p.reshape(split, every), [0] * 4, shape)


def _in_columns(
    legalizer: Legalizer, image: Array, w: Array, shape: Sequence[Size], window: Window
) -> tuple[Array, Array]:
    """The image, bordered, with what the windows see along a row as its channels, and weights for that."""
    features, channels, high, wide = map(int, w.shape)
    params = {"kernel": (1, wide), "strides": (1, window.strides[1]), "dilations": (1, window.dilations[1])}
    sizes = (shape[0], image.shape[1], shape[2], wide * channels)
    columns = legalizer.record(own.IM2COL, [image], params, dtypes.float32, sizes)
    return columns, p.reshape(p.transpose(w, [0, 3, 1, 2]), [features, wide * channels, high, 1])


def _by_winograd(
    legalizer: Legalizer, image: Array, w: Array, shape: Sequence[Size], low: Sequence[Size], lines: Sequence[Filter]
) -> Array:
    """A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015)."""
    features, channels, *taps = map(int, w.shape)
    tiles = [line.tiles(size) for line, size in zip(lines, shape[1:3], strict=True)]
    seen = [line.seen(count) for line, count in zip(lines, tiles, strict=True)]
    padded = bordered(image, low, seen)
    if all(isinstance(size, int) for size in (*seen, *padded.shape[1:3])):  # what no window sees may be large
        padded = p.slice_(padded, [0] * 4, [padded.shape[0], *seen, channels])
    names = ("tile", "kernel", "strides", "dilations")
    params: dict[str, Any] = dict(zip(names, zip(*lines, strict=True), strict=True))
    nr = legalizer.width(dtypes.float32)
    if legalizer.target == "wasmtime":
        nr = blas.panel_width(channels, features, hint(product([shape[0], *tiles]))) or features
    params |= {"n": features, "nr": nr}
    matrices = p.reshape(p.transpose(w, [2, 3, 1, 0]), [prod(taps), channels, features])
    panels = _transformed(legalizer, in_panels(matrices, nr), lines)
    return legalizer.record(own.CONV_WINOGRAD, [padded, panels], params, dtypes.float32, tuple(shape))


def _transformed(legalizer: Legalizer, panels: Array, lines: Sequence[Filter]) -> Array:
    """Panels of weights, tap by tap, as those of tiles, place by place, of which there are more."""
    down, across = lines
    transform = constant(weight_transform(down, across), dtypes.float32)
    taps, *panel = panels.shape
    flat = p.reshape(panels, [taps, product(panel)])
    shape = (transform.shape[0], flat.shape[1])
    return p.reshape(legalizer.record(own.MATMUL, [transform, flat], {}, dtypes.float32, shape), [shape[0], *panel])


def _plain(params: dict[str, Any]) -> bool:
    """Whether a convolution is one that `_transposed` or `convolve` can do."""
    low, spread = params["low"], params["spread"]
    if all(step == 1 for step in spread):
        return True
    return all(step == 1 for step in params["strides"]) and all(isinstance(before, int) for before in low)


def trimmed(image: Array, low: Sequence[Size]) -> tuple[Array, list[Size]]:
    """The image without what lies before the first window, and borders that are not negative."""
    starts = [max(0, -before) if isinstance(before, int) else 0 for before in low]
    if any(starts):
        rest = [size - start for size, start in zip(image.shape[1:-1], starts, strict=True)]
        image = p.slice_(image, [0, *starts, 0], [image.shape[0], *rest, image.shape[-1]])
    return image, [before + start for before, start in zip(low, starts, strict=True)]


def bordered(image: Array, low: Sequence[Size], seen: Sequence[Size]) -> Array:
    """The image with zeros before it, and behind it as many as make it at least as large as what is `seen`."""
    gaps = [total - size - before for total, size, before in zip(seen, image.shape[1:-1], low, strict=True)]
    high = [max(0, gap) if isinstance(gap, int) else maximum(gap, 0) for gap in gaps]
    return p.pad(image, [0, *low, 0], [0, *high, 0])
