"""Winograd's convolution of integers, exact: 3 x 3 taps, or three to five along one axis, in steps of one.

v = B' d B for each tile d of int16 elements, products with integer weights u for each place, and of their sums m come
A' m A. The matrices are those of F(m, r) for the points 0, 1, -1 (2, -2, 3, -3) and infinity, whose rows of G and
columns of A are multiplied by what makes them integers (`compiler.legalization.filtering` has those of floats). So a
row of results is `FACTORS` times too large, which is an odd number times a power of two. Sums wrap around, as do the
products with the inverse of the odd one: what is left is exact if results have few enough bits.

x [B, H, W, C], border included, as much as tiles see; u [places, panels, C / 2, width, 2], panels as `int8` has them;
results int32 [B, Ho, Wo, M]. Attributes: `tile`, the outputs of a tile along both axes, kernel, strides, dilations. All
is done for a band of tiles at a time, whose planes are in the scratch memory. A unit is a row of tiles of an image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import TypeAlias

from sardonyx.code.kernel import Routine
from sardonyx.compiler.legalization.filtering import Filter, filters

from ..abi import SCRATCH
from ..assembler import Expr, Function, Variable, i16x8, i32, i32x4
from ..code import Code, Unit
from . import frame, int8, winograd
from .channels import channels

Line: TypeAlias = Sequence[Expr]

COLUMNS = 96
"""Channels that are made of a band at a time: whole panels, whatever their width."""
FACTORS = {
    (1, 1): (1,),
    (2, 3): (2, 2),
    (4, 3): (24, 12, 6, 6),
    (4, 4): (120,) * 4,
    (6, 3): (720,) * 6,
    (4, 5): (720,) * 4,
}
"""How much too large the rows of A' m are, by the outputs of a tile and the taps."""
CHANNELS = i16x8.size // 2
"""The fewest channels of an image; a result has a multiple of four."""

_ROOM = 480 << 10
"""Bytes of planes that stay in a cache of the second level."""
_FEW, _MANY = 12, 48
"""Tiles of a band: fewer would read weights too often, more gain nothing."""
APART = 96
"""Bytes between planes, which would share lines of the cache otherwise."""

_INPUT = ("source", "row", "column", "pixel", "target", "plane")
_OUTPUT = ("source", "plane", "target", "row", "column", "rows", "columns", "pixel")


def conv_winograd_int8(unit: Unit, routine: Routine) -> Code:
    """x of int16 x u of 8 or 16 bits -> int32."""
    lines = filters(routine.attributes)
    tiles = [winograd.made(line) for line in lines]
    (batch, height, width, features), (number, panels, half, panel_width, _) = routine.outputs[0], routine.inputs[1]
    depth = 2 * half
    most = band(number, depth, min(features, COLUMNS))
    multiply = int8.product(unit, routine.reads[1], panel_width)
    key = "x".join(f"{line.outputs}_{line.taps}" for line in lines)
    taken = unit.once("winograd", f"int8 input {key}", lambda: write_input(unit, key, lines))
    given = unit.once("winograd", f"int8 output {key}", lambda: write_output(unit, key, lines))
    element = 2 if routine.reads[1] == "int16" else 1
    panel = depth * panel_width * element
    with frame.function(unit, routine) as f:
        x, u, z = frame.buffers(f, routine)
        pixel, target_pixel = 2 * depth, 4 * features
        rows, columns = (f.let(frame.size(f, size)) for size in (height, width))
        row = f.let(frame.size(f, routine.inputs[0][2]) * pixel)
        image = f.let(frame.size(f, routine.inputs[0][1]) * row)
        target_row = f.let(columns * target_pixel)
        steps, target_steps = (
            [f.let(down * lines[0].dilation), i32.const(across * lines[1].dilation)]
            for down, across in ((row, pixel), (target_row, target_pixel))
        )
        down, across = f.let(tiles[0].of(rows)), f.let(tiles[1].of(columns))
        first, last = f.let(f.begin * across), f.let(f.end * across)
        bands = f.let(frame.divided_up(last - first, most))
        v = f.let(f.scratch + int8.EDGE)
        count, plane, results, begin, place, tile, at, top, left, part = (f.local(i32) for _ in range(10))

        def find() -> None:
            """Have the image and the first output of a tile in `at`, `top` and `left`."""
            f.set(at, first + tile)
            f.set(top, i32.div_u(at, across))
            f.set(left, winograd.first_output(lines[1], f.let(at - top * across)))
            f.set(at, i32.div_u(top, down))
            f.set(top, winograd.first_output(lines[0], f.let(top - at * down)))

        with f.while_(bands > 0):
            f.set(count, frame.divided_up(last - first, bands))
            f.set(plane, count * pixel + APART)
            y = f.let(v + plane * number)
            with f.loop(tile, 0, count):
                find()
                source = x + at * image + top * row + left * pixel
                f.call(taken, source, *steps, pixel, v + tile * pixel, plane)
            with f.loop(begin, 0, features, step=COLUMNS):
                f.set(part, frame.least(f, features - begin, COLUMNS) * 4)
                f.set(results, count * part + APART)
                weights = f.let(u + begin * (depth * element))
                with f.loop(place, 0, number):
                    left_side = v + place * plane, i32.const(pixel), i32.const(pixel), count
                    right = weights + place * (panels * panel)
                    f.call(multiply, *left_side, right, y + place * results, part, part, f.scratch)
                with f.loop(tile, 0, count):
                    find()
                    high, wide = (
                        f.let(winograd.outputs_left(f, line, size - start))
                        for line, size, start in zip(lines, (rows, columns), (top, left), strict=True)
                    )
                    with f.if_((high > 0) & (wide > 0)):
                        target = z + ((at * rows + top) * columns + left) * target_pixel + begin * 4
                        f.call(given, y + tile * part, results, target, *target_steps, high, wide, part)
            f.set(first, first + count)
            f.set(bands, bands - 1)
    return Code(f, tiles[0].units(batch, height), scratch=SCRATCH)


