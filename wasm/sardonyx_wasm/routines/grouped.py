"""Convolution in many groups of x [B, *spatial, C], border included, to [B, *sizes, M]: a unit is a line of outputs.

A product of matrices has no use for groups of a few channels. Here a tile is some neighbouring places of four channels
of outputs; each input that they share is loaded once, into all lanes. The products of an output are added in the order
of its taps, and of the channels within a line of taps, whatever tile it is in. All places are done with the weights of
four channels before the next are read.
"""

from __future__ import annotations

from sardonyx.code.kernel import Routine

from ..assembler import Function, f32x4, i32
from ..code import Code, Unit
from ..primitives import CONV_GROUPED
from . import channels, frame
from .depthwise import Window, add_taps

_LANES = CONV_GROUPED.lanes
_PLACES = (8, 7, 4, 1)
"""Of tiles."""
_ROW = ("x", "w", "y", "depth", "made", "pixel", "line", "plane")


def conv_grouped(unit: Unit, routine: Routine) -> Code:
    """w [M / 4, lines of taps, C / groups, kw, 4]; attributes kernel, strides, dilations, groups; kw is at most 7."""
    groups: int = routine.attributes["groups"]
    window = Window.of(routine)
    depth, (batch, *rows, columns, made) = routine.inputs[0][-1], routine.outputs[0]
    row = unit.once("routine", f"grouped row {window}", lambda: _write_row(unit, window))
    with frame.function(unit, routine) as f:
        x, w, y = frame.buffers(f, routine)
        pixel, target = f.let(frame.size(f, depth) * 4), f.let(frame.size(f, made) * 4)
        steps = channels.steps(f, routine.inputs[0], pixel)
        across, count = f.let(frame.size(f, columns) * target), f.let(i32.div_u(target, groups * 4 * _LANES))
        seen = f.let(i32.div_u(pixel, groups))
        weights = f.let(seen * (window.kernel[0] * window.kernel[1] * window.kernel[2] * _LANES))
        group, part, number = (f.local(i32) for _ in range(3))
        with f.if_(across), f.loop(group, 0, groups), f.loop(part, 0, count):
            with f.loop(number, f.begin, f.end):
                source = x + channels.line_of(f, number, rows, routine.attributes["strides"], steps)
                operands = w, y + number * across, seen, target, pixel, steps[-2], steps[-3] if len(rows) > 1 else 0
                f.call(row, source, *operands, frame.size(f, columns))
            f.set(w, w + weights)
            f.set(y, y + 4 * _LANES)
            with f.if_(part == count - 1):
                f.set(x, x + seen)
    return Code(f, frame.units((batch, *rows)))


def _write_row(unit: Unit, window: Window) -> Function:
    """Outputs of `count` places from left to right; the last tile moves back to where it fits and repeats some."""
    tiles = {places: _write_tile(unit, window, places) for places in _PLACES}
    with unit.module.function(f"grouped_row_{window}", dict.fromkeys((*_ROW, "count"), i32)) as f:

        def walk(places: int) -> None:
            step = f.local(i32)
            with f.block() as done, f.repeat() as again:
                f.call(tiles[places], *f.params[:-1])
                f.set(f.count, f.count - places)
                f.br_if(done, f.count <= 0)
                f.set(step, frame.least(f, f.count, places))
                f.set(f.x, f.x + step * window.strides[2] * f.pixel)
                f.set(f.y, f.y + step * f.made)
                f.br(again)
            f.return_()

        for places in (8, 7):
            with f.if_(i32.eqz(i32.rem_u(f.count, places))):
                walk(places)
        for places in (8, 4, 1):
            with f.if_(f.count >= places):
                walk(places)
    return f


def _write_tile(unit: Unit, window: Window, places: int) -> Function:
    """`(x, w, y, depth, made, pixel, line, plane)`: bytes of x in a group and of outputs in all, and steps of x."""
    (deep, height, width), _, (behind, down, _) = window
    with unit.module.function(f"grouped_{window}_{places}", dict.fromkeys(_ROW, i32)) as f:
        sums = [f.local(f32x4) for _ in range(places)]
        at, end = f.local(i32), f.local(i32)
        with channels.taps(f, (deep, height), (f.plane * behind, f.line * down), f.x) as line:
            column = f.let(line)
            f.set(end, line + f.depth)
            with f.while_(column != end):
                f.set(at, column)
                weights = (f.let(f32x4.load(f.w, offset=16 * k)) for k in range(width))
                add_taps(unit, f, window, sums, width, at, f32x4.load32_splat, weights)
                f.set(f.w, f.w + 16 * width)
                f.set(column, column + 4)
        for k, total in enumerate(sums):
            if k:
                f.set(f.y, f.y + f.made)
            f.store(f.y, total)
    return f
