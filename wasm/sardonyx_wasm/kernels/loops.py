"""Loops over the axes of a kernel: one by one, or by vectors, the last of which may overlap the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from ..assembler import Function, Operand, Variable, i32
from ..code import Unit
from .body import Body
from .graph import Graph
from .scope import expr, minus, plus, times
from .strategy import LANES, Strategy

Bounds: TypeAlias = tuple[Operand, Operand]


def divides_second(graph: Graph, strategy: Strategy) -> bool:
    """Whether the units are steps along the second axis where the first has one place only: a batch of one.

    Short loops along the lanes of a second axis would be slower for it.
    """
    if graph.rank < 2 or not all(isinstance(size, str) for size in graph.extents[:2]):
        return False
    return bool(graph.kernel.folds) or 1 not in (strategy.lanes, strategy.across)


def divided(f: Function, extents: Sequence[Operand], second: bool) -> list[Bounds]:
    """Where a call starts and stops along the first axes: the first one, or the second where that may be divided."""
    if not second:
        return [(f.begin, f.end)] if extents else []
    single = f.let(expr(extents[0]) == 1)
    return [
        (f.let(f.select(single, 0, f.begin)), f.let(f.select(single, 1, f.end))),
        (f.let(f.select(single, f.begin, 0)), f.let(f.select(single, f.end, expr(extents[1])))),
    ]


class Loops(Body):
    """A body with loops; calls do a part of the first axis, or of the second, and one axis only `within` bounds."""

    def __init__(
        self,
        unit: Unit,
        f: Function,
        graph: Graph,
        strategy: Strategy,
        second: bool,
        within: tuple[int, Variable, Variable] | None = None,
    ) -> None:
        super().__init__(unit, f, graph, strategy)
        self.within = within
        self._divided = divided(f, [self.size(extent) for extent in graph.extents[: graph.rank]], second)

    def bounds(self, axis: int) -> Bounds:
        """Where a loop along an axis starts and stops."""
        if self.within and self.within[0] == axis:
            return self.within[1:]
        if axis < len(self._divided):
            return self._divided[axis]
        return 0, self.size(self.graph.extents[axis])

    @contextmanager
    def walk(self, axis: int, start: Operand, moved: Operand | None = None) -> Iterator[Variable]:
        """Inside, the axis has a counter that begins at `start`, and pointers of its own.

        Those outside are `moved` before that place; `start` if not given.
        """
        moved = start if moved is None else moved
        with self.nest():
            self.settle()
            counter = self.f.local(i32, init=start)
            self.counters[axis] = counter
            self.moving[axis] = []
            for access in self.graph.accesses:
                if axis in access.axes:
                    pointer, extra = self.pointers[access]
                    distance = times(moved, self.product(access.axes[axis], access.width))
                    variable = self.f.let(expr(plus(pointer, distance)))
                    self.pointers[access] = variable, extra
                    self.moving[axis].append((access, variable))
            yield counter

    def step(self, axis: int, count: Operand) -> None:
        """Go on along an axis."""
        for access, pointer in self.moving[axis]:
            stride = access.axes[axis]
            if isinstance(count, int):
                distance = self.product(stride, count * access.width)
            else:
                distance = times(count, self.product(stride, access.width))
            self.f.set(pointer, pointer + distance)
        counter = self.counters[axis]
        self.f.set(counter, counter + count)

    @contextmanager
    def tiles(self, axis: int, start: Operand, stop: Operand, size: int) -> Iterator[tuple[Variable, Variable]]:
        """The block for every tile along an axis, given its bounds; pointers are at its start."""
        with self.walk(axis, start) as at, self.f.while_(at < stop), self.nest():
            end = self.f.let(self.f.select(at + size < stop, at + size, expr(stop)))
            yield at, end
            self.step(axis, size)

    @contextmanager
    def each(self, axis: int) -> Iterator[None]:
        """The block for every place along an axis."""
        start, stop = self.bounds(axis)
        with self.walk(axis, start) as at, self.f.while_(at < stop), self.nest():
            yield
            self.step(axis, 1)

    def nested(self, axes: tuple[int, ...], level: int, inside: Callable[[], None]) -> None:
        """Loops along axes, with the nodes of their levels, around what `inside` writes."""
        if not axes:
            inside()
            return
        with self.each(axes[0]):
            self.emit(self.at_level(level + 1))
            self.nested(axes[1:], level + 1, inside)

    def by_vectors(
        self, axis: int, bounds: Bounds, body: Callable[[int], None], scalar: Callable[[], None] | None, most: int = 1
    ) -> None:
        """Run `body(n)`, which does n vectors, over a range along an axis; fewer elements than a vector by `scalar`,
        which does one. Without it there are enough."""
        start, stop = bounds
        if isinstance(start, int) and isinstance(stop, int):
            if stop - start >= LANES:
                self._vectors(axis, bounds, body, most)
            elif scalar is not None:
                self._singly(axis, bounds, scalar)
            return
        if scalar is None:
            self._vectors(axis, bounds, body, most)
            return
        self.settle()
        with self.f.if_(expr(minus(stop, start)) >= LANES):
            self._vectors(axis, bounds, body, most)
        with self.f.else_():
            self._singly(axis, bounds, scalar)

    def _singly(self, axis: int, bounds: Bounds, scalar: Callable[[], None]) -> None:
        start, stop = bounds
        with self.scalars(), self.walk(axis, start) as at, self.f.while_(at < stop), self.nest():
            scalar()
            self.step(axis, 1)

    def _vectors(self, axis: int, bounds: Bounds, body: Callable[[int], None], most: int) -> None:
        f, (start, stop) = self.f, bounds
        with self.walk(axis, start) as at:
            if most == 1:
                with self.overlapping(axis, stop):
                    body(1)
                return
            wide = self.let(expr(plus(stop, -most * LANES)))
            with f.while_(at <= wide), self.nest():
                body(most)
                self.step(axis, most * LANES)
            self.settle()
            with f.if_(at < stop), self.nest(), self.overlapping(axis, stop):  # constants are loaded before a loop
                body(1)

    @contextmanager
    def overlapping(self, axis: int, stop: Operand) -> Iterator[None]:
        """The block for one vector after the other, the last one moved back to end at `stop`."""
        f, at = self.f, self.counters[axis]
        last = self.let(expr(plus(stop, -LANES)))
        with f.block() as done, f.repeat() as again:
            with f.if_(at > last):
                f.br_if(done, at >= stop)
                self.step(axis, f.let(last - at))
            with self.nest():
                yield
                self.step(axis, LANES)
            f.br(again)
