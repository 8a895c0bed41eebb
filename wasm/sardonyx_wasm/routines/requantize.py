"""Functions of numbers of 8 bits by a table, and sums of products on their way to 8 bits.

`requantize` scales sums as floats, rounds them, halves to the even number, and bounds them by `limits`; how far a
result is above the lower one is its index. What stands there in a table of 256, or that number moved by a constant, is
stored: whatever follows on numbers of 8 bits alone costs no arithmetic. `lookup` begins with such numbers.

Channels are last. The result may have a border of zeros: attribute `border`, the rows and columns before the image. A
unit is a row of the result, without a border a pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.code.kernel import Routine
from sardonyx.common.dtypes import by_name

from ..assembler import Expr, Function, Variable, f32, f32x4, i8x16, i16x8, i32, i32x4, op
from ..code import Code, Unit
from . import frame

STEP = 16
"""Elements at once: the period of bias and scale is a multiple of it."""

_MAGIC = 0x4B400000
"""The bits of 1.5 * 2**23: a float to which it is added is rounded, and ends in the bits of the integer."""
_SUMS = ("x", "y", "count", "bias", "scale", "period", "limits", "table", "scratch")
_BYTES = ("x", "y", "count", "table")


def requantize(unit: Unit, routine: Routine) -> Code:
    """x [..., C] of int32, or of integers in float32; bias and scale [period], of which C is a part or that are alike;
    limits [3], the last for what is added where there is no table; maybe a table [256]."""
    tabled = len(routine.reads) > 4
    line = _sums(unit, routine.reads[0], routine.writes[0], tabled)
    period, channels = routine.inputs[1][0], routine.inputs[0][-1]
    with frame.function(unit, routine) as f:
        x, bias, scale, limits, *table, y = frame.buffers(f, routine)
        given = (bias, scale, period, limits, table[0] if tabled else 0, f.scratch)
        align = period // channels if isinstance(channels, int) else 1
        return _rows(f, routine, lambda x, y, count: f.call(line, x, y, count, *given), (x, y), align)


def lookup(unit: Unit, routine: Routine) -> Code:
    """x [..., C] of bytes x table [256], in the order of unsigned bytes."""
    line = _lookups(unit, by_name(routine.writes[0]).itemsize)
    with frame.function(unit, routine) as f:
        x, table, y = frame.buffers(f, routine)
        return _rows(f, routine, lambda x, y, count: f.call(line, x, y, count, table), (x, y), 1)


def _rows(
    f: Function,
    routine: Routine,
    line: Callable[[Expr, Expr, Expr], None],
    places: Sequence[Expr],
    align: int,
) -> Code:
    """Call `line` for elements that are next to one another, and fill the border."""
    x, y = places
    (*outer, channels), made = routine.inputs[0], routine.outputs[0]
    seen, room = (by_name(name).itemsize for name in (routine.reads[0], routine.writes[0]))
    top, left = routine.attributes["border"]
    pixel = frame.size(f, channels)
    if tuple(routine.inputs[0]) == tuple(made):
        first = f.let(f.begin * pixel)
        line(x + first * seen, y + first * room, (f.end - f.begin) * pixel)
        return Code(f, frame.units(outer), max(1, align), 4 * STEP)
    high, wide = (frame.size(f, size) for size in routine.inputs[0][1:3])
    rows, columns = (frame.size(f, size) for size in made[1:3])
    count = f.let(wide * pixel)
    before = f.let(pixel * (room * left))
    row = f.let(columns * pixel * room)
    behind = f.let(row - before - count * room)
    number, image, place, target = (f.local(i32) for _ in range(4))
    f.set(target, y + f.begin * row)
    with f.loop(number, f.begin, f.end):
        f.set(image, i32.div_u(number, rows))
        f.set(place, number - image * rows - top)
        with f.if_(i32.lt_u(place, high)):
            f.do(op("memory.fill", target, 0, before))
            f.set(target, target + before)
            line(x + (image * high + place) * count * seen, target, count)
            f.set(target, target + count * room)
            f.do(op("memory.fill", target, 0, behind))
            f.set(target, target + behind)
        with f.else_():
            f.do(op("memory.fill", target, 0, row))
            f.set(target, target + row)
    return Code(f, frame.units(made[:2]), 1, 4 * STEP)


def _sums(unit: Unit, source: str, target: str, tabled: bool) -> Function:
    """A function: `count` elements that begin with the first of a period."""
    name = f"requantize_{source}_{target}{'_table' * tabled}"
    return unit.once("requantize", name, lambda: _write_sums(unit, name, source, target, tabled))  # type: ignore[no-any-return]


def _write_sums(unit: Unit, name: str, source: str, target: str, tabled: bool) -> Function:
    size = by_name(target).itemsize
    whole = source == "int32"
    with unit.module.function(name, dict.fromkeys(_SUMS, i32)) as f:
        low, high = (f.let(f32x4.load32_splat(f.limits, offset=offset)) for offset in (0, 4))
        first = i32x4.trunc_sat_f32x4_s(low) + _MAGIC
        if not tabled:
            first = first - i32x4.trunc_sat_f32x4_s(f32x4.load32_splat(f.limits, offset=8))
        first = f.let(first)
        b, s, end, count, at = (f.local(i32) for _ in range(5))
        value = f.local(f32x4)
        quads = [f.local(i32x4) for _ in range(4)]

        def result(total: Expr, factor: Expr) -> Expr:
            f.set(value, total * factor)
            # A comparison with NaN is false: then the bound is taken.
            f.set(value, f32x4.pmin(high, f32x4.pmax(low, value)))
            return (value + f32x4.const(12582912.0)).as_(i32x4) - first

        with f.while_(f.count > 0):
            f.set(b, f.bias)
            f.set(s, f.scale)
            f.set(count, f.select(f.count < f.period, f.count, f.period))
            f.set(f.count, f.count - count)
            f.set(end, f.x + 4 * (count & -STEP))
            with f.while_(f.x != end):
                for v, quad in enumerate(quads):
                    if whole:
                        total = f32x4.convert_i32x4_s(i32x4.load(f.x, offset=16 * v) + i32x4.load(b, offset=16 * v))
                    else:
                        total = f32x4.load(f.x, offset=16 * v) + f32x4.load(b, offset=16 * v)
                    f.set(quad, result(total, f32x4.load(s, offset=16 * v)))
                _store(f, quads, target, tabled)
                f.set(f.x, f.x + 4 * STEP)
                f.set(b, b + 4 * STEP)
                f.set(s, s + 4 * STEP)
                f.set(f.y, f.y + size * STEP)
            f.set(end, f.x + 4 * (count & (STEP - 1)))
            with f.while_(f.x != end):
                if whole:
                    total = f32x4.convert_i32x4_s(i32x4.splat(i32.load(f.x) + i32.load(b)))
                else:
                    total = f32x4.splat(f32.load(f.x) + f32.load(b))
                f.set(quads[0], result(total, f32x4.load32_splat(s)))
                f.set(at, i32x4.extract_lane(quads[0], lane=0))
                if tabled:
                    _copy(f, f.y, f.table + at * size, size, 0)
                else:
                    f.store(f.y, f32.convert_i32_s(at) if target == "float32" else at, bits=_bits(target))
                for pointer, step in ((f.x, 4), (b, 4), (s, 4), (f.y, size)):
                    f.set(pointer, pointer + step)
    return f


def _bits(target: str) -> int | None:
    size = by_name(target).itemsize
    return None if size == 4 else 8 * size


def _store(f: Function, quads: Sequence[Variable], target: str, tabled: bool) -> None:
    """The 16 elements of these indices, or numbers."""
    halves = [i16x8.narrow_i32x4_s(quads[k], quads[k + 1]) for k in (0, 2)]
    size = by_name(target).itemsize
    if tabled:
        for k, quad in enumerate(quads):
            f.store(f.scratch, (quad << (size // 2) if size > 1 else quad) + i32x4.splat(f.table), offset=16 * k)
        for k in range(STEP):
            _copy(f, f.y, i32.load(f.scratch, offset=4 * k), size, size * k)
    elif size == 1:
        narrow = i8x16.narrow_i16x8_s if target == "int8" else i8x16.narrow_i16x8_u
        f.store(f.y, narrow(*halves))
    elif size == 2:
        for k, half in enumerate(halves):
            f.store(f.y, half, offset=16 * k)
    else:
        for k, quad in enumerate(quads):
            f.store(f.y, f32x4.convert_i32x4_s(quad) if target == "float32" else quad, offset=16 * k)


def _copy(f: Function, target: Expr, source: Expr, size: int, offset: int) -> None:
    """An element of a table."""
    load = {1: i32.load8_u, 2: i32.load16_u, 4: i32.load}[size]
    f.store(target, load(source), bits=None if size == 4 else 8 * size, offset=offset)


def _lookups(unit: Unit, size: int) -> Function:
    """A function: what is in the table, of elements of this size, for each of `count` bytes."""
    return unit.once("lookup", str(size), lambda: _write_lookups(unit, size))  # type: ignore[no-any-return]


def _write_lookups(unit: Unit, size: int) -> Function:
    with unit.module.function(f"lookup_{size}", dict.fromkeys(_BYTES, i32)) as f:

        def elements(number: int) -> None:
            for k in range(number):
                _copy(f, f.y, f.table + i32.load8_u(f.x, offset=k) * size, size, size * k)
            f.set(f.x, f.x + number)
            f.set(f.y, f.y + number * size)

        end = f.let(f.x + (f.count & -8))
        last = f.let(f.x + f.count)
        with f.while_(f.x != end):
            elements(8)
        with f.while_(f.x != last):
            elements(1)
    return f
