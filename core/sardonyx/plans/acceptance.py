"""Which sizes plans hold for, and how that is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sardonyx.plans.plan import Plan
from sardonyx.plans.wording import renamed
from sardonyx.sizes.expression import evaluate, to_text
from sardonyx.sizes.guards import guard_text, sides_of
from sardonyx.sizes.sizecode import Fit, symbols_of

FEW = 256
"""The sizes that are looked at one by one; beyond, acceptance is taken to change once at most between powers of 2."""
LARGEST = 1 << 30
"""No size of a tensor is larger."""
SHOWN = 3
"""Inputs and conditions that are shown."""


def holds(plan: Plan, shapes: Sequence[tuple[int, ...]], read: Mapping[str, int] | None = None) -> bool:
    """Whether a plan holds for inputs of these shapes, and numbers that their elements tell; what other symbols decide
    is left out."""
    told = Fit([port.shape for port in plan.inputs], plan.symbols, plan.guards)(shapes)
    if told is None:
        return False
    symbols = {**told, **(read or {})}
    return all(
        _is(expression, relation, symbols) == truth
        for expression, relation, truth in conditions(plan)
        if symbols_of(expression) <= symbols.keys()
    )


def conditions(plan: Plan) -> Iterator[list[Any]]:
    """The guards of a plan, and that no size of its buffers is negative."""
    yield from plan.guards
    seen = set()
    for buffer in plan.buffers:
        for size in buffer.shape:
            if isinstance(size, list) and (text := str(size)) not in seen:
                seen.add(text)
                yield [size, ">=", True]


def _is(expression: Any, relation: str, symbols: Mapping[str, int]) -> bool:
    value = evaluate(expression, symbols)
    return value == 0 if relation == "==" else value >= 0


def intervals(plans: Sequence[Plan], symbol: str) -> list[tuple[int, int]]:
    """The sizes that a symbol may have, as first and last ones, as far as it alone decides; LARGEST is no bound."""
    alone = [[each for each in conditions(plan) if symbols_of(each[0]) == {symbol}] for plan in plans]

    def takes(number: int) -> bool:
        symbols = {symbol: number}
        return any(all(_is(size, relation, symbols) == truth for size, relation, truth in each) for each in alone)

    probes = [*range(FEW), *(1 << power for power in range(FEW.bit_length() - 1, LARGEST.bit_length()))]
    found: list[tuple[int, int]] = []
    before, was = -1, False
    for probe in probes:
        now = takes(probe)
        if now != was:
            edge = _edge(takes, before, probe, now)
            if now:
                found.append((edge, LARGEST))
            else:
                found[-1] = (found[-1][0], edge - 1)
        before, was = probe, now
    return found


def _edge(takes: Any, before: int, after: int, now: bool) -> int:
    """The first size above `before` that is taken as `after` is."""
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if takes(middle) == now else (middle, after)
    return after


def told(found: Sequence[tuple[int, int]], name: str) -> str:
    """The sizes of a name in words.

    >>> told([(0, LARGEST)], "batch"), told([(1, 512)], "tokens"), told([(32, 32), (64, 64), (96, 96)], "height")
    ('any batch', '1 to 512 tokens', 'height in multiples of 32')
    >>> told([(3, LARGEST)], "n"), told([(1, 1)], "n"), told([(1, 4), (6, 9)], "n"), told([], "n")
    ('n of 3 or more', 'n = 1', 'n of 1 to 4 or 6 to 9', 'no n')
    """
    positive = [each for each in found if each != (0, 0)]
    if not positive:
        return f"{name} = 0" if found else f"no {name}"
    (low, high), *others = positive
    if not others:
        if high == LARGEST:
            return f"any {name}" if low <= 1 else f"{name} of {low} or more"
        return f"{name} = {low}" if low == high else f"{max(low, 1)} to {high} {name}"
    if low > 1 and len(positive) > 2 and all(a == (low * k, low * k) for k, a in enumerate(positive[:3], 1)):
        return f"{name} in multiples of {low}"
    parts = [f"{a} or more" if b == LARGEST else f"{a}" if a == b else f"{a} to {b}" for a, b in positive]
    return f"{name} of {' or '.join(parts[:SHOWN])}{' and so on' if len(parts) > SHOWN else ''}"


def accepted(plans: Sequence[Plan], names: Mapping[str, str], relations: Mapping[str, Any] | None = None) -> str:
    """What is to be given to these plans: inputs, with the sizes that are open, and what is to hold of these.

    `names` are those of symbols, `relations` expressions of symbols by the name that they tell.
    """
    ports = plans[0].inputs
    shapes = [port.shape[:-1] if plans[0].is_cache(port) else port.shape for port in ports]
    inputs = [f"{port.name} {port.dtype}[{_shape(shape, names)}]" for port, shape in zip(ports[:SHOWN], shapes)]
    more = f" and {len(ports) - SHOWN} more" if len(ports) > SHOWN else ""
    rooms = {str(port.shape[-1]) for port in ports if plans[0].is_cache(port)}
    sizes = [told(intervals(plans, symbol), names[symbol]) for symbol in plans[0].symbols if symbol not in rooms]
    sizes += [f"{name} = {to_text(renamed(size, names))}" for name, size in (relations or {}).items()]
    others = [plan for plan in plans if not _is_of_nothing(plan)] or plans
    limits = [
        each
        for each in plans[0].guards
        if each[1] == ">=" or ((each[2] or sides_of(each[0])[1]) and all(each in plan.guards for plan in others))
    ]
    joint = [
        guard_text(renamed(size, names), relation, truth)
        for size, relation, truth in limits
        if symbols_of(size) <= names.keys()
        and not (len(symbols_of(size)) == 1 and symbols_of(size) <= plans[0].symbols.keys())
    ]
    return "; ".join([", ".join(inputs) + more, *sizes, *dict.fromkeys(joint)])


def _is_of_nothing(plan: Plan) -> bool:
    """Whether a plan holds only where something is empty."""
    return any(relation == "==" and truth and not sides_of(size)[1] for size, relation, truth in plan.guards)


def _shape(shape: Sequence[Any], names: Mapping[str, str]) -> str:
    return ", ".join(to_text(renamed(size, names)) for size in shape)
