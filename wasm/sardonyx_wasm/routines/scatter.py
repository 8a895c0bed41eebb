"""Scattering: a unit is a part of the result that no other unit's updates reach.

Axes of x before the first one that is indexed, and neighbouring columns behind the last one, tell such parts apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from sardonyx.code.kernel import Routine

from .. import vectors
from ..assembler import Expr, Variable, i32, i64, op
from ..code import Code, Unit
from ..scalars import functions, values
from ..scalars.values import kind
from . import frame, order

COLUMNS = 1024
"""Elements along the last axis that a unit has at most."""


def scatter(unit: Unit, routine: Routine) -> Code:
    """`scatter_updates`: x, updates, an array of indices for each of `axes` -> x with the updates, as `scatter` says.

    Each of `lines` is an axis of x and an axis of the indices: their updates stay where they are along it.
    """
    return _Scatter(unit, routine).write()


class _Scatter:
    def __init__(self, unit: Unit, routine: Routine) -> None:
        self.element = kind(routine.reads[0])
        self.width = self.element.bits // 8
        self.wide = [dtype in ("int64", "uint64") for dtype in routine.reads[2:]]
        self.reduction: str = routine.attributes["reduction"]
        self.axes: list[int] = list(routine.attributes["axes"])
        self.lines: dict[int, int] = dict(map(tuple, routine.attributes["lines"]))
        self.shape, _, self.counts = routine.inputs[:3]
        rank = len(self.shape)
        self.kept = [axis for axis in range(rank) if axis not in self.axes and axis not in self.lines]
        self.turns = [k for k in range(len(self.counts)) if k not in self.lines.values()]
        self.leading = min(self.axes)
        run = rank
        if rank - 1 in self.lines:
            run -= 1
        while run - 1 in self.kept and run - 1 > max(self.axes) and rank - 1 not in self.lines:
            run -= 1
        self.run = list(range(run, rank))
        self.middle = [axis for axis in range(self.leading, run) if axis not in self.axes]
        self.unit = unit
        self.f = frame.function(unit, routine)
        self.x, self.updates, *self.indices, self.y = frame.buffers(self.f, routine)
        self.scope = vectors.FunctionScope(unit, self.f)

    def write(self) -> Code:
        with self.f as f:
            self._measure()
            row = f.let(frame.product(f, [self.shape[axis] for axis in self.run]))
            slab = f.let(frame.product(f, self.shape[self.leading :]))
            blocks = f.let(i32.div_u(row + (COLUMNS - 1), COLUMNS))
            number = f.local(i32)
            with f.loop(number, f.begin, f.end):
                outer = f.let(i32.div_u(number, blocks))
                first = f.let((number - outer * blocks) * COLUMNS)
                last = f.let(frame.least(f, first + COLUMNS, row))
                target = f.let(outer * slab)
                self._copy(target, slab, row, first, last, blocks)
                with self._outer(outer) as (update, index):
                    self._update(target, update, index, first, last)
        return Code(f, self._units())

    def _units(self) -> Any:
        outer, row = self.shape[: self.leading], frame.units([self.shape[axis] for axis in self.run])
        if isinstance(row, int):
            return frame.units([*outer, -(-row // COLUMNS)])
        blocks = ["div", "int32", ["add", "int32", row, _number(COLUMNS - 1)], _number(COLUMNS)]
        count = frame.units(outer)
        return ["mul", "int32", _number(count) if isinstance(count, int) else count, blocks]

    def _measure(self) -> None:
        """Sizes, and the steps along axes of x and of the indices, in elements of x, the updates and the indices."""
        f = self.f
        self.sizes = [frame.size(f, size) for size in self.shape]
        every = len(self.shape)
        self.steps = [f.let(frame.product(f, self.shape[axis + 1 :])) for axis in range(every)]
        kept = [self.shape[axis] for axis in self.kept]
        self.of_kept = {axis: f.let(frame.product(f, kept[place + 1 :])) for place, axis in enumerate(self.kept)}
        slice_ = f.let(frame.product(f, kept))
        self.of_index = [f.let(frame.product(f, self.counts[k + 1 :])) for k in range(len(self.counts))]
        self.of_update = [f.let(step * slice_) for step in self.of_index]

    def _strides(self, axis: int) -> tuple[Expr, Expr | None]:
        """The steps in updates and indices along an axis of x that is not indexed."""
        if axis in self.of_kept:
            return self.of_kept[axis], None
        return self.of_update[self.lines[axis]], self.of_index[self.lines[axis]]

    def _extent(self, axis: int) -> Expr:
        """How far updates go along an axis of x that is not indexed."""
        if axis in self.of_kept:
            return self.sizes[axis]
        return self.f.let(frame.least(self.f, self.sizes[axis], frame.size(self.f, self.counts[self.lines[axis]])))

    def _copy(self, target: Expr, slab: Expr, row: Expr, first: Expr, last: Expr, blocks: Expr) -> None:
        f = self.f

        def copy(place: Expr, count: Expr) -> None:
            at = f.let(place * self.width)
            f.do(op("memory.copy", self.y + at, self.x + at, count * self.width))

        with f.if_(blocks == 1):
            copy(target, slab)
        with f.else_():
            at = f.local(i32)
            with f.loop(at, target, target + slab, step=row):
                copy(at + first, last - first)

    @contextmanager
    def _outer(self, number: Expr) -> Iterator[tuple[Expr, Expr]]:
        """Where the updates and indices of a unit start, if it has any."""
        f = self.f
        rest, update, index, inside = f.let(number), f.local(i32), f.local(i32), f.local(i32)
        f.set(update, 0)
        f.set(index, 0)
        f.set(inside, 1)
        for axis in reversed(range(self.leading)):
            above = f.let(i32.div_u(rest, self.sizes[axis]))
            place = f.let(rest - above * self.sizes[axis])
            f.set(rest, above)
            of_update, of_index = self._strides(axis)
            f.set(update, update + place * of_update)
            if of_index is not None:
                f.set(index, index + place * of_index)
                f.set(inside, inside & (place < self._extent(axis)))
        with f.if_(inside):
            yield update, index

    @contextmanager
    def _loop(self, count: Expr, places: Sequence[Expr], steps: Sequence[Expr | None]) -> Iterator[list[Expr]]:
        """A loop in which places go on by steps."""
        f, number = self.f, self.f.local(i32)
        now = [place if step is None else f.let(place) for place, step in zip(places, steps)]
        with f.loop(number, 0, count):
            yield now
            for place, step in zip(now, steps):
                if step is not None and isinstance(place, Variable):
                    f.set(place, place + step)

    def _update(self, target: Expr, update: Expr, index: Expr, first: Expr, last: Expr) -> None:
        """All updates of a unit in their order; loops over axes that are not indexed may be inside."""
        inner = [axis for axis in self.middle if axis in self.lines]
        places: Sequence[Expr] = [target, update, index]
        with ExitStack() as stack:
            for k in self.turns:
                count = frame.size(self.f, self.counts[k])
                steps: list[Expr | None] = [None, self.of_update[k], self.of_index[k]]
                places = stack.enter_context(self._loop(count, places, steps))
            for axis in inner:
                steps = [self.steps[axis], *self._strides(axis)]
                places = stack.enter_context(self._loop(self._extent(axis), places, steps))
            if self.run and self.run[-1] in self.lines:
                self._elements(places, first, last)
                return
            with self._found(places[0], places[2]) as place, self._kept([place, places[1]]) as now:
                self._slice(now, first, last)

    @contextmanager
    def _kept(self, places: Sequence[Expr]) -> Iterator[Sequence[Expr]]:
        """Loops over the axes in the middle that slices have."""
        with ExitStack() as stack:
            for axis in self.middle:
                if axis in self.of_kept:
                    steps = [self.steps[axis], self.of_kept[axis]]
                    places = stack.enter_context(self._loop(self.sizes[axis], places, steps))
            yield places

    @contextmanager
    def _found(self, target: Expr, index: Expr) -> Iterator[Expr]:
        """The place in x that indices tell, if it is one."""
        f, inside = self.f, None
        for axis, wide, base in zip(self.axes, self.wide, self.indices):
            if wide:
                found = f.let(i64.load(base + (index << 3)))
                fits = i64.lt_u(found, i64.extend_i32_u(self.sizes[axis]))
                number = i32.wrap_i64(found)
            else:
                number = f.let(i32.load(base + (index << 2)))
                fits = i32.lt_u(number, self.sizes[axis])
            inside = fits if inside is None else inside & fits
            target = f.let(target + number * self.steps[axis])
        assert inside is not None
        with f.if_(inside):
            yield target

    def _elements(self, places: Sequence[Expr], first: Expr, last: Expr) -> None:
        """Columns that have an index each; the other kept axes are inside."""
        f = self.f
        axis = self.run[-1]
        of_update, of_index = self._strides(axis)
        assert of_index is not None
        end = f.let(frame.least(f, last, self._extent(axis)))
        begins = [f.let(place + first * step) for place, step in zip(places, (1, of_update, of_index))]
        with (
            self._loop(end - first, begins, [i32.const(1), of_update, of_index]) as now,
            self._found(now[0], now[2]) as place,
            self._kept([place, now[1]]) as inner,
        ):
            self._element(self.y + inner[0] * self.width, self.updates + inner[1] * self.width)

    def _slice(self, places: Sequence[Expr], first: Expr, last: Expr) -> None:
        """The columns of an update, which lie side by side."""
        f = self.f
        target, source = (
            f.let(base + (place + first) * self.width) for base, place in zip((self.y, self.updates), places)
        )
        if not self.run:
            self._element(target, source)
            return
        size = f.let((last - first) * self.width)
        if self.reduction == "none":
            f.do(op("memory.copy", target, source, size))
            return
        whole, step = f.let(target + size), 4 * self.width
        k, scope = self.element, self.scope
        with f.while_(i32.le_u(target + step, whole)):
            old, new = (vectors.load(scope, k, place) for place in (target, source))
            vectors.store(f, scope, k, target, vectors.apply(scope, self.reduction, k, [old, new]))
            f.set(target, target + step)
            f.set(source, source + step)
        with f.while_(i32.lt_u(target, whole)):
            self._element(target, source)
            f.set(target, target + self.width)
            f.set(source, source + self.width)

    def _element(self, target: Expr, source: Expr) -> None:
        f, k, scope = self.f, self.element, self.scope
        if self.reduction == "none":
            order.copy(f, k, source, target)
            return
        target = f.let(target)
        old, new = (f.let(values.load(scope, k, place, 0)) for place in (target, source))
        value = functions.apply(scope, self.reduction, k, [old, new])
        bits = values.to_bits(scope, k, value) if k.is_half else value
        f.store(target, bits, bits=k.bits if k.bits < 32 else None)


def _number(value: int) -> list[Any]:
    return ["const", "int32", value]
