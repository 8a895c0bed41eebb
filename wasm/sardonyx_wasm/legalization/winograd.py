"""Winograd's algorithm for convolutions of small integers, exact: three taps by axis, or many along one axis.

A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015); G is multiplied by what makes its
numbers integers, and routines take that back.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.filtering import Filter
from sardonyx.compiler.legalization.ranges import bounds
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size, hint, product

from .. import primitives as own
from ..abi import SCRATCH
from ..device import blas
from .convolutions import bordered, trimmed
from .legalizer import Legalizer
from .products import in_pairs

TAPS = 3
"""Along an axis, or one: what tiles of two axes are for."""
_WEIGHTS = {
    (1, 1): np.array([[1]]),
    (2, 3): np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 1]]),
    (4, 3): np.array([[1, 0, 0], [-1, -1, -1], [-1, 1, -1], [1, 2, 4], [1, -2, 4], [0, 0, 1]]),
    (4, 4): np.array(
        [[-10, 0, 0, 0], [10] * 4, [5, -5, 5, -5], [-5, -10, -20, -40], [-1, 2, -4, 8], [0, 0, 0, 120], [1, 3, 9, 27]]
    ),
}
"""G of F(m, r), its rows multiplied by what makes them integers (`routines.winograd_int8`)."""
_LOST = {(1, 1): 0, (2, 3): 1, (4, 3): 3, (4, 4): 3}
"""Bits of the results, of 32 with their sign, that are lost on the way back along an axis."""
CHANNELS = 16
"""From so many channels on, on both sides, the algorithm pays."""
_TILES, _ROOM = 4, 3 * SCRATCH // 8
"""The tiles that a band has at least, and how many numbers those that it reads have at most: there is memory for these,
and for what products make of them."""
_BLAS = {True: 2.0, False: 1.2}
"""How many multiplications BLAS does in the time of one, with AVX-512 or without."""
_OPEN = 64
"""The places along an axis of open size, at least, that a convolution is made for."""
_READ, _MOVED = 10, 8
"""Multiplications that take as long as reading a weight, or as transforming an element."""

Tiles: TypeAlias = tuple[Filter, Filter]


def tiles(
    x: Array,
    w: Array,
    shape: Sequence[Size],
    strides: Sequence[int],
    dilations: Sequence[int],
    largest: int,
    by_blas: bool = False,
) -> Tiles | None:
    """The filters along both axes that do a convolution [B, H, W, M] fastest; `by_blas` tells that BLAS could do it.

    None if steps are not one, or there are few channels, or sums could be too large: up to the `largest`; or the
    algorithm gains nothing.
    """
    features, channels, *taps = map(int, w.shape)
    if {*strides} != {1} or min(features, channels) < CHANNELS or features % 4:
        return None
    if max(max(map(abs, bounds(operand))) for operand in (x, w)) > 256:
        return None
    batch, *sizes = hint(shape[0]), *(_likely(size) for size in shape[1:3])
    windows = batch * prod(sizes)
    most: float = prod(taps) * ((windows + _READ) * channels * features + _MOVED * windows * channels)
    if by_blas and {*taps} != {TAPS}:
        most /= _BLAS[blas.in_blocks()]
    found = None
    for pair in _choices(taps, dilations):
        if largest >> 31 - sum(_LOST[line[:2]] for line in pair):
            continue
        count = batch * prod(line.tiles(size) for line, size in zip(pair, sizes, strict=True))
        filters = prod(-(-n // line.taps) for n, line in zip(taps, pair, strict=True))
        places = prod(line.places for line in pair)
        cost = filters * (count + _READ) * channels * features + _MOVED * count * (channels + features)
        cost *= places
        if cost < most and places * (filters + _TILES) * channels < _ROOM:
            most, found = cost, pair
    return found


def _likely(size: Size) -> int:
    """The places along an axis: more than in the call at hand if that is small and others may have more, or if the run
    only will tell."""
    return size if isinstance(size, int) else max(hint(size), _OPEN)


def _choices(taps: Sequence[int], dilations: Sequence[int]) -> list[Tiles]:
    """What there is for so many taps: tiles along both axes, or filters of four taps along one."""
    if {1, TAPS} >= {*taps} != {1}:
        every = [[Filter(m, TAPS, 1, step) if n > 1 else Filter() for m in (2, 4)] for n, step in zip(taps, dilations)]
        return [*zip(*every, strict=True)]
    if min(taps) == 1 and max(taps) > TAPS:
        down, across = (Filter(4, 4, 1, step) if n > 1 else Filter() for n, step in zip(taps, dilations))
        return [(down, across)]
    return []


def convolve(
    legalizer: Legalizer, image: Array, w: Array, shape: Sequence[Size], low: Sequence[Size], pair: Tiles
) -> Array:
    """The convolution of [B, H, W, C] with w [M, C, *taps], by what `tiles` chose."""
    odd = int(w.shape[1]) % 2
    image, low = trimmed(p.pad(p.cast(image, dtypes.int16), [0] * 4, [0, 0, 0, odd]), low)
    w = p.pad(p.cast(w, dtypes.int32), [0] * 4, [0, odd, 0, 0])
    for axis, line in enumerate(pair):
        if line.taps > TAPS:
            return _along(legalizer, image, w, shape, low, axis, line)
    features, channels, *taps = map(int, w.shape)
    padded = bordered(image, low, [n.seen(n.tiles(size)) for n, size in zip(pair, shape[1:3], strict=True)])
    down, across = (_WEIGHTS[line[:2]] for line in pair)
    u = _transformed(p.reshape(w, [features * channels, prod(taps)]), np.kron(down, across))
    u = p.reshape(u, [features, channels, pair[0].places * pair[1].places])
    panels = in_pairs(p.transpose(u, [2, 1, 0]))
    names = ("tile", "kernel", "strides", "dilations")
    params: dict[str, Any] = dict(zip(names, zip(*pair, strict=True), strict=True))
    return legalizer.record(own.CONV_WINOGRAD_INT8, [padded, panels], params, dtypes.int32, tuple(shape))


def _along(
    legalizer: Legalizer, image: Array, w: Array, shape: Sequence[Size], low: Sequence[Size], axis: int, line: Filter
) -> Array:
    """Along one axis: all lines of the image, or of every so many of its elements if it is dilated, are sequences."""
    features, channels, *taps = map(int, w.shape)
    groups, step = -(-taps[axis] // line.taps), line.dilation
    batch, *sizes, _ = shape
    length = (sizes[axis] + step - 1) // step
    seen = ((length + line.outputs - 1) // line.outputs + groups) * line.outputs - 1
    sizes[axis] = seen * step
    padded = p.slice_(bordered(image, low, sizes), [0] * 4, [batch, *sizes, channels])
    rows = p.transpose(padded, [0, 2, 1, 3]) if axis == 0 else padded
    other = sizes[1 - axis]
    apart = p.transpose(p.reshape(rows, [batch, other, seen, step, channels]), [0, 1, 3, 2, 4])
    number = product([batch, other, step])
    flat = p.pad(p.reshape(w, [features, channels, taps[axis]]), [0] * 3, [0, 0, groups * line.taps - taps[axis]])
    u = _transformed(p.reshape(flat, [features * channels * groups, line.taps]), _WEIGHTS[line[:2]])
    u = p.transpose(p.reshape(u, [features, channels, groups, line.places]), [3, 2, 1, 0])
    panels = in_pairs(p.reshape(u, [line.places, groups * channels, features]))
    sequences = p.reshape(apart, [number, seen, channels])
    made = legalizer.record(own.CONV_LINE_INT8, [sequences, panels], {}, dtypes.int32, (number, length, features))
    made = p.transpose(p.reshape(made, [batch, other, step, length, features]), [0, 1, 3, 2, 4])
    made = p.reshape(made, [batch, other, length * step, features])
    return p.slice_(p.transpose(made, [0, 2, 1, 3]) if axis == 0 else made, [0] * 4, shape)


def _transformed(w: Array, matrix: np.ndarray) -> Array:
    """Taps [N, taps] as what F(m, r) makes of them."""
    return p.cast(p.matmul(w, constant(matrix.T, dtypes.int32)), dtypes.int16)
