"""The alignment of two sequences of different speed."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.control import loop

DIAGONAL, UP, LEFT = 0, 1, 2


class DynamicTimeWarping(Operator, domain="com.microsoft"):
    """int32 [2, length]: rows and columns of the cheapest path through costs [M, N], or [1, M, N], from the first place
    to the last, by steps down, right, or both. Of steps as cheap the one to the right is taken.

    Costs of paths are computed one diagonal after the other.
    """

    def expand(self, x: Array) -> Array:
        if x.rank == 3:
            x = p.squeeze(x, [0])
        if x.rank != 2:
            raise ValueError(f"costs {p.show(x.shape)} are neither [M, N] nor [1, M, N]")
        height, width = x.shape
        row = p.iota((height,), 0, dtypes.int32)

        def spread(number: Array, going: Array, before: Array, last: Array) -> list[Array]:
            """The costs of paths to the places of a diagonal, by their rows, and from where the cheapest come."""
            column = p.cast(number, dtypes.int32) - row
            diagonal, up = _above(before, row), _above(last, row)
            diagonal = p.where(p.equal(row, 0) & p.equal(column, 0), 0.0, diagonal)
            from_up = (up < diagonal) & (up < last)
            from_diagonal = (diagonal < up) & (diagonal < last)
            cost = p.where(from_diagonal, diagonal, p.where(from_up, up, last))
            kind = p.where(from_diagonal, _kind(DIAGONAL), p.where(from_up, _kind(UP), LEFT))
            cost = cost + p.gather(x, [row, column], [0, 1])
            inside = (column >= 0) & (column < width)
            return [constant(True), last, p.where(inside, cost, np.inf), kind]

        nothing = p.full((height,), np.inf, x.dtype)
        count = p.literal(height + width - 1, dtypes.int64)
        _, _, kinds = loop(count, None, [nothing, nothing], spread)

        def back(number: Array, going: Array, row: Array, column: Array) -> list[Array]:
            kind = p.gather(kinds, [row + column, row], [0, 1])
            place = p.concat([p.unsqueeze(each, [0]) for each in (row, column)], 0)
            row = row - p.cast(p.not_equal(kind, LEFT), dtypes.int32)
            column = column - p.cast(p.not_equal(kind, UP), dtypes.int32)
            return [(row >= 0) & (column >= 0), row, column, place]

        corner = [p.literal(size - 1, dtypes.int32) for size in (height, width)]
        _, _, path = loop(count, (corner[0] >= 0) & (corner[1] >= 0), corner, back)
        return p.transpose(p.flip(path, [0]), [1, 0])

    samples = [
        sample((5, 7)),
        sample((1, 6, 3)),
        sample(np.zeros((3, 4), np.float32)),
        sample(np.ones((4, 3), np.float32)),
        sample((1, 1)),
        sample((1, 5)),
        sample(np.full((2, 3), np.inf, np.float32)),
    ]


def _above(x: Array, row: Array) -> Array:
    """The element before each one, infinity before the first."""
    return p.where(p.equal(row, 0), np.inf, p.gather(x, [row - 1], [0]))


def _kind(kind: int) -> Array:
    return p.full((), kind, dtypes.int32)
