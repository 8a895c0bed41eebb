"""Winograd's algorithm for convolutions of small integers, exact: three taps by axis, or three and more along one axis,
with what windows see along the other as channels.

A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015); G is multiplied by what makes its
numbers integers, and routines take that back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.filtering import Filter
from sardonyx.compiler.legalization.ranges import bounds
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.sizes import symbolic
from sardonyx.sizes.symbolic import Size, hint

from .. import primitives as own
from ..abi import SCRATCH
from ..device import blas
from .convolutions import apart, bordered, trimmed, widened
from .legalizer import Legalizer
from .products import in_pairs
from .tiling import Window

TAPS = 3
"""Along an axis, or one: what tiles of two axes are for."""


def _eight(taps: int) -> np.ndarray:
    """G of the points 0, 1, -1, 2, -2, 3, -3 and infinity; the routine multiplies 2 and -2 by 2, infinity by 8."""
    points = {0: -20, 1: 15, -1: 15, 2: -3, -2: -3, 3: 1, -3: 1}
    finite = [[number * point**k for k in range(taps)] for point, number in points.items()]
    return np.array([*finite, [0] * (taps - 1) + [90]])


_WEIGHTS = {
    (1, 1): np.array([[1]]),
    (2, 3): np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 1]]),
    (4, 3): np.array([[1, 0, 0], [-1, -1, -1], [-1, 1, -1], [1, 2, 4], [1, -2, 4], [0, 0, 1]]),
    (4, 4): np.array(
        [[-10, 0, 0, 0], [10] * 4, [5, -5, 5, -5], [-5, -10, -20, -40], [-1, 2, -4, 8], [0, 0, 0, 120], [1, 3, 9, 27]]
    ),
    (6, 3): _eight(3),
    (4, 5): _eight(5),
}
"""G of F(m, r), its rows multiplied by what makes them integers (`routines.winograd_int8`)."""
_LOST = {(1, 1): 0, (2, 3): 1, (4, 3): 3, (4, 4): 3, (6, 3): 4, (4, 5): 4}
"""Bits of the results, of 32 with their sign, that are lost on the way back along an axis."""
CHANNELS, FEATURES = 16, 8
"""From so many on, of the image and of results, the algorithm pays."""
_TILES, _ROOM = 4, 3 * SCRATCH // 8
"""The tiles that a band has at least, and how many numbers those that it reads have at most: there is memory for these,
and for what products make of them."""
_BLAS = {True: 2.0, False: 1.2}
"""How many multiplications BLAS does in the time of one, with AVX-512 or without."""
_OPEN = 64
"""The places along an axis of open size, at least, that a convolution is made for."""
_READ, _MOVED, _GATHERED = 10, 8, 2
"""Multiplications that take as long as reading a weight, as transforming an element, or as copying it."""


class Way(NamedTuple):
    """Tiles along both axes. What windows see along a `gathered` axis are channels, so there is one tap along it, and
    of so many neighbours `beside` each other the results are features."""

    down: Filter
    across: Filter
    gathered: int | None = None
    beside: int = 1


def fastest(
    x: Array, w: Array, shape: Sequence[Size], window: Window, largest: int, by_blas: bool = False
) -> Way | None:
    """The tiles that do a convolution [B, H, W, M] fastest; `by_blas` tells that BLAS could do it.

    None if there are few channels, or sums could be too large: up to the `largest`; or the algorithm gains nothing.
    """
    features, channels = map(int, w.shape[:2])
    if max(max(map(abs, bounds(operand))) for operand in (x, w)) > 256:
        return None
    batch, *sizes = hint(shape[0]), *(_likely(size) for size in shape[1:3])
    windows, taps = batch * prod(sizes), prod(window.kernel)
    made = max(features, FEATURES) if by_blas else _panels(features)
    most: float = taps * ((windows + _READ) * channels * made + _MOVED * windows * channels)
    if by_blas and not ({*window.kernel} == {TAPS} and {*window.strides} == {1}):
        most /= _BLAS[blas.in_blocks()]
    found = None
    for way in _choices(window, features):
        pair = way[:2]
        if largest >> 31 - sum(_LOST[line[:2]] for line in pair):
            continue
        wide, depth, places = features * way.beside, channels, prod(line.places for line in pair)
        kernel, here = window.kernel, [*sizes]
        if way.gathered is not None:
            kernel = window.beside(way.gathered, way.beside).kernel
            depth *= kernel[way.gathered]
            here[way.gathered] = -(-here[way.gathered] // way.beside)
        count = batch * prod(line.tiles(size) for line, size in zip(pair, here, strict=True))
        filters = prod(_filters(n, line) for n, line in zip(kernel, pair, strict=True) if line.taps > 1)
        cost = places * (filters * (count + _READ) * depth * _panels(wide) + _MOVED * count * (depth + wide))
        cost += 0 if way.gathered is None else _GATHERED * batch * prod(here) * depth
        if depth >= CHANNELS and cost < most and places * (filters + _TILES) * depth < _ROOM:
            most, found = cost, way
    return found


def _panels(features: int) -> int:
    """The columns that a product has for so many features."""
    width = own.MATMUL_INT8.width(features)
    return -(-features // width) * width


def _likely(size: Size) -> int:
    """The places along an axis: more than in the call at hand if that is small and others may have more, or if the run
    only will tell."""
    return size if isinstance(size, int) else max(hint(size), _OPEN)


def _choices(window: Window, features: int) -> Iterator[Way]:
    """What there is for a window: tiles along both axes, or along one, with all that is seen along the other."""
    kernel, strides, dilations = window
    counts = [count for count in (1, 2, 4, 8) if count * features >= FEATURES and count * features % 4 == 0]
    if {*kernel} == {TAPS} and {*strides} == {1} and 1 in counts:
        for outputs in (2, 4):
            down, across = (Filter(outputs, TAPS, 1, step) for step in dilations)
            yield Way(down, across)
    for axis, other in ((0, 1), (1, 0)):
        if strides[axis] > 1 or kernel[axis] < TAPS:
            continue
        lines = ((2, TAPS), (4, TAPS), (6, TAPS)) if kernel[axis] == TAPS else ((4, 4), (4, 5))
        for (outputs, taps), count in product(lines, counts[:1] if dilations[other] == 1 else {1}.intersection(counts)):
            line = Filter(outputs, taps, 1, dilations[axis])
            gathered = None if kernel[other] == strides[other] == count == 1 else other
            yield Way(*((line, Filter()) if axis == 0 else (Filter(), line)), gathered, count)


def _filters(taps: int, line: Filter) -> int:
    """How many filters, of which each sees what is as far behind as a tile is long, have so many taps."""
    return -(-max(taps - line.taps, 0) // line.outputs) + 1


def convolve(
    legalizer: Legalizer,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    window: Window,
    low: Sequence[Size],
    way: Way,
) -> Array:
    """The convolution of [B, H, W, C] with w [M, C, *taps], in the `fastest` way."""
    image, low = trimmed(p.cast(image, dtypes.int16), low)
    w, wide, axis = p.cast(w, dtypes.int32), [*shape], way.gathered
    if axis is not None:
        w, window, wide = widened(w, window, shape, axis, way.beside)
        image, w, low = _gathered(legalizer, image, w, wide[1 + axis], window, low, axis)
    odd = int(w.shape[1]) % 2
    image = p.pad(image, [0] * 4, [0, 0, 0, int(w.shape[1]) + odd - int(image.shape[3])])
    result = _convolved(legalizer, image, p.pad(w, [0] * 4, [0, odd, 0, 0]), wide, low, way[:2])
    return result if axis is None else apart(result, shape, axis, way.beside)


def _gathered(
    legalizer: Legalizer, image: Array, w: Array, size: Size, window: Window, low: Sequence[Size], axis: int
) -> tuple[Array, Array, list[Size]]:
    """The image of this size along an axis, all that windows see along it as channels; weights and a border for it."""
    features, channels, *taps = map(int, w.shape)
    seen, before, places = [*image.shape[1:3]], [*low], [*image.shape[:3]]
    seen[axis] = (size - 1) * window.strides[axis] + (taps[axis] - 1) * window.dilations[axis] + 1
    before[1 - axis], places[1 + axis] = 0, size
    padded = bordered(image, before, seen)
    line = {name: tuple(n if k == axis else 1 for k, n in enumerate(axes)) for name, axes in window._asdict().items()}
    depth = taps[axis] * channels
    columns = legalizer.record(own.IM2COL, [padded], line, dtypes.int16, (*places, depth + depth % 2))
    flat = p.reshape(p.transpose(w, [0, 2 + axis, 1, 3 - axis]), [features, depth, taps[1 - axis]])
    return columns, p.unsqueeze(flat, [2 + axis]), [0 if k == axis else n for k, n in enumerate(low)]


def _convolved(
    legalizer: Legalizer, image: Array, w: Array, shape: Sequence[Size], low: Sequence[Size], pair: Sequence[Filter]
) -> Array:
    """That of an even number of channels, by tiles."""
    features, channels, *taps = map(int, w.shape)
    for axis, line in enumerate(pair):
        if line.taps > 1 and taps[axis] > line.taps:
            return _along(legalizer, image, w, shape, low, axis, line)
    padded = bordered(image, low, [n.seen(n.tiles(size)) for n, size in zip(pair, shape[1:3], strict=True)])
    matrix = np.kron(*(_WEIGHTS[line[:2]][:, :n] for line, n in zip(pair, taps, strict=True)))
    u = _transformed(p.reshape(w, [features * channels, prod(taps)]), matrix)
    panels = in_pairs(p.transpose(p.reshape(u, [features, channels, len(matrix)]), [2, 1, 0]))
    names = ("tile", "kernel", "strides", "dilations")
    params: dict[str, Any] = dict(zip(names, zip(*pair, strict=True), strict=True))
    return legalizer.record(own.CONV_WINOGRAD_INT8, [padded, panels], params, dtypes.int32, tuple(shape))


def _along(
    legalizer: Legalizer, image: Array, w: Array, shape: Sequence[Size], low: Sequence[Size], axis: int, line: Filter
) -> Array:
    """Along one axis: all lines of the image, or of every so many of its elements if it is dilated, are sequences."""
    features, channels, *taps = map(int, w.shape)
    groups, step = _filters(taps[axis], line), line.dilation
    batch, *sizes, _ = shape
    length = (sizes[axis] + step - 1) // step
    seen = ((length + line.outputs - 1) // line.outputs + groups - 2) * line.outputs + line.places
    sizes[axis] = seen * step
    padded = p.slice_(bordered(image, low, sizes), [0] * 4, [batch, *sizes, channels])
    rows = p.transpose(padded, [0, 2, 1, 3]) if axis == 0 else padded
    other = sizes[1 - axis]
    lines = p.transpose(p.reshape(rows, [batch, other, seen, step, channels]), [0, 1, 3, 2, 4])
    number = symbolic.product([batch, other, step])
    matrix = np.zeros((line.places, groups, taps[axis]), int)
    for group in range(groups):
        begin = group * line.outputs
        own_taps = matrix[:, group, begin : begin + (line.outputs if group + 1 < groups else line.taps)]
        own_taps[:] = _WEIGHTS[line[:2]][:, : own_taps.shape[1]]
    u = _transformed(p.reshape(w, [features * channels, taps[axis]]), matrix.reshape(-1, taps[axis]))
    u = p.transpose(p.reshape(u, [features, channels, line.places, groups]), [2, 3, 1, 0])
    panels = in_pairs(p.reshape(u, [line.places, groups * channels, features]))
    sequences = p.reshape(lines, [number, seen, channels])
    made = legalizer.record(own.CONV_LINE_INT8, [sequences, panels], {}, dtypes.int32, (number, length, features))
    made = p.transpose(p.reshape(made, [batch, other, step, length, features]), [0, 1, 3, 2, 4])
    made = p.reshape(made, [batch, other, length * step, features])
    return p.slice_(p.transpose(made, [0, 2, 1, 3]) if axis == 0 else made, [0] * 4, shape)


def _transformed(w: Array, matrix: np.ndarray) -> Array:
    """Taps [N, taps] as what F(m, r) makes of them."""
    return p.cast(p.matmul(w, constant(matrix.T, dtypes.int32)), dtypes.int16)
