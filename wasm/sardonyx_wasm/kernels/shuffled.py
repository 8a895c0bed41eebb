"""Vectors of elements that are not next to each other, by whole loads and shuffles."""

from __future__ import annotations

from collections.abc import Sequence

from .. import vectors
from ..assembler import Expr
from ..scalars.values import Kind
from ..vectors import Vector, VectorScope
from ..vectors.lanes import words

_LOW, _HIGH, _FIRST, _LAST = (0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)

STRIDES = {2: (0, 3, (0, 2, 5, 7)), 3: (0, 6, (0, 3, 4, 7)), -1: (-3, -3, (3, 2, 1, 0))}
"""Stride of 32-bit elements -> where two loads start that have them all, and nothing beyond, and their places there."""


def load_strided(s: VectorScope, k: Kind, address: Expr, stride: int, offset: int) -> Vector:
    """4 elements of 32 bits, a stride apart."""
    first, second, picked = STRIDES[stride]
    address = s.let(address if first == 0 else address + 4 * first)
    (a,) = vectors.load(s, k, address, offset)
    if second == first:
        a = s.let(a)
        return (words(a, a, *picked),)
    (b,) = vectors.load(s, k, address, offset + 4 * (second - first))
    return (words(a, b, *picked),)


def transpose(rows: Sequence[Vector]) -> list[Vector]:
    """The columns of 4 vectors, which are variables."""
    if len(rows[0]) == 2:
        return [
            tuple(
                words(rows[2 * part][at // 2], rows[2 * part + 1][at // 2], *(_FIRST, _LAST)[at % 2]) for part in (0, 1)
            )
            for at in range(4)
        ]
    (a,), (b,), (c,), (d,) = rows
    pairs = [(words(a, b, *half), words(c, d, *half)) for half in (_LOW, _HIGH)]
    return [(words(*pair, *half),) for pair in pairs for half in (_FIRST, _LAST)]
