"""Indices of Arrays as polynomials, one for each axis, and nodes of a kernel that are such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from sardonyx.common.dtypes import int32, int64
from sardonyx.primitives.array import Array
from sardonyx.sizes.polynomial import ZERO, Poly, constant
from sardonyx.sizes.symbolic import Size, hint, poly, same

Indices: TypeAlias = tuple[Poly, ...]
Node: TypeAlias = tuple[str, str, tuple[int, ...], Any]
"""A function, the name of a dtype, the numbers of operands, and what else there is to know."""


def flat_index(shape: Sequence[Size], index: Indices) -> Poly:
    """The row-major position of an index in a shape."""
    return _flat(tuple(map(poly, shape)), tuple(index))


@lru_cache(1 << 12)
def _flat(shape: Sequence[Poly], index: Indices) -> Poly:
    """The same, for layers that repeat."""
    flat = ZERO
    for size, position in zip(shape, index, strict=True):
        flat = flat * size + position
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


def computed(nodes: Sequence[Node], number: int) -> Poly | None:
    """What a node is that is whole, and made of indices and sizes alone; None for others."""
    function, dtype, operands, detail = nodes[number]
    if dtype not in (int32.name, int64.name):
        return None
    if function in ("index", "const"):
        return detail if isinstance(detail, Poly) else constant(detail)
    parts = [computed(nodes, operand) for operand in operands] if function in ("cast", "add", "sub", "mul") else []
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    first, last = known[0], known[-1]
    return {"cast": first, "add": first + last, "sub": first - last, "mul": first * last}[function]
