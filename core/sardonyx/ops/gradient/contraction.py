"""The rule of sums of products."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.ops.gradient.rule import Gradients, Rule
from sardonyx.primitives.array import Array, Equation


def _dot_general(equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    """Each operand's gradient is a product of g with the other one, its axes put back in order."""
    (g,) = gs
    assert g is not None
    a, b = equation.inputs
    (ca, cb), (ba, bb) = equation.params["contract"], equation.params["batch"]
    free_a = [axis for axis in range(a.rank) if axis not in (*ca, *ba)]
    free_b = [axis for axis in range(b.rank) if axis not in (*cb, *bb)]
    outer = list(range(len(ba)))
    of_a = [len(ba) + k for k in range(len(free_a))]
    of_b = [len(ba) + len(free_a) + k for k in range(len(free_b))]
    found: list[Array | None] = [None, None]
    if wanted[0]:  # batch, free axes of a, contracted ones in b's order
        left = p.dot_general(g, b, (of_b, free_b), (outer, bb), g.dtype)
        found[0] = p.cast(p.transpose(left, _back([*ba, *free_a, *(ca[k] for k in _ranks(cb))])), a.dtype)
    if wanted[1]:
        right = p.dot_general(a, g, (free_a, of_a), (ba, outer), g.dtype)
        found[1] = p.cast(p.transpose(right, _back([*bb, *(cb[k] for k in _ranks(ca)), *free_b])), b.dtype)
    return found


def _ranks(axes: Sequence[int]) -> list[int]:
    """The places of axes in ascending order."""
    return sorted(range(len(axes)), key=lambda k: axes[k])


def _back(order: Sequence[int]) -> list[int]:
    """The permutation that brings axes in this order to 0, 1, 2, ..."""
    return [list(order).index(axis) for axis in range(len(order))]


RULES: dict[str, Rule] = {"dot_general": _dot_general}
