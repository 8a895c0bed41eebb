"""Sorting lines: a unit is a line, sorted by its elements' bytes from the lowest on (radix sort), or by insertion.

Records are the numbers of `order` with the places they come from: a rank of 8 bytes, or, for elements of 64 bits, a
number and a place. Bytes that are the same in all elements cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sardonyx.code.kernel import Routine
from sardonyx.sizes.symbolic import Size

from ..abi import SCRATCH
from ..assembler import Expr, Variable, i32, i64, op
from ..code import Code, Unit
from ..scalars.values import Kind, kind
from . import frame, order

FEW = 40
"""Elements up to which insertion is quicker."""
_TABLE = 4 << 8  # bytes of the counts of one byte's values


def work(dtype: str, length: Size) -> Size:
    """Bytes of memory that sorting a line of this length takes.

    >>> work("float32", 1000), work("int64", 1000)
    (20096, 40192)
    """
    bits = kind(dtype).bits
    return bits // 8 * _TABLE + 2 * _record(bits) * length


def _record(bits: int) -> int:
    return 16 if bits == 64 else 8


def sort(unit: Unit, routine: Routine) -> Code:
    """`sort_lines`: x [..., n] -> the same in order, and int64 [..., n], where they come from; a third output is the
    memory for it, [..., work(dtype, n)] bytes, where the scratch memory is too small or n is not known."""
    return _Sort(unit, routine).write()


class _Sort:
    def __init__(self, unit: Unit, routine: Routine) -> None:
        self.element: Kind = kind(routine.reads[0])
        *self.outer, self.n = routine.inputs[0]
        self.falling: bool = routine.attributes["descending"]
        self.width = self.element.bits // 8
        self.record = _record(self.element.bits)
        self.f = frame.function(unit, routine)
        self.x, self.found, self.places, *self.memory = frame.buffers(self.f, routine)
        self.room = routine.outputs[2][-1] if self.memory else 0

    def write(self) -> Code:
        with self.f as f:
            number = f.local(i32)
            length = f.let(frame.size(f, self.n))
            self.size = f.let(length * self.record)
            self.line, self.tables, self.source, self.target = (f.local(i32) for _ in range(4))
            with f.loop(number, f.begin, f.end):
                f.set(self.line, self.x + number * (length * self.width))
                f.set(self.tables, self.memory[0] + number * frame.size(f, self.room) if self.memory else f.scratch)
                f.set(self.source, self.tables + self.width * _TABLE)
                f.set(self.target, self.source + self.size)
                with f.block() as done:
                    if self.record == 8:
                        with f.if_(length <= FEW):
                            self._insert()
                            f.br(done)
                    self._count()
                    for byte in range(self.width):
                        self._by_byte(byte)
                self._give(number * length)
        return Code(f, frame.units(self.outer), scratch=0 if self.memory else SCRATCH)

    def _insert(self) -> None:
        f = self.f
        with self._each() as (place, at):
            rank = f.let(order.rank(f, self.element, self.line + place * self.width, place, self.falling))
            hole = f.let(at)
            with f.block() as found, f.repeat() as again:
                f.br_if(found, i32.eqz(hole))
                before = f.let(i64.load(self.source + hole - 8))
                f.br_if(found, i64.lt_u(before, rank))
                f.store(self.source + hole, before)
                f.set(hole, hole - 8)
                f.br(again)
            f.store(self.source + hole, rank)

    @contextmanager
    def _each(self) -> Iterator[tuple[Variable, Variable]]:
        """For each element its place, and that of its record in bytes."""
        f, place, at = self.f, self.f.local(i32), self.f.local(i32)
        f.set(place, 0)
        with f.loop(at, 0, self.size, step=self.record):
            yield place, at
            f.set(place, place + 1)

    def _count(self) -> None:
        """Write the records, and count the values of all their bytes."""
        f = self.f
        f.do(op("memory.fill", self.tables, 0, self.width * _TABLE))
        with self._each() as (place, at):
            number = f.let(order.number(f, self.element, self.line + place * self.width, self.falling))
            if self.record == 8:
                f.store(self.source + at, i64.extend_i32_u(number) << 32 | i64.extend_i32_u(place))
            else:
                f.store(self.source + at, number)
                f.store(self.source + at, i64.extend_i32_u(place), offset=8)
            for byte in range(self.width):
                slot = f.let(self.tables + (self._value(number, byte) << 2))
                f.store(slot, i32.load(slot, offset=byte * _TABLE) + 1, offset=byte * _TABLE)

    def _value(self, number: Expr, byte: int) -> Expr:
        """A byte of an element's number."""
        shifted = number.type.shr_u(number, 8 * byte) if byte else number
        return (i32.wrap_i64(shifted) if number.type is i64 else shifted) & 0xFF

    def _by_byte(self, byte: int) -> None:
        """Have records in the order of one byte, those with the same one as before."""
        f = self.f
        table, slot, sum_ = f.let(self.tables + byte * _TABLE), f.local(i32), f.local(i32)
        shift = byte * 8 + (32 if self.record == 8 else 0)

        def find(record: Expr) -> None:
            f.set(slot, table + ((i32.wrap_i64(i64.shr_u(record, shift)) & 0xFF) << 2))

        find(i64.load(self.source))
        with f.if_(i32.load(slot) * self.record != self.size):
            f.set(sum_, self.target)
            with f.loop(slot, table, table + _TABLE, step=4, unsigned=True):
                count = f.let(i32.load(slot))
                f.store(slot, sum_)
                f.set(sum_, sum_ + count * self.record)
            at, end = f.let(self.source), f.let(self.target)
            record, place = f.local(i64), f.local(i32)
            with f.loop(at, at, f.let(at + self.size), step=self.record, unsigned=True):
                f.set(record, i64.load(at))
                find(record)
                f.set(place, i32.load(slot))
                f.store(slot, place + self.record)
                f.store(place, record)
                if self.record == 16:
                    f.store(place, i64.load(at, offset=8), offset=8)
            f.set(self.target, self.source)
            f.set(self.source, end)

    def _give(self, first: Expr) -> None:
        f = self.f
        first = f.let(first)
        found, places = f.let(self.found + first * self.width), f.let(self.places + (first << 3))
        with self._each() as (place, at):
            source = f.let(i32.load(self.source + at, offset=8 if self.record == 16 else 0))
            order.copy(f, self.element, self.line + source * self.width, found + place * self.width)
            f.store(places + (place << 3), i64.extend_i32_u(source))
