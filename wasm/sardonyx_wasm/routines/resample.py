"""Pictures resized: x [H, W, C] of bytes to [T, S, C], sums of some rows, and of some columns of these.

For each row of the result there are the rows of x that it is a sum of [T, m], and their weights [T, m]; so for columns,
[S, n]. A unit is a row of the result. Rows of weight 0 are not read, so that what is only a bar costs nothing.

The sum of rows is a line of floats in the scratch memory. Bytes become floats on the way, and four rows are added at a
time, so that a line is read and written once for them. The columns of four lines are summed together, since they share
places and weights. Where lines are too long for that, each element is summed by itself, with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.code.kernel import Routine

from ..abi import SCRATCH
from ..assembler import Expr, Function, Variable, f32, f32x4, i8x16, i16x8, i32, i32x4, op, v128
from ..code import Code, Unit
from . import frame
from .channels import multiply_add

SIDE_BY_SIDE = 4
"""Rows that are added at a time, and lines whose columns are summed together."""
BLOCK = 16
"""Bytes at once."""
_ROWS = ("target", "size", "x", "step", "most", "index", "weights", "count")
_COLUMNS = ("line", "pitch", "most", "index", "weights", "count", "places")


def resample(unit: Unit, routine: Routine) -> Code:
    """`resample`."""
    high, wide, channels = routine.inputs[0]
    (rows, m), (columns, n) = routine.inputs[1], routine.inputs[3]
    sum_rows, sum_columns = _rows(unit), {count: _columns(unit, channels, count) for count in (1, SIDE_BY_SIDE)}
    with frame.function(unit, routine) as f:
        x, row_index, row_weights, column_index, column_weights, y = frame.buffers(f, routine)
        down, across, taps, places = (frame.size(f, size) for size in (m, n, high, columns))
        step = f.let(frame.size(f, wide) * channels)
        most, right = f.let(taps - 1), f.let(frame.size(f, wide) - 1)
        made = f.let(places * (4 * channels))
        pitch = f.let(step * 4 + BLOCK)
        row, ready, total = f.local(i32), f.local(i32), f.local(i32)
        targets = [f.local(i32) for _ in range(SIDE_BY_SIDE)]

        def across_lines(count: int, outputs: Sequence[Expr], line: Expr) -> None:
            f.call(sum_columns[count], line, pitch, right, column_index, column_weights, across, places, *outputs)

        with f.if_(i32.le_u(step, (SCRATCH // SIDE_BY_SIDE - BLOCK) // 4)):
            with f.loop(row, f.begin, f.end):
                at = f.let(row * down)
                f.call(
                    sum_rows,
                    f.scratch + ready * pitch,
                    step,
                    x,
                    step,
                    most,
                    row_index + at * 8,
                    row_weights + at * 4,
                    down,
                    into=[total],
                )
                output = f.let(y + row * made)
                with f.if_(total):
                    for earlier, later in zip(targets, [*targets[1:], output]):
                        f.set(earlier, later)
                    f.set(ready, ready + 1)
                    with f.if_(ready == SIDE_BY_SIDE):
                        across_lines(SIDE_BY_SIDE, targets, f.scratch)
                        f.set(ready, 0)
                with f.else_():
                    f.do(op("memory.fill", output, 0, made))
            for number, target in enumerate(targets[1:], 1):
                with f.if_(ready >= SIDE_BY_SIDE - number):
                    across_lines(1, [target], f.scratch + (ready - (SIDE_BY_SIDE - number)) * pitch)
        with f.else_():
            _one_by_one(unit, f, routine, (step, most, right, down, across, places))
    return Code(f, frame.units([rows]), SIDE_BY_SIDE, SCRATCH)


def _rows(unit: Unit) -> Function:
    """A function: the sum of rows of `size` bytes as a line of floats, and how many had a weight."""
    return unit.once("resample_rows", "", lambda: _write_rows(unit))  # type: ignore[no-any-return]


def _write_rows(unit: Unit) -> Function:
    one, some = (_write_add(unit, count) for count in (1, SIDE_BY_SIDE))
    with unit.module.function("resample_rows", dict.fromkeys(_ROWS, i32), [i32]) as f:
        number, total = f.local(i32), f.local(i32)
        rows = [f.local(i32) for _ in range(SIDE_BY_SIDE)]
        weights = [f.local(f32) for _ in rows]
        f.set(f.count, f.select(f.most < 0, i32.const(0), f.count))
        with f.loop(number, 0, f.count):
            weight = f.let(f32.load(f.weights))
            with f.if_(weight != 0.0):
                with f.if_(i32.eqz(total)):
                    f.do(op("memory.fill", f.target, 0, f.size * 4 + BLOCK))
                for group, last in ((rows, f.x + _within(f, f.index, f.most) * f.step), (weights, weight)):
                    for earlier, later in zip(group, [*group[1:], last]):
                        f.set(earlier, later)
                f.set(total, total + 1)
                with f.if_(i32.eqz(total & (SIDE_BY_SIDE - 1))):
                    f.call(some, f.target, f.size, *rows, *weights)
            f.set(f.index, f.index + 8)
            f.set(f.weights, f.weights + 4)
        for k in range(1, SIDE_BY_SIDE):
            with f.if_((total & (SIDE_BY_SIDE - 1)) >= SIDE_BY_SIDE - k):
                f.call(one, f.target, f.size, rows[k], weights[k])
        f.return_(total)
    return f


def _within(f: Function, address: Expr, most: Expr) -> Expr:
    """An index that is not out of range, of one that may be."""
    index = f.let(i32.load(address))
    f.set(index, f.select(index < most, index, most))
    return f.select(index > 0, index, i32.const(0))


def _write_add(unit: Unit, count: int) -> Function:
    """A function that adds rows of bytes, times their weights, to a line."""
    params = {"target": i32, "size": i32, **{f"x{k}": i32 for k in range(count)}}
    with unit.module.function(f"resample_add_{count}", params | {f"w{k}": f32 for k in range(count)}) as f:
        _, _, *given = f.params
        rows, weights = given[:count], given[count:]
        factors = [f.let(f32x4.splat(weight)) for weight in weights]
        ends = [f.let(f.target + (f.size & -width) * 4) for width in (BLOCK, 4, 1)]

        widen = _widening(unit, f)

        def move(width: int) -> None:
            for row in rows:
                f.set(row, row + width)
            f.set(f.target, f.target + 4 * width)

        with f.while_(f.target != ends[0]):
            sums = [f.let(f32x4.load(f.target, offset=16 * k)) for k in range(BLOCK // 4)]
            for row, factor in zip(rows, factors):
                block = f.let(v128.load(row))
                for total, quad in zip(sums, widen(block)):
                    f.set(total, multiply_add(unit, f32x4.convert_i32x4_s(quad), factor, total))
            for k, total in enumerate(sums):
                f.store(f.target, total, offset=16 * k)
            move(BLOCK)
        with f.while_(f.target != ends[1]):
            total = f.let(f32x4.load(f.target))
            for row, factor in zip(rows, factors):
                quad = i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(row)))
                f.set(total, multiply_add(unit, f32x4.convert_i32x4_s(quad), factor, total))
            f.store(f.target, total)
            move(4)
        with f.while_(f.target != ends[2]):
            total = f.let(f32x4.load32_splat(f.target))
            for row, factor in zip(rows, factors):
                level = f32x4.splat(f32.convert_i32_s(i32.load8_u(row)))
                f.set(total, multiply_add(unit, level, factor, total))
            f.store(f.target, f32x4.extract_lane(total, lane=0))
            move(1)
    return f


def _widening(unit: Unit, f: Function) -> Callable[[Expr], list[Expr]]:
    """What makes four i32x4 of 16 bytes."""
    if "relaxed-simd" in unit.features:
        # hosts agree on what has the highest bit: 0
        orders = [[lane for k in range(4) for lane in (4 * quad + k, -1, -1, -1)] for quad in range(4)]
        masks = [f.let(i8x16.const(*order)) for order in orders]
        return lambda block: [i8x16.relaxed_swizzle(block.as_(i8x16), mask).as_(i32x4) for mask in masks]

    def widen(block: Expr) -> list[Expr]:
        halves = [f.let(part(block)) for part in (i16x8.extend_low_i8x16_u, i16x8.extend_high_i8x16_u)]
        return [part(half) for half in halves for part in (i32x4.extend_low_i16x8_u, i32x4.extend_high_i16x8_u)]

    return widen


def _columns(unit: Unit, channels: int, count: int) -> Function:
    """A function: the sums of columns of `count` lines, `pitch` bytes apart, for each of `places`."""
    name = f"resample_columns_{channels}_{count}"
    return unit.once("resample_columns", name, lambda: _write_columns(unit, name, channels, count))  # type: ignore[no-any-return]


def _write_columns(unit: Unit, name: str, channels: int, count: int) -> Function:
    with unit.module.function(name, dict.fromkeys([*_COLUMNS, *(f"y{k}" for k in range(count))], i32)) as f:
        outputs = f.params[len(_COLUMNS) :]
        place, number = f.local(i32), f.local(i32)
        sums = [f.local(f32x4) for _ in outputs]
        with f.loop(place, 0, f.places):
            for total in sums:
                f.set(total, f32x4.const(0.0))
            with f.loop(number, 0, f.count):
                at = f.let(f.line + _within(f, f.index, f.most) * (4 * channels))
                factor = f.let(f32x4.load32_splat(f.weights))
                for total in sums:
                    f.set(total, multiply_add(unit, f32x4.load(at), factor, total))
                    f.set(at, at + f.pitch)
                f.set(f.index, f.index + 8)
                f.set(f.weights, f.weights + 4)
            for total, output in zip(sums, outputs):
                _store(f, output, total, channels)
                f.set(output, output + 4 * channels)
    return f


def _store(f: Function, address: Expr, pixel: Variable, channels: int) -> None:
    if channels == 4:
        f.store(address, pixel)
        return
    if channels > 1:
        f.do(v128.store64_lane(address, pixel, lane=0))
    if channels % 2:
        f.do(v128.store32_lane(address, pixel, lane=channels - 1, offset=4 * (channels - 1)))


def _one_by_one(unit: Unit, f: Function, routine: Routine, sizes: Sequence[Expr]) -> None:
    """Sums of rows, and of columns of these, without lines between."""
    step, most, right, down, across, places = sizes
    channels = routine.inputs[0][2]
    x, row_index, row_weights, column_index, column_weights, y = frame.buffers(f, routine)
    row, place, i, k = (f.local(i32) for _ in range(4))
    with f.loop(row, f.begin, f.end), f.loop(place, 0, places):
        total = f.let(f32x4.const(0.0))
        with f.loop(k, 0, across):
            tap = f.let(place * across + k)
            column = f.let(x + _within(f, column_index + tap * 8, right) * channels)
            inner = f.let(f32x4.const(0.0))
            with f.loop(i, 0, f.select(most < 0, i32.const(0), down)):
                line = f.let(row * down + i)
                weight = f.let(f32.load(row_weights + line * 4))
                with f.if_(weight != 0.0):
                    at = f.let(column + _within(f, row_index + line * 8, most) * step)
                    levels = f32x4.const(0.0)
                    for channel in range(channels):
                        level = f32.convert_i32_s(i32.load8_u(at, offset=channel))
                        levels = f32x4.replace_lane(levels, level, lane=channel)
                    f.set(inner, multiply_add(unit, levels, f32x4.splat(weight), inner))
            f.set(total, multiply_add(unit, inner, f32x4.load32_splat(column_weights + tap * 4), total))
        _store(f, f.let(y + (row * places + place) * (4 * channels)), total, channels)
