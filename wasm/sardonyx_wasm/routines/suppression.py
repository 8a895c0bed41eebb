"""Non-maximum suppression: a unit is a class of an image, whose candidates leave a heap one by one.

Each is compared with those that were chosen before, four at a time: their sides and areas lie in five rows.
"""

from __future__ import annotations

from sardonyx.code.kernel import Routine
from sardonyx.sizes.symbolic import Size

from ..abi import SCRATCH
from ..assembler import Expr, f32, f32x4, i32, i32x4, i64, op, v128
from ..code import Code, Unit
from ..scalars.values import kind
from . import frame, order

_FLOAT = kind("float32")
_ROWS = 5  # top, left, bottom, right, area


def work(boxes: Size, room: Size) -> Size:
    """Bytes of memory that a class takes.

    >>> work(100, 10)
    1040
    """
    return 8 * boxes + _ROWS * 4 * -(-room // 4) * 4


def suppress(unit: Unit, routine: Routine) -> Code:
    """`suppress`, see `sardonyx.primitives.non_max_suppression`; a second output is the memory for it, [images,
    classes, work(boxes, room)] bytes, where the scratch memory is too small or a size is not known."""
    return _Suppress(unit, routine).write()


class _Suppress:
    def __init__(self, unit: Unit, routine: Routine) -> None:
        self.unit, self.routine = unit, routine
        self.f = frame.function(unit, routine)
        buffers = frame.buffers(self.f, routine)
        self.sides, self.scores, self.most, self.overlap, self.threshold, self.chosen, *self.memory = buffers

    def write(self) -> Code:
        images, classes, boxes = self.routine.inputs[1]
        with self.f as f:
            number, most = f.local(i32), f.local(i64)
            self.heap, self.rows, self.size, self.kept = (f.local(i32) for _ in range(4))
            self.count = f.let(frame.size(f, boxes))
            room = f.let(frame.size(f, self.routine.outputs[0][-1]))
            self.row = f.let(((room + 3) & -4) << 2)
            f.set(most, i64.load(self.most))
            f.set(most, f.select(most < i64.extend_i32_u(room), most, i64.extend_i32_u(room)))
            limit = f.let(i32.wrap_i64(f.select(most < 0, i64.const(0), most)))
            with f.loop(number, f.begin, f.end):
                memory = self.memory[0] + number * frame.size(f, self.routine.outputs[1][-1]) if self.memory else None
                f.set(self.heap, f.scratch if memory is None else memory)
                f.set(self.rows, self.heap + (self.count << 3))
                sides = f.let(self.sides + i32.div_u(number, frame.size(f, classes)) * (self.count << 4))
                target = f.let(self.chosen + number * (room << 2))
                f.do(op("memory.fill", target, 0xFF, room << 2))
                self._collect(f.let(self.scores + number * (self.count << 2)))
                order.heapify(self.unit, f, self.heap, self.size)
                f.set(self.kept, 0)
                with f.while_((self.kept < limit) & (self.size > 0)):
                    self._next(sides, target)
        return Code(f, frame.units((images, classes)), scratch=0 if self.memory else SCRATCH)

    def _collect(self, line: Expr) -> None:
        """The ranks of all candidates, the best one being the largest."""
        f = self.f
        f.set(self.size, 0)
        least = f.let(f32x4.load32_splat(self.threshold))
        at, stop = f.local(i32), f.local(i32)

        def one() -> None:
            address = f.let(line + (at << 2))
            with f.if_(f32.load(address) > f32x4.extract_lane(least, lane=0)):
                score = i64.extend_i32_u(order.number(f, _FLOAT, address)) << 32
                f.store(self.heap + self.size, score | i64.extend_i32_u(at ^ -1))
                f.set(self.size, self.size + 8)

        with f.while_(at < self.count):
            f.set(stop, at + 4)
            with f.block() as some:
                with f.if_(stop > self.count):
                    f.set(stop, self.count)
                    f.br(some)
                f.br_if(some, v128.any_true(f32x4.load(line + (at << 2)) > least))
                f.set(at, stop)
            with f.loop(at, at, stop):
                one()
        f.set(at, 0)

    def _next(self, sides: Expr, target: Expr) -> None:
        """Take the best candidate, and choose it if nothing drives it out."""
        f = self.f
        place = f.let(i32.wrap_i64(i64.load(self.heap)) ^ -1)
        f.set(self.size, self.size - 8)
        f.call(order.sift(self.unit), self.heap, 0, self.size, i64.load(self.heap + self.size))
        address = f.let(sides + (place << 2))
        box = [f.let(f32.load(address + self.count * (4 * side))) for side in range(4)]
        top, left, bottom, right = (f.let(f32x4.splat(side)) for side in box)
        area = f.let(f32x4.splat((box[2] - box[0]) * (box[3] - box[1])))
        limit = f.let(f32x4.load32_splat(self.overlap))
        zero = f32x4.const(0.0)
        with f.block() as out:
            at, end = f.let(self.rows), f.let(self.rows + (self.kept << 2))
            with f.while_(i32.lt_u(at, end)):
                row = [at, *(at + self.row * k for k in range(1, _ROWS))]
                height = f32x4.min(f32x4.load(row[2]), bottom) - f32x4.max(f32x4.load(row[0]), top)
                width = f32x4.min(f32x4.load(row[3]), right) - f32x4.max(f32x4.load(row[1]), left)
                common = f.let(f32x4.max(height, zero) * f32x4.max(width, zero))
                union = f.let(f32x4.load(row[4]) + area - common)
                f.br_if(out, v128.any_true((union > zero).as_(i32x4) & (common / union > limit).as_(i32x4)))
                f.set(at, at + 16)
            self._keep([*box, f32x4.extract_lane(area, lane=0)])
            f.store(target + (self.kept << 2), place)
            f.set(self.kept, self.kept + 1)

    def _keep(self, values: list[Expr]) -> None:
        """Add to the rows, which are filled up with NaN."""
        f = self.f
        at = f.let(self.rows + (self.kept << 2))
        for k, value in enumerate(values):
            if k:
                f.set(at, at + self.row)
            with f.if_(i32.eqz(self.kept & 3)):
                f.store(at, i32x4.const(-1))
            f.store(at, value)
