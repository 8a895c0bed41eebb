"""Symbols, guards and inputs of a plan in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.model.ir import Value
from sardonyx.plans.plan import Plan
from sardonyx.sizes.polynomial import to_text
from sardonyx.sizes.symbolic import guard_text


def names_of(plan: Plan, inputs: Sequence[Value]) -> dict[str, str]:
    """The names of a plan's symbols: the model's own names of dimensions where it has them."""
    names = {}
    for symbol, places in plan.symbols.items():
        number, axis = places[0]
        value = inputs[number]
        declared = value.shape[axis] if value.shape is not None else None
        names[symbol] = declared if isinstance(declared, str) else f"{value.name}.shape[{axis}]"
    for port in plan.inputs:
        names.update({symbol: f"{port.name}[{k}]" for k, symbol in enumerate(port.symbols)})
    return names


def guards_of(plan: Plan, names: Mapping[str, str]) -> list[str]:
    """The plan's guards for a person to read."""
    return [guard_text(_renamed(expression, names), relation, truth) for expression, relation, truth in plan.guards]


def accepted(plan: Plan, names: Mapping[str, str]) -> str:
    """The inputs that a plan takes, with their types and sizes, and what is to hold of these."""
    inputs = [
        f"{port.name} {port.dtype}[{', '.join(to_text(_renamed(size, names)) for size in port.shape)}]"
        for port in plan.inputs
    ]
    guards = guards_of(plan, names)
    return "; ".join([", ".join(inputs), *([f"where {' and '.join(guards)}"] if guards else [])])


def _renamed(expression: Any, names: Mapping[str, str]) -> Any:
    if isinstance(expression, list):
        return [expression[0], *(_renamed(item, names) for item in expression[1:])]
    return names.get(expression, expression) if isinstance(expression, str) else expression
