"""Where elements are not zero: 16 bytes are tested at a time, once to count and once to write the places.

All is one unit: where a place is written depends on all before it.
"""

from __future__ import annotations

from collections.abc import Callable

from sardonyx.code.kernel import Routine

from ..assembler import Expr, Variable, f32x4, f64x2, i8x16, i16x8, i32, i32x4, i64, i64x2
from ..code import Code, Unit
from ..scalars.values import Kind, kind
from . import frame, order

_INTEGERS = {8: i8x16, 16: i16x8, 32: i32x4, 64: i64x2}


def nonzero(unit: Unit, routine: Routine) -> Code:
    """`nonzero`: x -> how many elements are not zero, int64 [1], and their places, int64 [rank, that many]."""
    return _NonZero(unit, routine).write()


class _NonZero:
    def __init__(self, unit: Unit, routine: Routine) -> None:
        self.element: Kind = kind(routine.reads[0])
        self.width = self.element.bits // 8
        self.lanes = 16 // self.width
        self.shape = routine.inputs[0]
        self.f = frame.function(unit, routine)
        self.x, self.count, self.places = frame.buffers(self.f, routine)
        self.simd = "simd" in unit.features

    def write(self) -> Code:
        with self.f as f, f.if_(f.begin < f.end):
            self.total = f.let(frame.product(f, self.shape))
            self.sizes = [frame.size(f, size) for size in self.shape]
            count = f.local(i32)
            self._scan(lambda mask, at: f.set(count, count + i32.popcnt(mask)))
            f.store(self.count, i64.extend_i32_u(count))
            self.row = f.let(count << 3)
            self.found = f.let(self.places)
            self.line = f.let(i32.const(0) - self._length)
            self.outer = [f.local(i64) for _ in self.shape[1:]]
            left = f.local(i32)

            def give(mask: Expr, at: Variable) -> None:
                f.set(left, mask)
                with f.while_(left):
                    self._give(f.let(at + i32.ctz(left)))
                    f.set(left, left & (left - 1))

            self._scan(give)
        return Code(f)

    @property
    def _length(self) -> Expr:
        """Of a line along the last axis."""
        return self.sizes[-1] if self.sizes else i32.const(1)

    def _scan(self, use: Callable[[Expr, Variable], None]) -> None:
        """For groups of elements that are not all zero: a bit for each, and the first one's place."""
        f, at, mask = self.f, self.f.let(i32.const(0)), self.f.local(i32)
        if self.simd:
            with f.while_(at + self.lanes <= self.total):
                bits = self._differs(self.x + at * self.width)
                f.set(mask, bits)
                with f.if_(mask):
                    use(mask, at)
                f.set(at, at + self.lanes)
        with f.while_(at < self.total):
            with f.if_(self._is_not_zero(self.x + at * self.width)):
                use(i32.const(1), at)
            f.set(at, at + 1)

    def _differs(self, address: Expr) -> Expr:
        lanes = _INTEGERS[self.element.bits]
        x = lanes.load(address)
        if self.element.family == "float" and self.element.bits >= 32:
            floats = f64x2 if self.element.bits == 64 else f32x4
            different = (x.as_(floats) != floats.const(0.0)).as_(lanes)
        else:
            x = x & lanes.const(0x7FFF) if self.element.family == "float" else x
            different = x != lanes.const(0)
        return lanes.bitmask(different)

    def _is_not_zero(self, address: Expr) -> Expr:
        bits = order.bits(self.element, address)
        if self.element.family == "float":
            bits = bits << (1 if self.element.bits >= 32 else 17)
        return bits != 0

    def _give(self, place: Variable) -> None:
        """Write the coordinates of an element; those along outer axes are known as long as it is in the same line."""
        f, length = self.f, self._length
        if self.sizes:
            within = f.let(place - self.line)
            if self.outer:
                with f.if_(i32.ge_u(within, length)):
                    rest = f.let(i32.div_u(place, length))
                    f.set(self.line, rest * length)
                    f.set(within, place - self.line)
                    for axis in range(len(self.outer) - 1, 0, -1):
                        above = f.let(i32.div_u(rest, self.sizes[axis]))
                        f.set(self.outer[axis], i64.extend_i32_u(rest - above * self.sizes[axis]))
                        f.set(rest, above)
                    f.set(self.outer[0], i64.extend_i32_u(rest))
            else:
                f.set(within, place)
            at = f.let(self.found)
            for coordinate in (*self.outer, i64.extend_i32_u(within)):
                f.store(at, coordinate)
                f.set(at, at + self.row)
        f.set(self.found, self.found + 8)
