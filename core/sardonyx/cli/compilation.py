"""What a plan says of itself: who runs which nodes, how often memory is touched, for which sizes it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.compiler.compile import Compiler
from sardonyx.compiler.partition import Place, is_giant, supports
from sardonyx.compiler.schedule import without_excluded
from sardonyx.plans.epochs import Layout
from sardonyx.plans.plan import Copy, Launch, Plan, halts
from sardonyx.plans.wording import guards_of, names_of
from sardonyx.primitives.array import Equation
from sardonyx.primitives.trace import Trace
from sardonyx.providers.contract import Provider
from sardonyx.sizes.expression import evaluate


def describe(compiler: Compiler, shapes: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The facts about the plan for inputs of these shapes, as `sardonyx inspect --json` prints them."""
    feeds = [
        np.broadcast_to(np.zeros((), (value.dtype or dtypes.float32).storage), shape)
        for value, shape in zip(compiler.inputs, shapes, strict=True)
    ]
    traced: list[Trace] = []

    def planned(excluded: Collection[Place]) -> Plan:
        trace, symbols = compiler.trace(feeds, {})
        traced.append(trace)
        return compiler.schedule(trace, symbols, excluded)

    plan = without_excluded(planned)
    trace = traced[-1]
    hints = {name: number for inner in _traces(trace) for name, number in inner.guards.hints.items()}
    names = names_of(plan, compiler.inputs)
    return {
        **tally(plan),
        "memory": _memory(plan, hints),
        "traffic": _traffic(plan, hints),
        "weight_bytes": sum(array.nbytes for array in compiler.weights.arrays.values()),
        "symbols": {names[symbol]: hints[symbol] for symbol in plan.symbols},
        "guards": guards_of(plan, names),
        "nodes": _homes(plan),
        "fallbacks": _fallbacks(plan, trace, compiler.providers),
    }


def tally(plan: Plan) -> dict[str, Any]:
    """How many nodes each provider runs, and how many kernels, launches, copies and halts there are, sub-plans too."""
    plans = list(_plans(plan))
    steps = [step for each in plans for step in each.steps]
    homes = Counter(each.devices[device] for each in plans for device in each.placement if device >= 0)
    return {
        "placement": {name: homes[name] for name in plan.devices},
        "kernels": sum(len(each.codes) for each in plans),
        "launches": sum(isinstance(step, Launch) for step in steps),
        "copies": sum(isinstance(step, Copy) for step in steps),
        "halts": sum(map(halts, steps)),
    }


def _plans(plan: Plan) -> Iterator[Plan]:
    """A plan, and those of its control flow: for each body the first that was made."""
    yield plan
    for made in plan.functions:
        yield from _plans(made[0])


def _traces(trace: Trace) -> Iterator[Trace]:
    yield trace
    for equation in trace.equations:
        for _, inner in equation.bodies:
            yield from _traces(inner)


def _memory(plan: Plan, hints: Mapping[str, int]) -> dict[str, int]:
    """Bytes of the arenas by provider, at the sizes of this call."""
    totals: Counter[str] = Counter()
    for each in _plans(plan):
        epochs: dict[int, list[int]] = {}
        for number, buffer in enumerate(each.buffers):
            if buffer.weight is None:
                epochs.setdefault(buffer.epoch, []).append(number)
        for numbers in epochs.values():
            layout = Layout(each, numbers)
            chunks, _ = layout.place(layout.rooms(hints) or [0] * len(numbers))
            totals.update({each.devices[device]: nbytes for device, nbytes in chunks.items()})
    return {name: totals[name] for name in plan.devices if totals[name]}


def _traffic(plan: Plan, hints: Mapping[str, int]) -> dict[str, int]:
    """The bytes that the launches of a run read and write, and those that one kernel for all of it would: inputs,
    outputs and weights, each once. Of loops and branches one turn counts."""
    moved = least = 0
    for each in _plans(plan):
        sizes = [evaluate(b.elements, hints) * dtypes.by_name(b.dtype).itemsize for b in each.buffers]
        touched = [set(step.buffers) for step in each.steps if isinstance(step, Launch)]
        moved += sum(sizes[number] for buffers in touched for number in buffers)
        ends = {number for port in (*each.inputs, *each.outputs) for number in port.buffers[:1]}
        weights = {number for buffers in touched for number in buffers if each.buffers[number].weight is not None}
        least += sum(sizes[number] for number in ends | weights)
    return {"moved": moved, "least": least}


def _homes(plan: Plan) -> dict[str, str | None]:
    """The provider of each node, None where nothing is left of it."""
    return {
        label: each.devices[device] if device >= 0 else None
        for each in _plans(plan)
        for label, device in zip(each.nodes, each.placement)
    }


def _fallbacks(plan: Plan, trace: Trace, providers: Sequence[Provider]) -> list[dict[str, str]]:
    """The nodes that the first provider leaves to others, and what in them it cannot do."""
    homes = {
        label: each.devices[device]
        for each in _plans(plan)
        for label, device in zip(each.nodes, each.placement)
        if device > 0
    }
    reasons: dict[str, str] = {}
    for inner in _traces(trace):
        for equation in inner.equations:
            label = inner.labels[equation.origin] if equation.origin >= 0 else ""
            if label not in homes or reasons.get(label):
                continue
            with inner.guards:
                reasons[label] = _reason(providers[0], equation)
    return [{"node": label, "provider": home, "reason": reasons.get(label, "")} for label, home in homes.items()]


def _reason(provider: Provider, equation: Equation) -> str:
    """What a provider cannot do of an equation, "" if there is nothing."""
    if is_giant(provider, equation):
        return f"a tensor has more than {provider.largest():,} bytes"
    if supports(provider, equation):
        return ""
    inputs, outputs = ([array.dtype for array in arrays] for arrays in (equation.inputs, equation.outputs))
    taken, given = (", ".join(dict.fromkeys(map(str, types))) for types in (inputs, outputs))
    return f"no {equation.primitive.name} of {' to '.join(dict.fromkeys(filter(None, (taken, given))))}"
