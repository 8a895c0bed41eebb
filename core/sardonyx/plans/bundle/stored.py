"""Plans as bundles store them: what a run needs and no more, in short lists.

A plan is an object with these entries, of which empty ones are left out:

    inputs, outputs   [name, dtype, shape, buffer or null, symbols that the elements define]
    symbols           {symbol: [[input, axis], ...]}
    sizes             terms, see `sardonyx.plans.terms`
    guards            [expression, "==" or ">=", truth]
    buffers           [dtype, shape, epoch, numbers beneath, weight or "", once, elements where the shape tells less]
    steps, setup      [code, buffers, parameters], or an object for what is no launch
    functions         for each the plans made for it

Sizes are integers, symbols, or names of terms. Codes are numbered through all plans of a target. Everything is on one
device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.host import KEY
from sardonyx.model.structure import TENSOR, Cached, Form, form
from sardonyx.plans.plan import Buffer, Host, Launch, Plan, Port, Step, step_of
from sardonyx.plans.terms import Terms, resolved

Data = dict[str, Any]
NameSizes = Callable[[Sequence[Any]], list[Any]]
TermOf = Callable[[Any, Any], Any]
"""Gives the term of a name, or else the second operand."""


def store(plan: Plan, number: Callable[[Plan, Launch], int]) -> Data:
    """What a bundle stores of a plan on one device; `number` gives the number of a launch's code in its target."""

    def step(item: Step) -> Any:
        return [number(plan, item), item.buffers, names(item.params)] if isinstance(item, Launch) else vars(item)

    terms = Terms()
    names = terms.names
    data = {
        "inputs": [_port(port, names) for port in plan.inputs],
        "outputs": [_port(port, names) for port in plan.outputs],
        "symbols": plan.symbols,
        "sizes": terms.listed,
        "guards": [[terms.name(size), *truth] for size, *truth in plan.guards],
        "buffers": [_buffer(buffer, terms) for buffer in plan.buffers],
        "steps": list(map(step, plan.steps)),
        "setup": list(map(step, plan.setup)),
        "functions": [[store(inner, number) for inner in function] for function in plan.functions],
    }
    return {key: value for key, value in data.items() if value}


def foreign(plan: Plan) -> list[str]:
    """The labels of the nodes that run elsewhere than on the first device, in functions too."""
    hosted = {step.origin for step in plan.steps if isinstance(step, Host) and step.function != KEY}
    own = [label for k, label in enumerate(plan.nodes) if plan.placement[k] > 0 or k in hosted]
    inner = [label for function in plan.functions for each in function for label in foreign(each)]
    return list(dict.fromkeys(own + inner))


def load(
    data: Data, device: str, codes: Sequence[dict[str, Any]], strings: Sequence[str], weight: Callable[[str], Any]
) -> Plan:
    """The plan that `store` described, on a device; `weight` gives the constant of a name, or None."""
    terms = resolved(data.get("sizes", ()))
    buffers = [_buffer_of(terms.get, *item) for item in data.get("buffers", ())]
    plan = Plan(
        devices=[device],
        inputs=[_port_of(terms.get, *item) for item in data.get("inputs", ())],
        outputs=[_port_of(terms.get, *item) for item in data.get("outputs", ())],
        symbols=data.get("symbols", {}),
        guards=[[terms.get(size, size), *truth] for size, *truth in data.get("guards", ())],
        buffers=buffers,
        codes=list(codes),
        steps=[_step_of(terms.get, step) for step in data.get("steps", ())],
        strings=strings,
        weights=_weights(buffers, weight),
        functions=[[load(each, device, codes, strings, weight) for each in f] for f in data.get("functions", ())],
        terms=terms,
    )
    plan.arguments, plan.results = [_form(plan, port) for port in plan.inputs], [TENSOR] * len(plan.outputs)
    plan.setup = [_step_of(terms.get, step) for step in data.get("setup", ())]  # type: ignore[misc]
    return plan


def _form(plan: Plan, port: Port) -> Form:
    """The form of an input: of a cache, the output that lies in its buffer, and the axis along which that has room."""
    if not plan.is_cache(port):
        return TENSOR
    shape = plan.buffers[port.buffers[0]].shape
    axis = next((k for k, sizes in enumerate(zip(port.shape, shape)) if sizes[0] != sizes[1]), 0)
    output = next((each.name for each in plan.outputs if each.buffers == port.buffers), "")
    return form(Cached(output, axis, None))


def _weights(buffers: Sequence[Buffer], weight: Callable[[str], Any]) -> Mapping[str, np.ndarray]:
    names = dict.fromkeys(buffer.weight for buffer in buffers if buffer.weight is not None)
    arrays = ((name, weight(name)) for name in names)
    return {name: array for name, array in arrays if array is not None}


def _port(port: Port, names: NameSizes) -> list[Any]:
    item: list[Any] = [port.name, port.dtype, names(port.shape), port.buffers[0] if port.buffers else None]
    return [*item, port.symbols] if port.symbols else item


def _port_of(
    term: TermOf, name: str, dtype: str, shape: list[Any], buffer: int | None, symbols: Sequence[str] = ()
) -> Port:
    return Port(name, dtype, [term(size, size) for size in shape], [] if buffer is None else [buffer], list(symbols))


def _buffer(buffer: Buffer, terms: Terms) -> list[Any]:
    shape, weight = terms.names(buffer.shape), buffer.weight or ""
    item: list[Any] = [buffer.dtype, shape, buffer.epoch, buffer.beneath, weight, int(buffer.once)]
    if buffer.elements != _count(buffer.shape):
        return [*item, terms.name(buffer.elements)]
    while len(item) > 2 and not item[-1]:
        item.pop()
    return item


def _buffer_of(
    term: TermOf,
    dtype: str,
    shape: list[Any],
    epoch: int = 0,
    beneath: list[int] = [],  # noqa: B006 (nobody changes it)
    weight: str = "",
    once: int = 0,
    elements: Any = None,
) -> Buffer:
    shape = [term(size, size) for size in shape]
    room = _count(shape) if elements is None else term(elements, elements)
    return Buffer(0, dtype, shape, room, epoch, beneath, weight or None, bool(once))


def _count(shape: Sequence[Any]) -> Any:
    """How many elements a shape has, as a polynomial says it that is one product."""
    product = 1
    others = []
    for size in shape:
        if type(size) is int:
            product *= size
        else:
            others.append(size)
    if not others:
        return product
    return ["*", product, *others] if product != 1 else ["*", *others] if len(others) > 1 else others[0]


def _step_of(term: TermOf, item: Any) -> Step:
    if type(item) is not list:
        return step_of(item)
    code, buffers, params = item
    return Launch(code, buffers, [term(size, size) for size in params], [], 0)
