"""What a rule of gradients is, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sardonyx import primitives as p
from sardonyx.common.scoped import Scoped
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import Size, same, tied

Gradients: TypeAlias = Sequence[Array | None]
"""None is a gradient of zeros, or of something that has none."""

Rule: TypeAlias = Callable[[Equation, Gradients, Sequence[bool]], Gradients]
"""`rule(equation, gs, wanted)`: the gradients of the inputs, from those of the outputs, one of which is not None at
least. What is not `wanted` may be None."""

Pull: TypeAlias = Callable[[Sequence[Array], Gradients, Sequence[Array]], Gradients]
"""`pull(ys, gs, xs)`: the gradients of xs from those of ys."""

NestedRule: TypeAlias = Callable[[Pull, Equation, Gradients, Sequence[bool]], Gradients]
"""A rule that asks `pull` for gradients of what is inside a primitive."""

MOST_STORED = 1 << 30
"""Bytes of the values between the turns of a loop that are stored."""
memory_limit = Scoped[int]()
"""The same where it is said."""


def of_one(rule: Callable[[Equation, Array], Gradients]) -> Rule:
    """The rule of a primitive whose first output alone has a gradient."""

    def of_first(equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
        return [None] * len(equation.inputs) if gs[0] is None else rule(equation, gs[0])

    return of_first


def spelled_out(pull: Pull, equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    """The gradients of a composite primitive: those of what it is spelled in."""
    expand = equation.primitive.expand
    assert expand is not None
    sources = [x for x, is_wanted in zip(equation.inputs, wanted, strict=True) if is_wanted]
    found = iter(once(pull(expand(*equation.inputs, **equation.params), gs, sources), sources))
    return [next(found) if is_wanted else None for is_wanted in wanted]


def once(found: Gradients, xs: Sequence[Array]) -> Gradients:
    """Gradients of Arrays, which are added: of one that comes several times the first has all of it."""
    return [g if xs.index(x) == k else None for k, (g, x) in enumerate(zip(found, xs, strict=True))]


def unbroadcast(own: Array, x: Array) -> Array:
    """A gradient in the shape of what was stretched to its shape."""
    extra = own.rank - x.rank
    axes = [k for k in range(own.rank) if k < extra or _is_stretched(x.shape[k - extra], own.shape[k])]
    return p.reshape(p.sum_(own, axes), x.shape) if axes else p.reshape(own, x.shape)


def _is_stretched(size: Size, target: Size) -> bool:
    return not (same(size, target) or tied(size, target)) and size == 1


def zeros_like(x: Array) -> Array:
    """Zeros in the shape and the type of an Array."""
    return p.full(x.shape, 0.0, x.dtype)
