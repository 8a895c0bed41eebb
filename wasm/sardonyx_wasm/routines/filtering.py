"""Minimal filtering: the matrices of Winograd's convolution F(m, 3), and code that multiplies a line by them.

y = A' [(G g) * (B' d)] along each axis (Lavin and Gray 2015, https://arxiv.org/abs/1509.09308), with the matrices of
Toom and Cook for the points 0, +-POINTS and infinity: row p of B' has the coefficients of the product of (x - q) over
all other points q, row p of G is [1, p, p^2] over the product of p - q, row k of A' has the powers p^k. The last rows
belong to infinity: B' has the product over all points, G [0, 0, 1], A' a 1 for the highest power.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..assembler import Expr, Function, Variable, f32, f32x4
from .channels import multiply_add

if TYPE_CHECKING:
    from ..generator import Unit

POINTS = {2: (1.0,), 4: (0.75, 1.5)}
"""Points besides 0 and infinity; their negatives are points too. All powers are exact in float32, and the error is a
quarter of what 0, +-1, +-2 give."""


def weight_transform(m: int) -> np.ndarray:
    """G [m + 2, 3], float64: weights g [3, 3] become G g G'.

    >>> weight_transform(2)
    array([[-1. , -0. , -0. ],
           [ 0.5,  0.5,  0.5],
           [ 0.5, -0.5,  0.5],
           [ 0. ,  0. ,  1. ]])
    """
    points = [0.0, *(sign * point for point in POINTS[m] for sign in (1, -1))]
    scales = [np.prod([p - q for q in points if q != p]) for p in points]
    return np.array([*([1 / s, p / s, p * p / s] for p, s in zip(points, scales)), [0.0, 0.0, 1.0]])


def tile_size(batch: int, rows: int, columns: int, channels: int, made: int, read: int = 0) -> int:
    """The m with which a 3 x 3 convolution of stride 1 to [batch, rows, columns, made] is fastest, 1 for none.

    Counts products. Measured: an element of a transform takes as long as 8, and with fewer than 4 rows a matrix product
    takes as long as with 4. To `read` a weight from memory takes as long as so many.

    >>> tile_size(1, 56, 56, 64, 64), tile_size(1, 4, 4, 128, 128), tile_size(1, 56, 56, 3, 64)
    (4, 2, 1)
    >>> tile_size(1, 7, 7, 512, 512), tile_size(1, 7, 7, 512, 512, read=8)
    (4, 2)
    """
    if min(channels, made) < 4:
        return 1
    costs = {1: 9 * (batch * rows * columns + read) * channels * made}
    for m in POINTS:
        tiles = batch * -(-rows // m) * -(-columns // m)
        costs[m] = (m + 2) ** 2 * ((max(tiles, 4) + read) * channels * made + 8 * tiles * (channels + made))
    return min(costs, key=costs.__getitem__)


class Filter:
    """Writes products of lines with B' and A' in a function; lines are vectors of channels.

    Constants are splat from memory at `place`, where `store_constants` has put them: V8 builds a literal at each use.
    """

    def __init__(self, unit: Unit, f: Function, m: int, place: Expr) -> None:
        self.m = m
        self._unit, self._f = unit, f
        self._constants = {c: f.let(f32x4.load32_splat(place, offset=4 * k)) for k, c in enumerate(_constants(m))}

    def input(self, x: Sequence[Expr]) -> list[Variable]:
        """B' x, each pair of points by an even and an odd polynomial."""
        squares = [point * point for point in POINTS[self.m]]
        result = [self._polynomial(squares, x)]
        for point, square in zip(POINTS[self.m], squares):
            others = [other for other in squares if other != square]
            even, odd = self._polynomial(others, x[2:]), self._polynomial(others, x[1:])
            result += [self._sum(even, (point, odd)), self._sum(even, (-point, odd))]
        return [*result, self._polynomial(squares, x[1:])]

    def output(self, y: Sequence[Expr]) -> list[Variable]:
        """A' y, each pair of points by its sum and difference."""
        pairs = zip(y[1:-1:2], y[2:-1:2])
        parts = [(self._f.let(a + b), self._f.let(a - b)) for a, b in pairs]
        result = []
        for power in range(self.m):
            terms = [(point**power, part[power % 2]) for point, part in zip(POINTS[self.m], parts)]
            ends = [(1.0, y[0])] * (power == 0) + [(1.0, y[-1])] * (power == self.m - 1)
            (factor, first), *others = ends + terms
            result.append(self._sum(first if factor == 1 else self._constants[factor] * first, *others))
        return result

    def _polynomial(self, roots: Sequence[float], x: Sequence[Expr]) -> Variable:
        """The polynomial in even powers, those of every second x."""
        *low, _ = _coefficients(roots)
        return self._sum(x[2 * len(low)], *zip(low, x[::2]))

    def _sum(self, first: Expr, *terms: tuple[float, Expr]) -> Variable:
        """`first` and multiples of others."""
        total = first
        for factor, x in terms:
            if abs(factor) == 1:
                total = total + x if factor == 1 else total - x
            else:
                total = multiply_add(self._unit, self._constants[factor], x, total)
        return self._f.let(total)


def store_constants(f: Function, m: int, place: Expr) -> None:
    """Put what `Filter` needs into memory, less than 64 bytes."""
    for k, number in enumerate(_constants(m)):
        f.store(place, f32.const(number), offset=4 * k)


def _coefficients(roots: Sequence[float]) -> list[float]:
    """Those of the product of x - root, from x^0 on."""
    found = np.ones(1)
    for root in roots:
        found = np.convolve(found, [-root, 1.0])
    return [float(c) for c in found]


def _constants(m: int) -> list[float]:
    """The factors that B' and A' take."""
    squares = [point * point for point in POINTS[m]]
    polynomials = [squares, *([other for other in squares if other != square] for square in squares)]
    factors = {c for roots in polynomials for c in _coefficients(roots)}
    factors |= {sign * point**power for sign in (1, -1) for point in POINTS[m] for power in range(m)}
    return sorted(factors - {1.0, -1.0})
