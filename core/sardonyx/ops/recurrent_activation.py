"""The activations of recurrent layers: operators by name, one for each place in the equations of each direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, cast

from sardonyx import primitives as p
from sardonyx.array import Array
from sardonyx.ir import build
from sardonyx.ops import activation
from sardonyx.ops.operator import Operator
from sardonyx.ops.trigonometry import Tanh

Function: TypeAlias = Callable[[Array], Array]


class Affine(Operator, abstract=True):
    """alpha * x + beta, which was an operator once."""

    alpha: float = 1.0
    beta: float = 0.0

    def expand(self, x: Array) -> Array:
        return self.alpha * x + self.beta


class ScaledTanh(Operator, abstract=True):
    """alpha * tanh(beta * x), which was an operator once."""

    alpha: float = 1.0
    beta: float = 1.0

    def expand(self, x: Array) -> Array:
        return self.alpha * p.tanh(self.beta * x)


ACTIVATIONS: dict[str, type[Operator]] = {
    operator.__name__.lower(): operator
    for operator in (
        Affine,
        ScaledTanh,
        Tanh,
        activation.Elu,
        activation.HardSigmoid,
        activation.LeakyRelu,
        activation.Relu,
        activation.Sigmoid,
        activation.Softplus,
        activation.Softsign,
        activation.ThresholdedRelu,
    )
}
"""Activations have the defaults of the operators that they are; models write their names in any case."""

GATES = 2
"""The activations f and g, whose input is clipped; that of LSTM's h is not."""


def functions(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], count: int, directions: int, clip: float
) -> list[Function]:
    """`count` functions of [directions, ...]. The activations of one direction come before those of the other one.

    Each takes the next alpha and the next beta, if it has such, or its default if none is left.
    """
    if len(names) < count * directions:
        raise ValueError(f"there are {len(names)} activations; {count * directions} are needed")
    each_alpha, each_beta = iter(alphas), iter(betas)
    made = [_operator(name, each_alpha, each_beta) for name in names[: count * directions]]
    return [_stacked(made[k::count], clip if k < GATES else math.inf) for k in range(count)]


def _operator(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Operator:
    known = ACTIVATIONS.get(name.lower())
    if known is None:
        raise ValueError(f"activation {name!r} is unknown; use {', '.join(o.__name__ for o in ACTIVATIONS.values())}")
    given = {key: next(items, None) for key, items in (("alpha", alphas), ("beta", betas)) if key in known.attributes}
    return known(build.node(known.__name__, [], 1, given))


def _stacked(operators: Sequence[Operator], limit: float) -> Function:
    """The operators of the directions, applied to an Array [directions, ...] between -limit and limit."""
    alike = all(_settings(operator) == _settings(operators[0]) for operator in operators)

    def apply(x: Array) -> Array:
        if limit != math.inf:
            x = p.minimum(p.maximum(x, -limit), limit)
        if alike:
            return cast(Array, operators[0].expand(x))
        parts = [cast(Array, one.expand(p.slice_axis(x, 0, k, 1))) for k, one in enumerate(operators)]
        return p.concat(parts, 0)

    return apply


def _settings(operator: Operator) -> tuple[type[Operator], list[object]]:
    return type(operator), [getattr(operator, name) for name in operator.attributes]
