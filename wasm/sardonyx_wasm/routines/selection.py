"""The first elements of lines in order: a unit is a line, `k` of whose elements are in a heap.

An element that comes later is compared with the last one of those, four at a time: few are better. Elements of 64 bits
leave no room for their places in an i64: both lie in order, numbers before places, and a better one is put between.
"""

from __future__ import annotations

from sardonyx.code.kernel import Routine

from .. import vectors
from ..abi import SCRATCH
from ..assembler import Expr, Variable, i32, i32x4, i64
from ..code import Code, Unit
from ..scalars import values
from ..scalars.values import kind
from . import frame, order

MOST = {32: SCRATCH // 8, 64: 64}
"""Elements that are selected at most, by their bits: what fits the heap, or what is put in order in little time."""
_VECTORS = 4  # compared at a time


def select(unit: Unit, routine: Routine) -> Code:
    """`select`: x [..., n] -> the first k elements [..., k] and int64 [..., k], where they come from; 0 < k <= n."""
    *outer, n = routine.inputs[0]
    k = routine.outputs[0][-1]
    falling = routine.attributes["largest"]
    element = kind(routine.reads[0])
    width, heap_size, is_wide = element.bits // 8, i32.const(8 * k), element.bits == 64
    with frame.function(unit, routine) as f:
        x, found, places = frame.buffers(f, routine)
        scope = vectors.FunctionScope(unit, f)
        number, at, root = f.local(i32), f.local(i32), f.local(i64)
        length = f.let(frame.size(f, n))
        line = f.local(i32)
        border = tuple(f.let(part) for part in vectors.splat(element, values.load(scope, element, x, 0)))

        def rank() -> Expr:
            return order.rank(f, element, line + at * width, at, falling)

        def last() -> None:
            """Note which of those that are kept comes last."""
            f.set(root, i64.load(f.scratch, offset=8 * (k - 1) if is_wide else 0))
            number = i32.load(f.scratch, offset=12 * k - 4) if is_wide else i32.wrap_i64(root)
            place = line + number * width
            for variable, part in zip(border, vectors.splat(element, values.load(scope, element, place, 0))):
                f.set(variable, part)

        hole = f.local(i32)

        def put(new: Expr) -> None:
            """Put a number into the hole behind those that are no larger, and its place likewise."""
            with f.block() as done, f.repeat() as again:
                f.br_if(done, i32.eqz(hole))
                before = f.let(i64.load(f.scratch + ((hole - 1) << 3)))
                f.br_if(done, i64.le_u(before, new))
                f.store(f.scratch + (hole << 3), before)
                f.store(f.scratch + (hole << 2), i32.load(f.scratch + ((hole - 1) << 2), offset=8 * k), offset=8 * k)
                f.set(hole, hole - 1)
                f.br(again)
            f.store(f.scratch + (hole << 3), new)
            f.store(f.scratch + (hole << 2), at, offset=8 * k)

        def first() -> None:
            """Keep the first k elements."""
            with f.loop(at, 0, k):
                if is_wide:
                    f.set(hole, at)
                    put(f.let(order.number(f, element, line + at * width, falling)))
                else:
                    f.store(f.scratch + (at << 3), rank())
            if not is_wide:
                order.heapify(unit, f, f.scratch, heap_size)

        def one() -> None:
            new = f.let(order.number(f, element, line + at * width, falling) if is_wide else rank())
            with f.if_(i64.lt_u(new, root)):
                if is_wide:
                    f.set(hole, k - 1)
                    put(new)
                else:
                    f.call(order.sift(unit), f.scratch, 0, heap_size, new)
                last()

        def worse(first: Variable) -> Expr:
            """Whether none of the next elements can be better."""
            masks = []
            for step in range(_VECTORS):
                those = vectors.load(scope, element, first, step * 4 * width)
                (mask,) = vectors.apply(scope, "le" if falling else "ge", element, [those, border])
                masks.append(mask)
            together = masks[0]
            for mask in masks[1:]:
                together = together & mask
            return i32x4.all_true(together.as_(i32x4))

        with f.loop(number, f.begin, f.end):
            f.set(line, x + number * (length * width))
            first()
            last()
            stop = f.local(i32)
            with f.while_(at < length):
                with f.block() as some:
                    f.set(stop, at + 4 * _VECTORS)
                    f.br_if(some, stop > length)
                    with f.repeat() as again:
                        f.br_if(some, i32.eqz(worse(f.let(line + at * width))))
                        f.set(at, stop)
                        f.set(stop, at + 4 * _VECTORS)
                        f.br_if(again, stop <= length)
                f.set(stop, f.select(stop < length, stop, length))
                with f.loop(at, at, stop):
                    one()
            if not is_wide:
                order.unheap(unit, f, f.scratch, heap_size)
            with f.loop(at, 0, k):
                place = f.let(i32.load(f.scratch + (at << (2 if is_wide else 3)), offset=8 * k if is_wide else 0))
                order.copy(f, element, line + place * width, found + (number * k + at) * width)
                f.store(places + ((number * k + at) << 3), i64.extend_i32_u(place))
    return Code(f, frame.units(outer), scratch=(12 if is_wide else 8) * k)
