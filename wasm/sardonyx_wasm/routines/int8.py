"""Matrix products of integers of 8 bits, exact: sums are int32 and wrap around.

Elements of A are int16, so that zero points may have been subtracted; rows of A have an even number of them. B keeps
the type that its numbers fit, int8, uint8 or int16, packed in panels of 8, 12 or 16 columns that pair the rows of B, as
`i32x4.dot_i16x8_s` wants them: [ceil(N / width), K / 2, width, 2].
"""

from __future__ import annotations

import math

from sardonyx.code.kernel import Routine

from ..assembler import Expr, Function, Variable, i8x16, i16x8, i32, i32x4
from ..code import Code, Unit
from . import frame, tile

_HEIGHTS = {8: 4, 12: 3, 16: 2}
"""The rows of a register tile by its columns, the best of V8 and Cranelift alike; with eight V8 is slower."""
_UNROLL = 2
_PAIRS = 4
"""Pairs in a vector of A: all are read at once where a compiler loads first."""

FEW = 16
"""With at most as many rows, known beforehand, a unit is a panel rather than a row."""

_LOADS = {"int8": (i16x8.load8x8_s, 1), "uint8": (i16x8.load8x8_u, 1), "int16": (i16x8.load, 2)}
_TILE = ("a", "a_row", "deep", "b", "c", "c_row")
_PRODUCT = ("a", "a_row", "deep", "count", "b", "c", "c_row", "columns", "scratch")
EDGE = 4 * max(width * height for width, height in _HEIGHTS.items())
"""Bytes of scratch memory that `product` needs."""


