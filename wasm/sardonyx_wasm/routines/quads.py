"""Matrix products of bytes, exact: (x - zero point) w, sums are int32 and wrap around.

x is uint8, w is int8 in panels of `WIDTH` columns that have four rows of w side by side, as the relaxed dot product
wants them: [ceil(N / WIDTH), K / 4, WIDTH, 4]. Hosts add the products of two neighbours in 16 bits, which hold them
since two neighbours of w add up to `MATMUL_QUADS.pair` at most; what w has beyond stands in a list
(`legalization.quads`).

Hosts read the bytes of x with a sign or without. The product asks which; where there is one, x is moved by 128. Sums
begin with what makes up for that and for the zero point: the sum of each column of w, times a number.

Cranelift reads the ones that widen sums of two products from memory, anew for each vector of products. For x64, where
bytes are not moved, tiles of another form multiply by ones that it cannot see, which stay in a register.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.code.kernel import Routine

from ..assembler import Expr, Function, Operand, Variable, i8x16, i16x8, i32, i32x4
from ..code import Code, Unit
from ..primitives import MATMUL_QUADS
from ..vectors.lanes import words
from . import frame, tile

_VECTORS = 4
WIDTH = MATMUL_QUADS.width
assert WIDTH == 4 * _VECTORS

_FUSED, _APART, _PLAIN = "fused", "apart", "plain"
"""Forms of a tile: the whole relaxed dot product, that of two neighbours and then their sums, products of 16 bits."""
_TILE = ("a", "a_row", "b", "sums", "factor", "word", "c", "c_row", "panels")
_PRODUCT = ("a", "a_row", "count", "b", "sums", "zero", "starts", "elements", "c", "c_row", "columns", "scratch")
_ROW = 4 * WIDTH  # bytes of a row of a tile
_SIGNS = 0x80808080 - (1 << 32)
_HEIGHT = 2
EDGE = _HEIGHT * _ROW
"""Bytes of scratch memory that `product` needs."""


def matmul_quads(unit: Unit, routine: Routine) -> Code:
    """a [..., K] x b [panels, K / 4, WIDTH, 4] -> [..., N]; behind b its sums, a's zero point, starts and elements."""
    outer, depth = routine.inputs[0][:-1], 4 * routine.inputs[1][1]
    columns = routine.outputs[0][-1]
    multiply = product(unit)
    with frame.function(unit, routine) as f:
        a, b, sums, zero, starts, elements, c = frame.buffers(f, routine)
        before, c_row = f.let(f.begin * _ROW), 4 * columns
        width = frame.least(f, (f.end - f.begin) * _ROW, c_row - before)
        left = a, depth, frame.product(f, outer)
        right = b + f.begin * (WIDTH * depth), sums + before, i32.load(zero), starts + f.begin * 4, elements
        f.call(multiply, *left, *right, c + before, c_row, width, f.scratch)
    return Code(f, -(-columns // WIDTH), scratch=EDGE)


def product(unit: Unit) -> Function:
    """A function: `count` rows of A times the panels that `columns` bytes of results need.

    Its parameters, all i32: `a`, `a_row`, the address of the first row of bytes and how many there are, a multiple of
    4; `count`; `b`, the panels; `sums`, those of the columns of b; `zero`, the zero point of A; `starts`, where the
    number of the first further element of each panel is, and the end of the last; `elements`, where these are; `c` and
    `c_row`, where results go and the bytes of their rows; `columns`; `scratch`, of `EDGE` bytes.
    """
    return unit.once("quads", "product", lambda: _write_product(unit))  # type: ignore[no-any-return]


def _write_product(unit: Unit) -> Function:
    is_fused = "relaxed-simd" in unit.features
    tiles = _write_tiles(unit, _FUSED if is_fused else _PLAIN)
    apart = _write_tiles(unit, _APART) if is_fused and unit.target == "wasmtime" else []
    further = _write_further(unit)
    with unit.module.function("product_quads", dict.fromkeys(_PRODUCT, i32)) as f:
        moved = f.let(_signs(is_fused))
        factor = f.let(f.select(moved, 128, i32.const(0)) - f.zero)
        panel = f.let(f.a_row * WIDTH)
        a, c, left, target, stride = (f.local(i32) for _ in range(5))

        def rows(height: int, panels: Operand) -> None:
            """Rows from `a` on times the next panels, to `target`."""
            before, behind = (a, f.a_row, f.b, f.sums, factor), (target, stride, panels)
            if apart:
                with f.if_(moved):
                    f.call(tiles[height - 1], *before, moved, *behind)
                with f.else_():
                    f.call(apart[height - 1], *before, 1, *behind)
            else:
                f.call(tiles[height - 1], *before, moved, *behind)
            for row in range(height):
                f.call(further, a + f.a_row * row, target + stride * row, f.zero, f.starts, f.elements, panels)

        def go(panels: Operand) -> None:
            """Have the panels behind these be next."""
            f.set(f.b, f.b + panel * panels)
            f.set(f.sums, f.sums + _ROW * panels)
            f.set(f.starts, f.starts + 4 * panels)
            f.set(f.c, f.c + _ROW * panels)
            f.set(f.columns, f.columns - _ROW * panels)

        whole = f.let(i32.div_u(f.columns, _ROW))
        for height in range(1, len(tiles) + 1):  # so few read all of B, more rows panel by panel
            with f.if_(f.count == height):
                f.set(a, f.a)
                f.set(target, f.c)
                f.set(stride, f.c_row)
                rows(height, whole)
        with f.if_(i32.le_u(f.count, len(tiles))):
            go(whole)
        with f.while_(f.columns > 0):
            f.set(a, f.a)
            f.set(c, f.c)
            f.set(left, f.count)
            edge = f.let(f.columns < _ROW)

            def tiled(height: int, edge: Variable = edge) -> None:
                f.set(target, f.select(edge, f.scratch, c))
                f.set(stride, f.select(edge, _ROW, f.c_row))
                rows(height, 1)
                with f.if_(edge):
                    tile.copy(f, c, f.c_row, target, _ROW, height, f.columns)
                f.set(a, a + f.a_row * height)
                f.set(c, c + f.c_row * height)
                f.set(left, left - height)

            with f.while_(left >= len(tiles)):
                tiled(len(tiles))
            if len(tiles) > 1:
                with f.if_(left > 0):
                    tiled(1)
            go(1)
    return f


def _signs(is_fused: bool) -> Expr:
    """What moves four bytes of A: their first bits where the host takes those for signs, else nothing."""
    if not is_fused:
        return i32.const(0)
    ones, top = (i32x4.const(*[number] * 4).as_(i8x16) for number in (0x01010101, _SIGNS))
    seen = i32x4.extract_lane(i32x4.relaxed_dot_i8x16_i7x16_add_s(ones, top, i32x4.const(0, 0, 0, 0)), lane=0)
    return i32.shr_s(seen, 31) & _SIGNS


def _write_tiles(unit: Unit, form: str) -> Sequence[Function]:
    """The functions of one row, two rows, and so on."""
    return [_write_tile(unit, height, form) for height in range(1, _HEIGHT + 1)]


def _write_tile(unit: Unit, height: int, form: str) -> Function:
    """The function of `height` rows times some panels, all of whose columns are written.

    Its parameter `word` is what moves four bytes of A; in the form of two neighbours it is 1.
    """
    with unit.module.function(f"tile_quads_{form}_{height}", dict.fromkeys(_TILE, i32)) as f:
        a = [f.local(i32) for _ in range(height)]
        # In plain form, a vector has the sums of two pairs of two columns: two rows leave registers for half a panel.
        parts, wide = (2, _VECTORS // height) if form == _PLAIN else (1, _VECTORS)
        sums = [[f.local(i32x4) for _ in range(parts * wide)] for _ in a]
        moved, factor = f.let(i32x4.splat(f.word)), f.let(i32x4.splat(f.factor))
        ones = f.let(i16x8.splat(f.word))
        four, rows, pairs, w = f.local(i32x4), [f.local(i16x8) for _ in a], f.local(i16x8), f.local(i32)
        # Hosts read all that a turn of the loop reads before they multiply: two rows leave no registers for more.
        unroll = 2 if height == 1 else 1
        end = f.let(f.a + (f.a_row & -4 * unroll))

        def fused(offset: int, step: int) -> None:
            for x, line in zip(a, sums, strict=True):
                f.set(four, i32x4.load32_splat(x, offset=4 * step) ^ moved)
                for v, z in enumerate(line):
                    b = i8x16.load(w, offset=offset + 16 * v)
                    f.set(z, i32x4.relaxed_dot_i8x16_i7x16_add_s(b, four.as_(i8x16), z))

        def apart(offset: int, step: int) -> None:
            for x, line in zip(a, sums, strict=True):
                f.set(four, i32x4.load32_splat(x, offset=4 * step))
                for v, z in enumerate(line):
                    b = i8x16.load(w, offset=offset + 16 * v)
                    f.set(z, z + i32x4.dot_i16x8_s(i16x8.relaxed_dot_i8x16_i7x16_s(b, four.as_(i8x16)), ones))

        def plain(offset: int, step: int) -> None:
            for x, row in zip(a, rows, strict=True):
                f.set(row, i16x8.extend_low_i8x16_u(i32x4.load32_splat(x, offset=4 * step).as_(i8x16)))
            for v in range(parts * wide):
                f.set(pairs, i16x8.load8x8_s(w, offset=offset + 8 * v))
                for row, line in zip(rows, sums, strict=True):
                    f.set(line[v], line[v] + i32x4.dot_i16x8_s(row, pairs))

        def steps(count: int, first: int) -> None:
            for step in range(count):
                {_FUSED: fused, _APART: apart, _PLAIN: plain}[form](16 * (step * _VECTORS + first), step)
            for x in a:
                f.set(x, x + 4 * count)
            f.set(w, w + 16 * _VECTORS * count)

        with f.while_(f.panels > 0):
            for first in range(0, _VECTORS, wide):
                f.set(w, f.b)
                for row, x in enumerate(a):
                    f.set(x, f.a + f.a_row * row)
                for z in (z for line in sums for z in line):
                    f.set(z, i32x4.const(0, 0, 0, 0))
                with f.while_(a[0] != end):
                    steps(unroll, first)
                if unroll > 1:
                    with f.if_(f.a_row & 4):
                        steps(1, first)
                start = [f.let(i32x4.load(f.sums, offset=16 * (first + v)) * factor) for v in range(wide)]
                for row, line in enumerate(sums):
                    whole = line if parts == 1 else [_of_pairs(*line[2 * v : 2 * v + 2]) for v in range(wide)]
                    at = f.let(f.c + f.c_row * row)
                    for v, (begin, total) in enumerate(zip(start, whole, strict=True)):
                        f.store(at, total + begin, offset=16 * (first + v))
            f.set(f.b, w)
            f.set(f.sums, f.sums + _ROW)
            f.set(f.c, f.c + _ROW)
            f.set(f.panels, f.panels - 1)
    return f


def _of_pairs(low: Expr, high: Expr) -> Expr:
    """The sums of neighbours in two vectors."""
    return words(low, high, 0, 2, 4, 6).as_(i32x4) + words(low, high, 1, 3, 5, 7).as_(i32x4)


def _write_further(unit: Unit) -> Function:
    """The function that adds what further elements of some panels give to a row of results.

    An element is an int32: the row of w in 16 bits, the column of the panel in 4, and the number, with its sign.
    """
    names = ("a", "c", "zero", "starts", "elements", "panels")
    with unit.module.function("further_quads", dict.fromkeys(names, i32)) as f:
        at, end = f.let(f.elements + i32.load(f.starts) * 4), f.local(i32)
        word, place = f.local(i32), f.local(i32)
        with f.while_(f.panels > 0):
            f.set(end, f.elements + i32.load(f.starts, offset=4) * 4)
            with f.while_(i32.lt_u(at, end)):
                f.set(word, i32.load(at))
                f.set(place, f.c + (i32.shr_u(word, 14) & 0x3C))
                x = i32.load8_u(f.a + (word & 0xFFFF)) - f.zero
                f.store(place, i32.load(place) + x * i32.shr_s(word, 20))
                f.set(at, at + 4)
            f.set(f.starts, f.starts + 4)
            f.set(f.c, f.c + _ROW)
            f.set(f.panels, f.panels - 1)
    return f
