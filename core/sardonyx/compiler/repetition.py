"""Launches of a forward pass are repeated in its backward pass, where a memory limit asks for it.

A plan's steps are the last thing that the compiler makes: nothing merges equal ones any more, or moves them. A launch
that is repeated is the same launch, with other buffers for what it makes, so it gives the same bits. What the host
does, such as drawing a random key or running a loop, is never repeated: what it gives and what it reads are stored.
`sardonyx.compiler.checkpoints` chooses what else is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import sqrt
from typing import Any

from sardonyx.code.cost import cost
from sardonyx.common import dtypes
from sardonyx.common.record import record, replace
from sardonyx.compiler.checkpoints import Passes, Step, choose
from sardonyx.plans import plan as plans
from sardonyx.plans.epochs import split
from sardonyx.plans.setup import read, written
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.polynomial import ZERO, Poly
from sardonyx.sizes.symbolic import size

NEVER = -2
"""A moment at which no step takes place, and nothing is fed."""


@record
class Launches:
    """A plan's steps and its buffers, the elements of each, their bytes in the call at hand, and between which steps it
    is alive; codes, and the buffers that are inputs and outputs."""

    steps: list[plans.Step]
    buffers: list[plans.Buffer]
    elements: list[Poly]
    rooms: list[int]
    lives: list[list[int]]
    codes: Sequence[Mapping[str, Any]]
    inputs: Sequence[int]
    outputs: Sequence[int]

    def within(self, limit: int, trace: Trace) -> list[plans.Step]:
        """The steps, some of them twice where values that are stored for the trace's backward pass need more than so
        many bytes; buffers are added and changed. A guard says up to which sizes there is room."""
        before = self._passes(trace.backward)
        if before is None:
            return self.steps
        now = before
        if before.peak() > limit or before.arena() > limit:
            now = before.storing(choose(before, limit))
            self._settle(now)
        if (arena := now.arena()) <= limit:
            self._guard(now.at_peak(), limit * now.peak() // max(1, arena), trace)
        return self.steps if now is before else self._replayed(before, now)

    def _passes(self, backward: Collection[int]) -> Passes | None:
        """The passes before and from the first launch of these nodes on, whose values are buffers; None without one."""
        steps: list[Step] = []
        start, epoch = None, 0
        for number, step in enumerate(self.steps):
            if start is None and isinstance(step, plans.Launch) and not set(step.origins).isdisjoint(backward):
                start = number
            epoch += plans.halts(step)
            reads, writes = self._laid(read(step, self.codes)), self._laid(written(step, self.codes))
            stays = not isinstance(step, (plans.Launch, plans.Copy))
            steps.append(Step(number, reads, writes, self._work(step), epoch, stays))
        if start is None:
            return None
        chunks = [(buffer.device, buffer.epoch) for buffer in self.buffers]
        inputs, outputs = self._laid(self.inputs), self._laid(self.outputs)
        return Passes(steps, start, list(self.rooms), chunks, inputs, outputs)

    def _guard(self, numbers: Sequence[int], limit: int, trace: Trace) -> None:
        """Leave a guard that these buffers have so many bytes at most, if calls tell their sizes."""
        nbytes = ZERO
        for number in numbers:
            nbytes = nbytes + self.elements[number].scaled(dtypes.by_name(self.buffers[number].dtype).itemsize)
        if trace.fresh.isdisjoint(nbytes.symbols()):
            _ = size(nbytes) > limit

    def _settle(self, passes: Passes) -> None:
        """Have the buffers that passes need, and no memory for others."""
        for number, sample in enumerate(passes.added, len(self.buffers)):
            self.buffers.append(replace(self.buffers[sample], epoch=passes.chunks[number][1]))
            self.elements.append(self.elements[sample])
            self.rooms.append(self.rooms[sample])
            self.lives.append([0, 0])
        lives = passes.lives()
        for number in self._laid(range(len(self.buffers))):
            if number in lives:
                self.lives[number] = list(lives[number])
            else:  # it lies nowhere, and keeps no other buffer away
                self.buffers[number].shape, self.buffers[number].elements, self.rooms[number] = [0], 0, 0
                self.lives[number] = [NEVER, NEVER]

    def _replayed(self, before: Passes, now: Passes) -> list[plans.Step]:
        """The steps of passes that were made of others, those of the plan."""
        result: list[plans.Step] = []
        for each in now.steps:
            step, old = self.steps[each.number], before.steps[each.number]
            places = dict(zip((*old.reads, *old.writes), (*each.reads, *each.writes), strict=True))
            if isinstance(step, plans.Launch):
                step = replace(step, buffers=[places.get(number, number) for number in step.buffers])
            elif isinstance(step, plans.Copy):
                step = plans.Copy(places.get(step.source, step.source), places[step.target])
            result.append(step)
        return result

    def _laid(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Those of the buffers that lie in a chunk, each once."""
        return tuple(
            number
            for number in dict.fromkeys(numbers)
            if number >= 0 and self.buffers[number].weight is None and self.buffers[number].epoch != plans.OUTSIDE
        )

    def _work(self, step: plans.Step) -> float:
        """The operations of a step, in additions, roughly. Those of a product are the root of the elements of operands
        and result, multiplied."""
        if not isinstance(step, plans.Launch):
            return 0.0
        code = self.codes[step.code]
        reads, writes = ([self._count(k) for k in of(step, self.codes)] for of in (read, written))
        kind, widest = code.get("kind"), max((*reads, *writes))
        if kind == "kernel":
            return float(widest * _cost(code["nodes"]))
        if kind == "rows":
            return float(widest * sum(_cost(nodes) for _, _, _, nodes, _ in code["kernels"]))
        operands = sorted(reads[: len(code.get("inputs", ()))], reverse=True)
        after = 0 if code.get("epilogue") is None else _cost(code["epilogue"]["nodes"])
        taken = sqrt(float(operands[0]) * operands[1] * max(writes)) if len(operands) > 1 else widest
        return taken + float(max(writes) * after)

    def _count(self, number: int) -> int:
        return self.rooms[number] // dtypes.by_name(self.buffers[number].dtype).itemsize


def held_inside(functions: Iterable[Sequence[plans.Plan]], hints: Mapping[str, int]) -> int:
    """The bytes that the bodies of control flow take beside what is around them; sizes that only a run tells are 1."""
    sizes, total = defaultdict(lambda: 1, hints), 0
    for plan, *_ in functions:
        for epoch in split(plan):
            totals, _ = epoch.layout.place(epoch.layout.rooms(sizes) or [0] * len(epoch.buffers))
            total += sum(totals.values())
        total += held_inside(plan.functions, hints)
    return total


def _cost(nodes: Iterable[Sequence[Any]]) -> int:
    """What an element takes that these nodes compute."""
    return sum(cost(function) for function, *_ in nodes)
