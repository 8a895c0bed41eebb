"""Gradients: what a sum of elements changes by with each element that it was computed from.

Equations of a trace are walked backwards from the result; `rules` says what each primitive makes of the gradient of its
output (reverse accumulation: Linnainmaa, 1970). The gradient is made of primitives, so that every provider runs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.ops.gradient.rules import RULES
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant


def gradient(y: Array, xs: Sequence[Array], fixed: Sequence[Array] = ()) -> list[Array]:
    """The derivative of the sum of y by each element of each of xs, in their shapes; 0 where y does not depend on it.

    What is `fixed` counts as constant. NotImplementedError names a primitive on the way that has no rule.
    """
    wanted = {id(x) for x in xs}
    order = _between(y, wanted, set(map(id, fixed)) - wanted)
    found: dict[int, Array] = {id(y): p.broadcast_to(constant(1.0, y.dtype), y.shape)}
    for equation in reversed(order):
        given = [found.get(id(output)) for output in equation.outputs]
        if all(each is None for each in given):
            continue
        rule = RULES.get(equation.primitive.name)
        if rule is None or given[0] is None:
            raise NotImplementedError(f"the primitive {equation.primitive.name!r} has no gradient")
        for x, own in zip(equation.inputs, rule(equation, given[0]), strict=True):
            if own is not None:
                found[id(x)] = found[id(x)] + own if id(x) in found else own
    return [found[id(x)] if id(x) in found else p.full(x.shape, 0.0, x.dtype) for x in xs]


def _between(y: Array, xs: set[int], fixed: set[int]) -> list[Equation]:
    """The equations by which y depends on xs without what is fixed, each behind those that make what it reads."""
    done: dict[int, bool] = {}
    order: list[Equation] = []
    stack = [y]
    while stack:
        top = stack[-1]
        equation = top.equation
        if id(top) in done:
            stack.pop()
        elif id(top) in xs or id(top) in fixed or equation is None:
            done[id(top)] = id(top) in xs
        elif waiting := [x for x in equation.inputs if id(x) not in done]:
            stack += waiting
        else:
            depends = any(done[id(x)] for x in equation.inputs)
            done.update((id(output), depends) for output in equation.outputs)
            if depends:
                order.append(equation)
    return order
