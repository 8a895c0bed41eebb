"""The walk backwards through equations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from sardonyx import primitives as p
from sardonyx.ops.gradient.formats import converted
from sardonyx.ops.gradient.rule import Gradients, Rule, spelled_out
from sardonyx.ops.gradient.rules import NESTED, RULES, UNDEFINED
from sardonyx.primitives.array import Array, Equation


def pulled_back(ys: Sequence[Array], gs: Gradients, xs: Sequence[Array], fixed: Sequence[Array] = ()) -> Gradients:
    """The gradients of xs from those of ys, in their order; None where no y depends on an x.

    What is `fixed` counts as constant. NotImplementedError names a primitive on the way that has no rule.
    """
    wanted = set(xs)
    depends, order = _between([y for y, g in zip(ys, gs, strict=True) if g is not None], wanted, set(fixed) - wanted)
    found: dict[Array, Array] = {}
    for y, g in zip(ys, gs, strict=True):
        _add(found, y, g)
    for equation in reversed(order):
        given = [found.get(output) for output in equation.outputs]
        source = converted(equation)
        if source is not None:
            _add(found, source, None if given[0] is None else p.cast(given[0], source.dtype))
        elif any(g is not None for g in given):
            wants = [x.dtype.is_float and x in depends for x in equation.inputs]
            for x, own, is_wanted in zip(equation.inputs, _rule(equation)(equation, given, wants), wants, strict=True):
                _add(found, x, own if is_wanted else None)
    return [found.get(x) for x in xs]


def _add(found: dict[Array, Array], x: Array, own: Array | None) -> None:
    if own is not None:
        found[x] = found[x] + own if x in found else own


def _rule(equation: Equation) -> Rule:
    name = equation.primitive.name
    if name in RULES:
        return RULES[name]
    if name in NESTED:
        return partial(NESTED[name], pulled_back)
    if equation.primitive.expand is not None and name not in UNDEFINED:
        return partial(spelled_out, pulled_back)
    raise NotImplementedError(f"the primitive {name!r} has no gradient: {UNDEFINED[name]}")


def _between(ys: Sequence[Array], xs: Collection[Array], fixed: Collection[Array]) -> tuple[set[Array], list[Equation]]:
    """What depends on xs without what is fixed, and the equations by which ys do, each behind those that make what it
    reads."""
    done: dict[Array, bool] = {}
    order: list[Equation] = []
    stack = list(ys)
    while stack:
        top = stack[-1]
        equation = top.equation
        if top in done:
            stack.pop()
        elif top in xs or top in fixed or equation is None:
            done[top] = top in xs
        elif waiting := [x for x in _read(equation) if x not in done]:
            stack += waiting
        else:
            is_dependent = any(done[x] for x in _read(equation))
            done.update((output, is_dependent) for output in equation.outputs if output not in done)
            if is_dependent:
                order.append(equation)
    return {x for x, is_dependent in done.items() if is_dependent}, order


def _read(equation: Equation) -> Sequence[Array]:
    """What the floats of a result are made of."""
    source = converted(equation)
    return equation.inputs if source is None else (source,)
