"""A plan cut into epochs: what is laid out, checked and bound together, from one halt to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sardonyx import dtypes
from sardonyx import plan as plans
from sardonyx.compiler.kernel import Kernel, Routine
from sardonyx.compiler.program import Program
from sardonyx.device import ALIGNMENT
from sardonyx.sizecode import Evaluator, compile_all, symbols_of


@dataclass
class Segment:
    """A run of consecutive launches on one device."""

    device: int
    number: int
    launches: list[plans.Launch]


@dataclass
class Epoch:
    """What is laid out and bound together: everything up to the next halt, with functions of the symbols.

    `check` gives the values that `guards` speak of, `layout` is that of `layout()`, `params` gives the parameters of
    all launches in order. `items` are the segments and the other steps.
    """

    buffers: list[int]
    items: list[Any]
    guards: list[list[Any]]
    check: Evaluator
    layout: Callable[[Mapping[str, int]], Any]
    params: Evaluator

    @property
    def segments(self) -> list[Segment]:
        return [item for item in self.items if isinstance(item, Segment)]


_FORMS: dict[str, Any] = {"kernel": Kernel, "routine": Routine, "program": Program}


def code_of(data: dict[str, Any]) -> Any:
    """The Kernel, Routine or Program that a plan stores."""
    kind = data.get("kind", "program")
    return _FORMS[kind].from_json({name: value for name, value in data.items() if name not in ("device", "kind")})


def split(plan: plans.Plan) -> list[Epoch]:
    """The epochs of a plan, each with its share of buffers, steps and guards."""
    epochs = []
    known = _symbols_at_start(plan)
    waiting = list(plan.guards)
    for number, items in enumerate(_items(plan)):
        guards = [guard for guard in waiting if symbols_of(guard[0]) <= known]
        waiting = [guard for guard in waiting if guard not in guards]
        buffers = [k for k, buffer in enumerate(plan.buffers) if buffer.weight is None and buffer.epoch == number]
        launches = [launch for item in items if isinstance(item, Segment) for launch in item.launches]
        epochs.append(
            Epoch(
                buffers,
                items,
                guards,
                compile_all([guard[0] for guard in guards]),
                layout(plan, buffers),
                compile_all([param for launch in launches for param in launch.params]),
            )
        )
        if items and isinstance(items[-1], plans.HALTS):
            known.update(items[-1].defines)
    return epochs


def _items(plan: plans.Plan) -> list[list[Any]]:
    """The steps of every epoch, consecutive launches on one device joined to segments."""
    result: list[list[Any]] = [[]]
    counts = [0] * len(plan.devices)
    for step in plan.steps:
        items = result[-1]
        if not isinstance(step, plans.Launch):
            items.append(step)
            if isinstance(step, plans.HALTS):
                result.append([])
            continue
        if not (items and isinstance(items[-1], Segment) and items[-1].device == step.device):
            items.append(Segment(step.device, counts[step.device], []))
            counts[step.device] += 1
        items[-1].launches.append(step)
    return result


def _symbols_at_start(plan: plans.Plan) -> set[str]:
    """All symbols in guards but those that halts define."""
    every: set[str] = set().union(*(symbols_of(guard[0]) for guard in plan.guards))
    return every.difference(*(step.defines for step in plan.steps if isinstance(step, plans.HALTS)))


def layout(plan: plans.Plan, numbers: list[int]) -> Callable[[Mapping[str, int]], Any]:
    """A function from symbols to bytes per device, and to offset and room of every buffer of an epoch.

    It gives None where a buffer would have less than no elements: a window that does not fit any more, say.
    """
    places = {number: k for k, number in enumerate(numbers)}
    items = [plan.buffers[number].elements for number in numbers]
    widths = [dtypes.by_name(plan.buffers[number].dtype).itemsize for number in numbers]
    below = [[places[other] for other in plan.buffers[number].beneath] for number in numbers]
    devices = [plan.buffers[number].device for number in numbers]
    elements = compile_all(items)
    order = _topological(below)

    def place(symbols: Mapping[str, int]) -> Any:
        counts = elements(symbols)
        if any(count < 0 for count in counts):
            return None
        rooms = [-(-count * width // 4) * 4 for count, width in zip(counts, widths, strict=True)]
        ends = [0] * len(rooms)
        offsets = [0] * len(rooms)
        totals: dict[int, int] = {}
        for k in order:
            start = max([ends[other] for other in below[k]]) if below[k] else 0
            offsets[k] = start
            ends[k] = start + -(-rooms[k] // ALIGNMENT) * ALIGNMENT
            if ends[k] > totals.get(devices[k], -1):
                totals[devices[k]] = ends[k]
        return totals, offsets, rooms

    return place


def _topological(below: list[list[int]]) -> list[int]:
    order: list[int] = []
    done = [False] * len(below)
    for first in range(len(below)):
        stack = [first]
        while stack:
            top = stack[-1]
            waiting = [k for k in below[top] if not done[k]]
            if waiting and not done[top]:
                stack += waiting
                continue
            stack.pop()
            if not done[top]:
                done[top] = True
                order.append(top)
    return order
