"""Minimal filtering along an axis: the matrices of F(m, r), m outputs of a filter of r taps.

y = A' [(G g) * (B' d)] (Lavin and Gray 2015, https://arxiv.org/abs/1509.09308), with the matrices of Toom and Cook for
some points and infinity: row p of B' has the coefficients of the product of (x - q) over all other points q, row p of G
is [1, p, p^2, ...] over the product of p - q, row k of A' has the powers p^k. The last rows belong to infinity: B' has
the product over all points, G a 1 for the last tap, A' a 1 for the highest power. A filter with a stride s is the sum
of s filters, each of every s-th tap and element. A single tap needs no transform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Matrix: TypeAlias = list[list[float]]

OUTPUTS = (2, 4, 6)
"""Of tiles: others gain little, and each has its code."""
POINTS = 6, 8
"""Most points that both axes may have, or one alone: so errors are those of F(4 x 4, 3 x 3), 2e-6 of the results."""

_PAIRS: dict[int, tuple[float, ...]] = {
    2: (1,),
    3: (1,),
    4: (0.5, 1.25),
    5: (0.75, 1.5),
    6: (0.375, 0.875, 1.75),
    7: (0.5, 1, 2),
}
"""Points p of so many besides infinity; -p are points too, and 0 if the number is odd. Their errors are the smallest,
among numbers whose powers and products are exact in float32."""


class Filter(NamedTuple):
    """F(outputs, taps) of every `stride`-th place; elements, and the outputs of a tile, are `dilation` places apart.

    >>> Filter(4, 3).places, Filter(4, 3, stride=2).places, Filter(4, 3, stride=2).span
    (6, 9, 9)
    """

    outputs: int = 1
    taps: int = 1
    stride: int = 1
    dilation: int = 1

    @property
    def span(self) -> int:
        """The elements that a tile reads."""
        return (self.outputs - 1) * self.stride + self.taps

    @property
    def phases(self) -> list[int]:
        """The taps of each of the filters whose sum this is."""
        return [len(range(phase, self.taps, self.stride)) for phase in range(min(self.stride, self.taps))]

    @property
    def places(self) -> int:
        """The products of a tile."""
        return sum(self.outputs + taps - 1 for taps in self.phases)

    @property
    def weights(self) -> int:
        """The rows of G that differ: those from the last one on are the same."""
        return self.places - (self.outputs - 1 if self.phases[-1] == 1 else 0)

    @property
    def points(self) -> int:
        """The most points that a filter of several taps has, with infinity; 0 if there is none."""
        return max((self.outputs + taps - 1 for taps in self.phases if taps > 1), default=0)

    def tiles(self, size: Any) -> Any:
        """The tiles for so many outputs; the last ones may hang over, or have none."""
        block = self.outputs * self.dilation
        return (size + (block - 1)) // block * self.dilation

    def seen(self, tiles: Any) -> Any:
        """The elements that they read."""
        return tiles * (self.outputs * self.stride) - self.stride + 1 + (self.taps - 1) * self.dilation

    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        """B' [places, span], G [places, taps] and A' [outputs, places]; G alone is rounded."""
        return _matrices(self.outputs, self.taps, self.stride)


def choices(taps: int, stride: int, dilation: int, most: int) -> list[Filter]:
    """The filters for one axis, of at most so many points."""
    if taps == 1:
        return [Filter(stride=stride)]
    if stride > 1 and dilation > 1:
        return []
    found = (Filter(outputs, taps, stride, dilation) for outputs in OUTPUTS)
    return [line for line in found if 0 < line.points <= most]


def moved(down: Filter, across: Filter) -> tuple[int, int]:
    """The elements that transforms of a tile read and write, for each channel of the image and of the results."""
    before = across.span * (down.span + down.places) * (down.taps > 1)
    before += down.places * (across.span + across.places) * (across.taps > 1)
    after = across.places * (down.places + down.outputs) * (down.taps > 1)
    after += down.outputs * (across.places + across.outputs) * (across.taps > 1)
    return before, after


def filters(attributes: Mapping[str, Any]) -> tuple[Filter, Filter]:
    """What is done along both axes of a convolution with these attributes."""
    down, across = zip(*(attributes[name] for name in ("tile", "kernel", "strides", "dilations")), strict=True)
    return Filter(*down), Filter(*across)


@cache
def _matrices(m: int, taps: int, stride: int) -> tuple[Matrix, Matrix, Matrix]:
    line = Filter(m, taps, stride)
    b, g = ([[0.0] * size for _ in range(line.places)] for size in (line.span, taps))
    a: Matrix = [[] for _ in range(m)]
    first = 0
    for phase, count in enumerate(line.phases):
        parts = _toom_cook(m, count)
        for row, (values, weights) in enumerate(zip(*parts[:2], strict=True), first):
            b[row][phase : phase + stride * len(values) : stride] = values
            g[row][phase::stride] = weights
        for made, more in zip(a, parts[2], strict=True):
            made += more
        first += m + count - 1
    return b, g, a


def _toom_cook(m: int, taps: int) -> tuple[Matrix, Matrix, Matrix]:
    """B', G and A' of a filter with stride 1."""
    number = m + taps - 2
    if taps == 1:
        unit = [[float(i == k) for k in range(m)] for i in range(m)]
        return unit, [[1.0] for _ in range(m)], unit
    points = [0.0] * (number % 2) + [s * p for p in _PAIRS[number] for s in (1, -1)]
    others = [[q for q in points if q != p] for p in points]
    b = [[*_coefficients(rest), 0.0] for rest in others] + [_coefficients(points)]
    g = [[p**k / prod(p - q for q in rest) for k in range(taps)] for p, rest in zip(points, others, strict=True)]
    g.append([float(k == taps - 1) for k in range(taps)])
    a = [[*(p**k for p in points), float(k == m - 1)] for k in range(m)]
    return b, g, a


def _coefficients(roots: Sequence[float]) -> list[float]:
    """Those of the product of x - root, from x^0 on."""
    found = [1.0]
    for root in roots:
        found = [low - root * high for low, high in zip([0.0, *found], [*found, 0.0], strict=True)]
    return found


def weight_transform(down: Filter, across: Filter, repeated: bool = False) -> np.ndarray:
    """The matrix that makes the weights of all places, those that differ or `repeated`, of taps: the product of both
    axes' G.

    >>> weight_transform(Filter(), Filter(2, 3))
    array([[-1. , -0. , -0. ],
           [ 0.5,  0.5,  0.5],
           [ 0.5, -0.5,  0.5],
           [ 0. ,  0. ,  1. ]])
    """
    both = [np.array(line.matrices()[1], np.float64) for line in (down, across)]
    if not repeated:
        both = [matrix[: line.weights] for matrix, line in zip(both, (down, across), strict=True)]
    return np.kron(*both)
