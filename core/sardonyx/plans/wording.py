"""Symbols, guards and inputs of a plan in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.model.ir import Value, size_name
from sardonyx.plans.plan import Plan
from sardonyx.sizes.guards import guard_text


def names_of(plan: Plan, inputs: Sequence[Value]) -> dict[str, str]:
    """The names of a plan's symbols: the model's own names of dimensions where it has them."""
    names = {}
    for symbol, places in plan.symbols.items():
        number, axis = places[0]
        value = inputs[number]
        if plan.is_cache(plan.inputs[number]) and axis == len(plan.inputs[number].shape) - 1:
            names[symbol] = "room"
            continue
        declared = value.shape[axis] if value.shape is not None else None
        names[symbol] = size_name(value.name, axis, declared if isinstance(declared, str) else None)
    for port in plan.inputs:
        names.update({symbol: f"{port.name}[{k}]" for k, symbol in enumerate(port.symbols)})
    return names


def guards_of(plan: Plan, names: Mapping[str, str]) -> list[str]:
    """The plan's guards for a person to read."""
    return [guard_text(renamed(expression, names), relation, truth) for expression, relation, truth in plan.guards]


def renamed(expression: Any, names: Mapping[str, str]) -> Any:
    """An expression with these names for its symbols."""
    if isinstance(expression, list):
        return [expression[0], *(renamed(item, names) for item in expression[1:])]
    return names.get(expression, expression) if isinstance(expression, str) else expression