def band(number: int, depth: int, columns: int, more: int = 0) -> int:
    """The tiles of a band, which reads `more` than it makes.

    >>> band(36, 64, 64), band(36, 512, 96), band(16, 4096, 96)
    (35, 12, 7)
    """
    each, apart = number * (2 * depth + 4 * columns), number * (2 * APART + 2 * depth * more)
    room = (SCRATCH - int8.EDGE - apart) // each
    return max(1, min(_MANY, room, max(_FEW, (_ROOM - apart) // each)))


def write_input(unit: Unit, key: str, lines: tuple[Filter, Filter]) -> Function:
    """A function: the planes of a tile, all its channels."""
    size, seen = lines[0].places, lines[1].span
    down, across = (_B[line[:2]] for line in lines)
    with unit.module.function(f"winograd_int8_input_{key}", dict.fromkeys(_INPUT, i32)) as f:
        source, target, at, to = f.local(i32, init=f.source), f.local(i32, init=f.target), f.local(i32), f.local(i32)
        with channels(f, f.pixel, i16x8, (source, target)):
            columns: list[list[Variable]] = []
            for column in range(seen):
                f.set(at, source + column * f.column if column else source)
                line = []
                for row in range(size):
                    line.append(f.let(i16x8.load(at)))
                    if row + 1 < size:
                        f.set(at, at + f.row)
                columns.append([f.let(value) for value in down(f, line)])
            f.set(to, target)
            for row in range(size):
                for value in across(f, [column[row] for column in columns]):
                    f.store(to, value)
                    f.set(to, to + f.plane)
    return f


def write_output(unit: Unit, key: str, lines: tuple[Filter, Filter]) -> Function:
    """A function: the outputs of a tile of planes, some of its channels; it may have fewer rows and columns."""
    (rows, columns), (down, across) = [line.outputs for line in lines], [_A[line[:2]] for line in lines]
    factors = [FACTORS[line[:2]] for line in lines]
    shifts = [[(factor & -factor).bit_length() - 1 for factor in line] for line in factors]
    odd = prod(line[-1] >> shift[-1] for line, shift in zip(factors, shifts, strict=True))
    with unit.module.function(f"winograd_int8_output_{key}", dict.fromkeys(_OUTPUT, i32)) as f:
        # What hangs over goes where the last one goes, which is stored after it.
        tops = [f.let(frame.least(f, f.rows - 1, k) * f.row) for k in range(rows)]
        lefts = [f.let(frame.least(f, f.columns - 1, k) * f.column) for k in range(columns)]
        source, target, at = f.local(i32, init=f.source), f.local(i32, init=f.target), f.local(i32)
        inverse = f.let(i32x4.const(_inverse(odd)))
        with channels(f, f.pixel, i32x4, (source, target)):
            f.set(at, source)
            made: list[list[Variable]] = []
            for _ in range(lines[0].places):
                line = []
                for _ in range(lines[1].places):
                    line.append(f.let(i32x4.load(at)))
                    f.set(at, at + f.plane)
                made.append([f.let(value) for value in across(f, line)])
            for k in reversed(range(columns)):  # columns of outputs, since planes are read row by row
                values = [f.let(value) for value in down(f, [line[k] for line in made])]
                for row in reversed(range(rows)):
                    value = values[row] if odd == 1 else values[row] * inverse
                    f.store(target + tops[row] + lefts[k], value >> (shifts[0][row] + shifts[1][k]))
    return f


def _inverse(odd: int) -> int:
    """What undoes a product with an odd number in 32 bits.

    >>> _inverse(9) * 9 % 2**32
    1
    """
    found = pow(odd, -1, 1 << 32)
    return found if found < 1 << 31 else found - (1 << 32)


def _same(f: Function, line: Line) -> list[Expr]:
    return [*line]


def _input_2(f: Function, d: Line) -> list[Expr]:
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _input_4(f: Function, d: Line) -> list[Expr]:
    even, odd = f.let(d[4] - (d[2] << 2)), f.let(d[3] - (d[1] << 2))
    near, far = f.let(d[4] - d[2]), f.let((d[3] - d[1]) << 1)
    first = ((d[0] - d[2]) << 2) + near
    return [first, even + odd, even - odd, near + far, near - far, d[5] - d[3] - ((d[3] - d[1]) << 2)]


def _output_2(f: Function, m: Line) -> list[Expr]:
    return [(m[0] << 1) + m[1] + m[2], m[1] - m[2] - (m[3] << 1)]


def _output_4(f: Function, m: Line) -> list[Expr]:
    near, far = f.let(m[1] + m[2]), f.let(m[3] + m[4])
    one, two = f.let(m[1] - m[2]), f.let(m[3] - m[4])
    return [
        ((m[0] + near) << 2) + (m[0] << 1) + far,
        (one << 1) + two,
        near + far,
        one + (two << 1) + (m[5] << 2) + (m[5] << 1),
    ]


def _input_4_of_4(f: Function, d: Line) -> list[Expr]:
    apart = [f.let(after - before * i16x8.const(3)) for before, after in pairwise(d)]
    return [*_input_4(f, apart), d[5] - d[3] - ((d[3] - d[1]) << 2)]


def _output_4_of_4(f: Function, m: Line) -> list[Expr]:
    near, far = f.let(m[1] + m[2]), f.let(m[3] + m[4])
    one, two = f.let(m[1] - m[2]), f.let((m[3] - m[4]) << 1)
    three = f.let(m[6] * i32x4.const(3))
    nine = f.let(three * i32x4.const(3))
    return [
        m[0] + near + far + m[6],
        one + two + three,
        near + (far << 2) + nine,
        one + (two << 2) + nine * i32x4.const(3) + m[5],
    ]


def _input_of_eight(f: Function, d: Line) -> list[Expr]:
    """What has the points 0, 1, -1, 2, -2, 3, -3 and infinity."""

    def times(number: int, x: Expr) -> Expr:
        return x * i16x8.const(number)

    made: list[Expr] = []
    for power, near, far in ((1, 36, 13), (2, 9, 10), (3, 4, 5)):  # the other two squares: their product, and their sum
        even = f.let(d[6] - times(far, d[4]) + times(near, d[2]))
        odd = f.let(d[5] - times(far, d[3]) + times(near, d[1]))
        odd = odd if power == 1 else f.let(times(power, odd))
        made += [even + odd, even - odd]
    first, last = (after[3] - times(14, after[2]) + times(49, after[1]) for after in (d[0::2], d[1::2]))
    return [first - times(36, d[0]), *made, last - times(36, d[1])]


def _output_of_eight(outputs: int) -> Callable[[Function, Line], list[Expr]]:
    def output(f: Function, m: Line) -> list[Expr]:
        sums = [f.let(m[k] + m[k + 1]) for k in (1, 3, 5)]
        differences = [f.let(m[k] - m[k + 1]) for k in (1, 3, 5)]
        made = []
        for k in range(outputs):
            one, two, three = differences if k % 2 else sums
            made.append(one + (two << k + 1) + (three * i32x4.const(3**k) if k else three))
        made[0] += m[0]
        made[-1] += m[7] << 3
        return made

    return output


_B = {
    (1, 1): _same,
    (2, 3): _input_2,
    (4, 3): _input_4,
    (4, 4): _input_4_of_4,
    (6, 3): _input_of_eight,
    (4, 5): _input_of_eight,
}
_A = {
    (1, 1): _same,
    (2, 3): _output_2,
    (4, 3): _output_4,
    (4, 4): _output_4_of_4,
    (6, 3): _output_of_eight(6),
    (4, 5): _output_of_eight(4),
}
