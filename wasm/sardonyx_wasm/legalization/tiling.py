"""How a convolution is done fastest: in which tiles, how many outputs side by side. Costs are in multiplications.

They are measured in convolutions, for each host. BLAS multiplies about twice as fast as V8's code, and wants what
windows see side by side; all else is WebAssembly in both. Tiles go through V8's code in bands. A BLAS that copies what
it multiplies makes many small products dear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import prod
from typing import NamedTuple

from sardonyx.common.record import record, replace
from sardonyx.compiler.legalization.filtering import POINTS, Filter, choices, moved

from ..device import blas
from ..routines import winograd


@record(frozen=True)
class _Costs:
    """What takes as long as so many multiplications; a product has columns for multiples of `lanes`, and with one it
    takes as long as with `single`."""

    moved: float
    """An element that a transform reads or writes."""
    stored: float
    """A result of a product."""
    lanes: int
    single: int
    columns: float = 0
    """An element that im2col writes for BLAS, which multiplies it at once."""
    copied: float = 0
    """One that it writes to memory."""
    launched: float = 0
    """To begin with another kernel."""
    read: float = 0
    """A weight, from memory."""
    repacked: float = 0
    """A weight of a matrix that BLAS puts into another order."""
    again: float = 0
    """A weight, for each band of tiles."""


_COSTS = {
    "wasmtime": _Costs(6, 3, lanes=16, single=3, columns=10, copied=15, launched=250_000, read=14, repacked=20),
    "v8": _Costs(2, 7.5, lanes=8, single=8, read=4, again=2),
}
_COPYING = replace(_COSTS["wasmtime"], moved=9, stored=5, repacked=30)
"""Natively, where BLAS does not do small products in place."""
_FEWEST = 4
"""Channels on both sides, and rows of a product."""
_WIDEST = 64
"""Channels that are made side by side."""


class Window(NamedTuple):
    """What a convolution sees, along both axes."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]

    def beside(self, axis: int, count: int) -> Window:
        """What so many neighbours along an axis see."""
        counts = (count, 1) if axis == 0 else (1, count)
        (high, wide), (down, across) = self.kernel, self.strides
        kernel = high + (counts[0] - 1) * down, wide + (counts[1] - 1) * across
        return Window(kernel, (counts[0] * down, counts[1] * across), self.dilations)


@record(frozen=True)
class Way:
    """How to do a convolution: so many outputs side by side, each column of the image with all that its windows see,
    then in tiles or not."""

    beside: int = 1
    columns: bool = False
    filters: tuple[Filter, Filter] | None = None


@cache
def fastest(
    target: str,
    places: tuple[int, int, int],
    channels: int,
    features: int,
    window: Window,
    axis: int = 1,
    exact: bool = False,
) -> Way:
    """How to do a convolution to [batch, rows, columns, features], some outputs side by side along an axis.

    An `exact` one has no other numbers on the way.

    >>> three = Window((3, 3), (1, 1), (1, 1))
    >>> fastest("v8", (1, 56, 56), 64, 64, three).filters
    (Filter(outputs=4, taps=3, stride=1, dilation=1), Filter(outputs=4, taps=3, stride=1, dilation=1))
    >>> fastest("v8", (1, 56, 56), 3, 1, three)
    Way(beside=8, columns=False, filters=None)
    """
    costs = _COSTS[target] if target == "v8" or blas.in_blocks() else _COPYING
    ways = [(_direct(costs, places, channels, features, window), Way())]
    if not exact:
        ways += ((cost, Way(filters=lines)) for cost, lines in _tiled(costs, places, channels, features, window))
    if window.dilations[axis] == 1 and window.kernel[axis] > 1:
        counts = [count for count in (2, 4, 8, 16) if count * features <= _WIDEST and count <= places[1 + axis]]
    else:
        counts = []
    for count in (1, *counts):
        wider, rest = window.beside(axis, count), [*places]
        rest[1 + axis] = -(-rest[1 + axis] // count)
        numbers = (rest[0], rest[1], rest[2]), channels, count * features, wider
        if count > 1:
            ways.append((_direct(costs, *numbers), Way(count)))
        if axis == 1 and not exact:
            ways += ((cost, Way(count, True, lines)) for cost, lines in _columns(costs, *numbers))
    return min(ways, key=lambda way: way[0])[1]


def _multiplied(costs: _Costs, rows: int, depth: int, features: int, matrices: int = 1) -> float:
    """The cost of products of so many rows, in all, with so many matrices."""
    wide = costs.single if features == 1 else -(-features // costs.lanes) * costs.lanes
    read = costs.read
    if costs.repacked and not blas.panel_width(depth, features, rows):
        read = costs.repacked
    return rows * wide * (depth + costs.stored) + matrices * read * depth * features


def _direct(costs: _Costs, places: Sequence[int], channels: int, features: int, window: Window) -> float:
    """The cost of one product for all that the windows see."""
    rows, depth = prod(places), prod(window.kernel) * channels
    return _multiplied(costs, rows, depth, features) + costs.columns * rows * depth


def _tiled(
    costs: _Costs, places: Sequence[int], channels: int, features: int, window: Window
) -> Iterator[tuple[float, tuple[Filter, Filter]]]:
    """The costs of tiles."""
    if min(channels, features) < _FEWEST or prod(window.kernel) == 1:
        return
    most = POINTS[1 in window.kernel]
    for down, across in product(*(choices(*line, most) for line in zip(*window, strict=True))):
        if 1 not in window.kernel and down.outputs != across.outputs:
            continue
        count = places[0] * down.tiles(places[1]) * across.tiles(places[2])
        rows, matrices = down.places * across.places * max(count, _FEWEST), down.weights * across.weights
        elements = sum(size * n for size, n in zip((channels, features), moved(down, across), strict=True))
        cost = _multiplied(costs, rows, channels, features, matrices) + costs.moved * count * elements
        if costs.again:
            most = winograd.band((down, across), channels, features).tiles
            if most < _FEWEST:
                continue
            bands = -(-count // most)
            cost += bands * matrices * costs.again * channels * features
            cost += bands * down.places * across.places * channels * features  # products of few rows are slower
        yield cost, (down, across)


def _columns(
    costs: _Costs, places: Sequence[int], channels: int, features: int, window: Window
) -> Iterator[tuple[float, tuple[Filter, Filter]]]:
    """The costs of tiles of a column, of an image with all that the windows see in a row side by side."""
    (high, wide), (down, _), (apart, _) = window
    if high == 1 or wide == 1 or not costs.columns:  # elsewhere products take windows as they lie
        return
    seen = wide * channels
    copied = costs.copied * prod(places) * down * seen + costs.launched
    for cost, lines in _tiled(costs, places, seen, features, Window((high, 1), (down, 1), (apart, 1))):
        yield cost + copied, lines
