"""Plans as bundles store them: what a run needs and no more, in short lists.

A plan is an object with these entries, of which empty ones are left out:

    inputs, outputs   [name, dtype, shape, buffer or null, symbols that the elements define]
    symbols           {symbol: [[input, axis], ...]}
    guards            [expression, "==" or ">=", truth]
    buffers           [dtype, shape, epoch, numbers beneath, weight or "", once, elements where the shape tells less]
    steps, setup      [code, buffers, parameters], or an object for what is no launch
    functions         for each the plans made for it

Expressions are integers, symbols, or `[operator, operand, ...]`, as in `sardonyx.plan`. Codes are numbered through all
plans of a target. Everything is on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx.plan import Buffer, Host, Launch, Plan, Port, Step, step_of
from sardonyx.structure import TENSOR

Data = dict[str, Any]


def store(plan: Plan, number: Callable[[Plan, Launch], int]) -> Data:
    """What a bundle stores of a plan on one device; `number` gives the number of a launch's code in its target."""

    def step(item: Step) -> Any:
        return [number(plan, item), item.buffers, item.params] if isinstance(item, Launch) else vars(item)

    data = {
        "inputs": [_port(port) for port in plan.inputs],
        "outputs": [_port(port) for port in plan.outputs],
        "symbols": plan.symbols,
        "guards": plan.guards,
        "buffers": [_buffer(buffer) for buffer in plan.buffers],
        "steps": list(map(step, plan.steps)),
        "setup": list(map(step, plan.setup)),
        "functions": [[store(inner, number) for inner in function] for function in plan.functions],
    }
    return {key: value for key, value in data.items() if value}


def foreign(plan: Plan) -> list[str]:
    """The labels of the nodes that run elsewhere than on the first device, in functions too."""
    hosted = {step.origin for step in plan.steps if isinstance(step, Host)}
    own = [label for k, label in enumerate(plan.nodes) if plan.placement[k] > 0 or k in hosted]
    inner = [label for function in plan.functions for each in function for label in foreign(each)]
    return list(dict.fromkeys(own + inner))


def load(
    data: Data, device: str, codes: Sequence[dict[str, Any]], strings: Sequence[str], weight: Callable[[str], Any]
) -> Plan:
    """The plan that `store` told of, on a device; `weight` gives the constant of a name, or None."""
    buffers = [_buffer_of(*item) for item in data.get("buffers", ())]
    plan = Plan(
        devices=[device],
        inputs=[_port_of(*item) for item in data.get("inputs", ())],
        outputs=[_port_of(*item) for item in data.get("outputs", ())],
        symbols=data.get("symbols", {}),
        guards=data.get("guards", []),
        buffers=buffers,
        codes=list(codes),
        steps=list(map(_step_of, data.get("steps", ()))),
        strings=strings,
        weights=_weights(buffers, weight),
        functions=[[load(each, device, codes, strings, weight) for each in f] for f in data.get("functions", ())],
    )
    plan.arguments, plan.results = [TENSOR] * len(plan.inputs), [TENSOR] * len(plan.outputs)
    plan.setup = [step for step in map(_step_of, data.get("setup", ())) if isinstance(step, Launch)]
    return plan


def _weights(buffers: Sequence[Buffer], weight: Callable[[str], Any]) -> Mapping[str, np.ndarray]:
    names = dict.fromkeys(buffer.weight for buffer in buffers if buffer.weight is not None)
    found = ((name, weight(name)) for name in names)
    return {name: array for name, array in found if array is not None}


def _port(port: Port) -> list[Any]:
    item: list[Any] = [port.name, port.dtype, port.shape, port.buffers[0] if port.buffers else None]
    return [*item, port.symbols] if port.symbols else item


def _port_of(name: str, dtype: str, shape: list[Any], buffer: int | None, symbols: Sequence[str] = ()) -> Port:
    return Port(name, dtype, shape, [] if buffer is None else [buffer], list(symbols))


def _buffer(buffer: Buffer) -> list[Any]:
    item: list[Any] = [buffer.dtype, buffer.shape, buffer.epoch, buffer.beneath, buffer.weight or "", int(buffer.once)]
    if buffer.elements != _count(buffer.shape):
        return [*item, buffer.elements]
    while len(item) > 2 and not item[-1]:
        item.pop()
    return item


def _buffer_of(
    dtype: str,
    shape: list[Any],
    epoch: int = 0,
    beneath: Sequence[int] = (),
    weight: str = "",
    once: int = 0,
    elements: Any = None,
) -> Buffer:
    room = _count(shape) if elements is None else elements
    return Buffer(0, dtype, shape, room, epoch, list(beneath), weight or None, bool(once))


def _count(shape: Sequence[Any]) -> Any:
    """How many elements a shape has."""
    if all(isinstance(size, int) for size in shape):
        return prod(shape)
    return ["*", *shape] if len(shape) > 1 else shape[0]


def _step_of(item: Any) -> Step:
    if not isinstance(item, list):
        return step_of(item)
    code, buffers, params = item
    return Launch(code, buffers, params, [], 0)
