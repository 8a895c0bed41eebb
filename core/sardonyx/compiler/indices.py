"""Indices of Arrays as polynomials, one for each axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from sardonyx.primitives.array import Array
from sardonyx.sizes.polynomial import ZERO, Poly
from sardonyx.sizes.symbolic import Size, hint, poly, same

Indices: TypeAlias = tuple[Poly, ...]


def flat_index(shape: Sequence[Size], index: Indices) -> Poly:
    """The row-major position of an index in a shape."""
    flat = ZERO
    for size, position in zip(shape, index, strict=True):
        flat = flat * poly(size) + position
    return flat


def aligned(x: Array, shape: Sequence[Size], index: Indices) -> Indices:
    """The index into an operand that is broadcast to a shape."""
    return stretched(x.shape, shape, range(len(shape) - x.rank, len(shape)), index)


def stretched(sizes: Sequence[Size], shape: Sequence[Size], places: Iterable[int], index: Indices) -> Indices:
    """The index into an operand whose axes are at these places of a shape, those of size 1 being stretched.

    Where two sizes are different expressions, a guard of the broadcast says that the operand's is 1, or else that they
    are equal: if both happen to be 1 in the call at hand, it is the first, and the shape's may grow.
    """
    return tuple(
        ZERO if same(size, 1) or (hint(size) == 1 and not same(size, shape[at])) else index[at]
        for size, at in zip(sizes, places, strict=True)
    )
