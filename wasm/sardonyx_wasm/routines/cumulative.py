"""Running sums and products. Along the last axis a unit is a line, and some go side by side: a step waits for the one
before. Along other axes a unit is some neighbouring columns, whose totals are in the scratch memory.
"""

from __future__ import annotations

from typing import Any

from sardonyx.code.folds import identity
from sardonyx.code.kernel import Routine
from sardonyx.common import dtypes

from .. import vectors
from ..assembler import Expr, Variable, i32
from ..code import Code, Unit
from ..scalars import functions, values
from ..scalars.values import kind
from . import frame

SIDE_BY_SIDE = 4
COLUMNS = 256
_COMBINE = {"sum": "add", "prod": "mul"}


def accumulate(unit: Unit, routine: Routine) -> Code:
    """`accumulate`: x -> the `function` of all elements up to each along `axis`, without it if `exclusive`, from the
    end if `reverse`."""
    return _Accumulate(unit, routine).write()


class _Accumulate:
    def __init__(self, unit: Unit, routine: Routine) -> None:
        self.element = kind(routine.reads[0])
        self.width = self.element.bits // 8
        self.attributes = routine.attributes
        shape, axis = routine.inputs[0], self.attributes["axis"]
        self.outer, self.n, self.inner = shape[:axis], shape[axis], shape[axis + 1 :]
        self.combine = _COMBINE[self.attributes["function"]]
        self.start = identity(self.attributes["function"], dtypes.by_name(routine.reads[0]))
        self.f = frame.function(unit, routine)
        self.scope = vectors.FunctionScope(unit, self.f)
        self.x, self.y = frame.buffers(self.f, routine)

    def write(self) -> Code:
        with self.f as f:
            self.length = f.let(frame.size(f, self.n))
            if all(size == 1 for size in self.inner):
                row = f.let(f.begin)
                with f.while_(row + SIDE_BY_SIDE <= f.end):
                    self._lines(row, SIDE_BY_SIDE)
                    f.set(row, row + SIDE_BY_SIDE)
                with f.while_(row < f.end):
                    self._lines(row, 1)
                    f.set(row, row + 1)
                return Code(f, frame.units(self.outer), SIDE_BY_SIDE)
            number, wide = f.local(i32), f.let(frame.product(f, self.inner))
            blocks = f.let(i32.div_u(wide + (COLUMNS - 1), COLUMNS))
            with f.loop(number, f.begin, f.end):
                outer = f.let(i32.div_u(number, blocks))
                first = f.let((number - outer * blocks) * COLUMNS)
                left = f.let(wide - first)
                count = f.let(f.select(left < COLUMNS, left, i32.const(COLUMNS)))
                self._columns(outer * self.length * wide + first, wide, count)
        return Code(f, self._units(), scratch=COLUMNS * 8)

    def _units(self) -> Any:
        outer, inner = map(frame.units, (self.outer, self.inner))
        if isinstance(inner, int):
            return frame.units([*self.outer, -(-inner // COLUMNS)])
        blocks = ["div", "int32", ["add", "int32", inner, _number(COLUMNS - 1)], _number(COLUMNS)]
        return ["mul", "int32", _number(outer) if isinstance(outer, int) else outer, blocks]

    def _lines(self, first: Variable, count: int) -> None:
        """Some lines along the last axis."""
        f, k = self.f, self.element
        size = f.let(self.length * self.width)
        places = [f.let((first + line) * size) for line in range(count)]
        totals = [f.let(values.literal(k, self.start)) for _ in places]
        back = self.attributes["reverse"]
        at, step = f.let(size - self.width if back else i32.const(0)), f.local(i32)
        with f.loop(step, 0, self.length):
            for place, total in zip(places, totals):
                here = f.let(place + at)
                value = values.load(self.scope, k, self.x + here, 0)
                after = f.let(functions.apply(self.scope, self.combine, k, [total, value]))
                self._store(self.y + here, total if self.attributes["exclusive"] else after)
                f.set(total, after)
            f.set(at, at - self.width if back else at + self.width)

    def _columns(self, first: Expr, wide: Expr, count: Expr) -> None:
        """Neighbouring columns, row by row."""
        f, k, scope = self.f, self.element, self.scope
        back, exclusive = self.attributes["reverse"], self.attributes["exclusive"]
        row = f.let(wide * self.width)
        place = f.let(first * self.width)
        if back:
            f.set(place, place + (self.length - 1) * row)
        size, whole = f.let(count * self.width), f.let((count & -4) * self.width)
        at, step = f.local(i32), f.local(i32)
        start = values.literal(k, self.start)
        with f.loop(at, 0, size, step=self.width):
            self._store(f.scratch + at, start)
        with f.loop(step, 0, self.length):
            with f.loop(at, 0, whole, step=4 * self.width):
                total = tuple(f.let(part) for part in vectors.load(scope, k, f.scratch + at))
                after = vectors.apply(
                    scope, self.combine, k, [total, vectors.load(scope, k, f.let(self.x + place + at))]
                )
                after = tuple(f.let(part) for part in after)
                vectors.store(f, scope, k, f.let(self.y + place + at), total if exclusive else after)
                vectors.store(f, scope, k, f.let(f.scratch + at), after)
            with f.loop(at, whole, size, step=self.width):
                held = f.let(values.load(scope, k, f.scratch + at, 0))
                value = values.load(scope, k, self.x + place + at, 0)
                sum_ = f.let(functions.apply(scope, self.combine, k, [held, value]))
                self._store(self.y + place + at, held if exclusive else sum_)
                self._store(f.scratch + at, sum_)
            f.set(place, place - row if back else place + row)

    def _store(self, address: Expr, value: Expr) -> None:
        k = self.element
        bits = values.to_bits(self.scope, k, value) if k.is_half else value
        self.f.store(address, bits, bits=k.bits if k.bits < 32 else None)


def _number(value: int) -> list[Any]:
    return ["const", "int32", value]
