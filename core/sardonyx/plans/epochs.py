"""A plan cut into epochs: what is laid out, checked and bound together, from one halt to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.code.kernel import Kernel, Routine, Rows
from sardonyx.common import dtypes
from sardonyx.common.cached import cached_property
from sardonyx.common.record import record
from sardonyx.plans import plan as plans
from sardonyx.providers.contract import ALIGNMENT
from sardonyx.sizes.sizecode import Evaluator, Values, compile_all, symbols_of


@record
class Segment:
    """A run of consecutive launches on one device."""

    device: int
    number: int
    launches: list[plans.Launch]


@record
class Epoch:
    """What is laid out and bound together: everything up to the next halt, with functions of the symbols.

    `check` gives the values that `guards` speak of, `params` has the parameters of all launches of each segment, in
    order. `items` are the segments and the other steps.
    """

    buffers: list[int]
    items: list[Any]
    guards: list[list[Any]]
    check: Evaluator
    layout: Layout
    params: list[Values]

    @cached_property
    def halt(self) -> plans.Halt | None:
        """The step at which the epoch ends, if another one follows."""
        return self.items[-1] if self.items and plans.halts(self.items[-1]) else None

    @cached_property
    def segments(self) -> list[Segment]:
        return [item for item in self.items if isinstance(item, Segment)]


_FORMS: dict[str, Any] = {"kernel": Kernel, "routine": Routine, "rows": Rows}


def code_of(data: dict[str, Any]) -> Any:
    """The Kernel, Routine, Rows or Program that a plan stores, or a provider's own code from a bundle."""
    if "bundled" in data:
        return data["bundled"]
    told = {name: value for name, value in data.items() if name not in ("device", "kind")}
    if (kind := data.get("kind", "program")) == "program":
        from sardonyx.code.program import Program  # which brings the scalar functions

        return Program.from_json(told)
    return _FORMS[kind].from_json(told)


def split(plan: plans.Plan, singly: bool = False) -> list[Epoch]:
    """The epochs of a plan, each with its share of buffers, steps and guards; `singly`, each launch is a segment."""
    epochs = []
    symbols = _symbols_at_start(plan)
    waiting = list(plan.guards)
    for number, items in enumerate(_items(plan, singly)):
        guards = [guard for guard in waiting if symbols_of(guard[0]) <= symbols]
        waiting = [guard for guard in waiting if guard not in guards]
        buffers = [k for k, buffer in enumerate(plan.buffers) if buffer.weight is None and buffer.epoch == number]
        segments = [item.launches for item in items if isinstance(item, Segment)]
        epochs.append(
            Epoch(
                buffers,
                items,
                guards,
                compile_all([guard[0] for guard in guards]),
                Layout(plan, buffers),
                [Values([param for launch in launches for param in launch.params]) for launches in segments],
            )
        )
        if halt := epochs[-1].halt:
            symbols.update(halt.defines)
    return epochs


def _items(plan: plans.Plan, singly: bool) -> list[list[Any]]:
    """The steps of every epoch, consecutive launches on one device joined to segments."""
    result: list[list[Any]] = [[]]
    counts = [0] * len(plan.devices)
    for step in plan.steps:
        items = result[-1]
        if not isinstance(step, plans.Launch):
            items.append(step)
            if plans.halts(step):
                result.append([])
            continue
        if singly or not (items and isinstance(items[-1], Segment) and items[-1].device == step.device):
            items.append(Segment(step.device, counts[step.device], []))
            counts[step.device] += 1
        items[-1].launches.append(step)
    return result


def _symbols_at_start(plan: plans.Plan) -> set[str]:
    """All symbols in guards but those that halts define."""
    every: set[str] = set().union(*(symbols_of(guard[0]) for guard in plan.guards))
    return every.difference(*(step.defines for step in plan.steps if plans.halts(step)))


class Layout:
    """Where the buffers of an epoch lie, for any sizes.

    Those of one kind lie on one device, and need as many bytes as one another whatever the sizes are; `kinds` numbers
    them in the order in which `first` has the first buffer of each.
    """

    def __init__(self, plan: plans.Plan, numbers: list[int]) -> None:
        places = {number: k for k, number in enumerate(numbers)}
        buffers = [plan.buffers[number] for number in numbers]
        elements = Values([buffer.elements for buffer in buffers])
        self._elements = elements.distinct
        # Two negative sizes would make a positive product. What a nonzero finds is not known yet.
        shapes = [(buffer.shape, symbols_of(buffer.elements)) for buffer in buffers]
        sizes = {str(size): size for shape, names in shapes for size in shape if symbols_of(size) <= names}
        self._sizes = compile_all(list(sizes.values()))
        widths = {name: dtypes.by_name(name).itemsize for name in {buffer.dtype for buffer in buffers}}
        self._devices = [buffer.device for buffer in buffers]
        kinds: dict[tuple[int, int, int], int] = {}
        self.kinds: list[int] = []
        self.first: list[int] = []
        for number, buffer, place in zip(numbers, buffers, elements.places, strict=True):
            kind = kinds.setdefault((place, widths[buffer.dtype], buffer.device), len(kinds))
            if kind == len(self.first):
                self.first.append(number)
            self.kinds.append(kind)
        self._sources = [(place, width) for place, width, _ in kinds]
        self._below = [[places[other] for other in buffer.beneath] for buffer in buffers]
        self._order = _topological(self._below)

    def rooms(self, symbols: Mapping[str, int]) -> list[int] | None:
        """The bytes that each buffer needs; None where a size would be negative, as of a window that fits no more."""
        rooms = self.rooms_by_kind(symbols)
        return None if rooms is None else self.by_buffer(rooms)

    def rooms_by_kind(self, symbols: Mapping[str, int]) -> list[int] | None:
        """The same, of a buffer of each kind."""
        counts = self._elements(symbols)
        if min(counts, default=0) < 0 or min(self._sizes(symbols), default=0) < 0:
            return None
        return [-(-counts[place] * width // 4) * 4 for place, width in self._sources]

    def by_buffer(self, rooms: Sequence[int]) -> list[int]:
        """For each buffer, what there is for its kind."""
        return [rooms[kind] for kind in self.kinds]

    def place(self, rooms: list[int]) -> tuple[dict[int, int], list[int]]:
        """The bytes of each device's chunk, and the offset of each buffer, for these rooms or smaller ones."""
        ends, offsets = [0] * len(rooms), [0] * len(rooms)
        totals: dict[int, int] = {}
        for k in self._order:
            start = max([ends[other] for other in self._below[k]]) if self._below[k] else 0
            offsets[k] = start
            ends[k] = start + -(-rooms[k] // ALIGNMENT) * ALIGNMENT
            if ends[k] > totals.get(self._devices[k], -1):
                totals[self._devices[k]] = ends[k]
        return totals, offsets


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
