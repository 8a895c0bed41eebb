"""A convolution of sequences of integers with long filters, exact: Winograd's tiles, nested.

A filter of more than three taps is the sum of filters of four, which see elements four apart. Outputs come in tiles of
four as well, so what F(4, 4) makes of the elements of a tile is what the filter before reads in the next tile: each
element is transformed once, and the sum over filters is part of the product. Rows of the product, tiles of `groups`
times C numbers, share what they have in common. Eleven taps take 5.25 multiplications.

F(4, 4) has the points 0, 1, -1, 2, -2, infinity and 3; what makes G's rows and A's columns integers is in G, so that
int16 holds it. Where the last filter has five taps, all are F(4, 5), with eight points. `winograd_int8` has the
transforms, and how results get rid of their factor.

x int16 [S, L, C], border included, as much as tiles see; u int16 [7 or 8, panels, groups * C / 2, width, 2], panels as
`int8` has them; results int32 [S, Lo, M]. All is done for a band of tiles at a time, whose planes are in the scratch
memory. A unit is a tile.
"""

from __future__ import annotations

from sardonyx.code.kernel import Routine
from sardonyx.compiler.legalization.filtering import Filter

from ..abi import SCRATCH
from ..assembler import i32
from ..code import Code, Unit
from . import frame, int8
from .winograd import made
from .winograd_int8 import APART, COLUMNS, band, write_input, write_output

OUTPUTS = 4
"""Of a tile, and how far apart filters see."""

_ALIGN = 12
"""Units of a share: what it reads behind them is transformed for it alone."""


def conv_line_int8(unit: Unit, routine: Routine) -> Code:
    """x of int16 x u of int16 -> int32."""
    (batch, length, features), (number, panels, half, panel_width, _) = routine.outputs[0], routine.inputs[1]
    size, depth = routine.inputs[0][1:]
    line = Filter(OUTPUTS, number - OUTPUTS + 1)
    pixel, deep, target_pixel = 2 * depth, 4 * half, 4 * features
    more = deep // pixel - 1
    most = band(number, depth, min(features, COLUMNS), more)
    multiply = int8.product(unit, routine.reads[1], panel_width)
    lines, key = (line, Filter()), f"line_{line.taps}"
    taken = unit.once("winograd", f"int8 input {key}", lambda: write_input(unit, key, lines))
    given = unit.once("winograd", f"int8 output {key}", lambda: write_output(unit, key, lines))
    panel = deep * panel_width
    with frame.function(unit, routine) as f:
        x, u, z = frame.buffers(f, routine)
        rows = f.let(frame.size(f, length))
        sequence = f.let(frame.size(f, size) * pixel)
        tiles = f.let(frame.divided_up(rows, OUTPUTS))
        v = f.let(f.scratch + int8.EDGE)
        at, left, count, place, tile, begin, part, plane, results = (f.local(i32) for _ in range(9))
        f.set(at, f.begin)
        with f.while_(at != f.end):
            index = f.let(i32.div_u(at, tiles))
            first = f.let(at - index * tiles)
            f.set(left, frame.least(f, tiles - first, f.end - at))
            f.set(count, frame.divided_up(left, frame.divided_up(left, most)))
            f.set(plane, (count + more) * pixel + APART)
            y = f.let(v + plane * number)
            source = f.let(x + index * sequence + first * (OUTPUTS * pixel))
            with f.loop(tile, 0, count + more):
                step = i32.const(pixel)
                f.call(taken, source + tile * (OUTPUTS * pixel), step, step, pixel, v + tile * pixel, plane)
            with f.loop(begin, 0, features, step=COLUMNS):
                f.set(part, frame.least(f, features - begin, COLUMNS) * 4)
                f.set(results, count * part + APART)
                weights = f.let(u + begin * deep)
                with f.loop(place, 0, number):
                    left_side = v + place * plane, i32.const(pixel), i32.const(deep), count
                    right = weights + place * (panels * panel)
                    f.call(multiply, *left_side, right, y + place * results, part, part, f.scratch)
                with f.loop(tile, 0, count):
                    top = f.let((first + tile) * OUTPUTS)
                    high = f.let(frame.least(f, rows - top, OUTPUTS))
                    target = z + (index * rows + top) * target_pixel + begin * 4
                    steps = i32.const(target_pixel), i32.const(target_pixel)
                    f.call(given, y + tile * part, results, target, *steps, high, 1, part)
            f.set(at, at + count)
    return Code(f, made(line).units(batch, length), _ALIGN, SCRATCH)