def matmul_int8(unit: Unit, routine: Routine) -> Code:
    """a [..., M, K] x b [..., panels, K / 2, width, 2] -> [..., M, N]; b has all of a's outer axes, or none."""
    *outer, depth = routine.inputs[0]
    columns = routine.outputs[0][-1]
    stacked = len(routine.inputs[1]) > 4
    width: int = routine.inputs[1][-2]
    line = 4 * width  # bytes of a row of a tile
    multiply = product(unit, routine.reads[1], width)
    few = all(isinstance(size, int) for size in (*outer, columns)) and math.prod(outer) <= FEW and not stacked
    with frame.function(unit, routine) as f:
        a, b, c = frame.buffers(f, routine)
        a_row = f.let(frame.size(f, depth) * 2)
        c_row = f.let(frame.size(f, columns) * 4)
        panel = f.let(frame.size(f, depth) * (width * _LOADS[routine.reads[1]][1]))
        if few:
            before = f.let(f.begin * line)
            wide = frame.least(f, (f.end - f.begin) * line, c_row - before)
            f.call(multiply, a, a_row, a_row, math.prod(outer), b + f.begin * panel, c + before, c_row, wide, f.scratch)
            return Code(f, -(-columns // width), scratch=EDGE)
        height = f.let(frame.product(f, outer[-1:] if stacked else outer))
        matrix = f.let(i32.div_u(c_row + (line - 1), line) * panel)
        row, stop, count = f.local(i32, init=f.begin), f.local(i32), f.local(i32)
        with f.while_(i32.lt_u(row, f.end)):
            number = f.let(i32.div_u(row, height))
            f.set(stop, frame.least(f, (number + 1) * height, f.end))
            with f.while_(i32.lt_u(row, stop)):
                f.set(count, frame.least(f, i32.const(tile.BLOCK), stop - row))
                rows = a + row * a_row, a_row, a_row, count
                f.call(multiply, *rows, b + number * matrix, c + row * c_row, c_row, c_row, f.scratch)
                f.set(row, row + count)
    return Code(f, frame.units(outer), _HEIGHTS[width], EDGE)


def product(unit: Unit, dtype: str, width: int) -> Function:
    """A function: `count` rows of A times the panels of this dtype and width that `columns` bytes of results need.

    Its parameters, all i32: `a`, `a_row`, the address of the first row of int16 and the bytes to the next; `deep`, the
    bytes of a row that count, rows may share some; `count`; `b`, the panels; `c` and `c_row`, where results go and the
    bytes of their rows; `columns`; `scratch`, of `EDGE` bytes.
    """
    name = f"{dtype}_{width}"
    return unit.once("integer", name, lambda: _write_product(unit, name, dtype, width))  # type: ignore[no-any-return]


def _write_product(unit: Unit, name: str, dtype: str, width: int) -> Function:
    most, line = _HEIGHTS[width], 4 * width
    tiles = [_write_tile(unit, f"{name}_{height}", height, dtype, width) for height in range(1, most + 1)]
    with unit.module.function(f"product_{name}", dict.fromkeys(_PRODUCT, i32)) as f:
        a, c, left = f.local(i32), f.local(i32), f.local(i32)
        panel = f.let(f.deep * (width // 2 * _LOADS[dtype][1]))
        target, stride = f.local(i32), f.local(i32)
        with f.while_(f.columns > 0):
            f.set(a, f.a)
            f.set(c, f.c)
            f.set(left, f.count)
            edge = f.let(f.columns < line)

            def rows(height: int, edge: Variable = edge) -> None:
                f.set(target, f.select(edge, f.scratch, c))
                f.set(stride, f.select(edge, line, f.c_row))
                f.call(tiles[height - 1], a, f.a_row, f.deep, f.b, target, stride)
                with f.if_(edge):
                    tile.copy(f, c, f.c_row, target, line, height, f.columns)
                f.set(a, a + f.a_row * height)
                f.set(c, c + f.c_row * height)
                f.set(left, left - height)

            with f.while_(left >= most):
                rows(most)
            for height in range(most - 1, 0, -1):
                with f.if_(left == height):
                    rows(height)
            f.set(f.b, f.b + panel)
            f.set(f.c, f.c + line)
            f.set(f.columns, f.columns - line)
    return f


def _write_tile(unit: Unit, name: str, height: int, dtype: str, width: int) -> Function:
    """The function of `height` rows times one panel, all of whose columns are written."""
    (load, element), vectors = _LOADS[dtype], width // 4
    loads_first = tile.SHAPES[unit.target].loads_first
    unroll = _PAIRS if loads_first else _UNROLL
    with unit.module.function(f"tile_{name}", dict.fromkeys(_TILE, i32)) as f:
        a = [f.a, *(f.let(f.a + i * f.a_row) for i in range(1, height))]
        sums = [[f.local(i32x4) for _ in range(vectors)] for _ in a]
        pairs, several = [f.local(i16x8) for _ in range(vectors)], [f.local(i8x16) for _ in a]
        one = f.local(i16x8)

        def spread(row: int, step: int, count: int) -> Expr:
            """A pair of a row, in all lanes: where loads come first, one load is for as many as a vector has."""
            if count < _PAIRS:
                return i32x4.load32_splat(a[row], offset=4 * step).as_(i16x8)
            if step == 0:
                f.set(several[row], i8x16.load(a[row]))
            lanes = [4 * step + k for k in range(4)] * _PAIRS
            return i8x16.shuffle(several[row], several[row], lanes=lanes).as_(i16x8)

        def steps(count: int) -> None:
            for step in range(count):
                for row, line in enumerate(sums):
                    if loads_first and (step or row):
                        f.br_if(done, i32.eqz(f.deep))  # never, but it ends a block
                    if row == 0:
                        for v, pair in enumerate(pairs):
                            f.set(pair, load(f.b, offset=8 * element * (step * vectors + v)))
                    f.set(one, spread(row, step, count))
                    for pair, total in zip(pairs, line):
                        f.set(total, total + i32x4.dot_i16x8_s(one, pair))
            for x in a:
                f.set(x, x + 4 * count)
            f.set(f.b, f.b + 8 * element * vectors * count)

        end = f.let(a[0] + (f.deep & -4 * unroll))
        with f.block() as done:
            with f.while_(a[0] != end):
                steps(unroll)
            f.set(end, a[0] + (f.deep & 4 * (unroll - 1)))
            with f.while_(a[0] != end):
                steps(1)
        tile.store(f, sums)
    return f
