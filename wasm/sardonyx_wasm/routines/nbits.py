"""Products with weights of 4 or 8 bits in blocks along K, (number - zero point) * scale, that stay as small as this.

A few rows of A become integers themselves: in each block 30 bits of fixed point, as two int16, high and low. Their sums
of products with the weights are exact, so the result is as good as that of floats, and `i32x4.dot_i16x8_s` does eight
products at once. With more rows, or where A has an infinity or a NaN, panels of weights become floats in the scratch
memory, natively for BLAS (`device.unpacked`). A unit is a panel.

b of 8 bits is int8 [panels, K / 2, nr, 2]. That of 4 bits has words of 32 bits [panels, K / 8, nr]: k = 0, 2, 4, 6 in
the low half, lowest bits first, k = 1, 3, 5, 7 in the high half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sardonyx.code.kernel import Routine

from ..abi import FEW, HOSTED, SCRATCH
from ..assembler import Expr, Function, Variable, f32, f32x4, i8x16, i16x8, i32, i32x4
from ..code import Code, Unit
from . import frame, tile

_GROUP = 32  # bytes of 8 numbers of A: 8 high halves, 8 low halves
_INFO = 16  # bytes about a block of A: its unit, minus the sums of its high and low halves
_HEIGHT = 2  # rows of a register tile

# Places in the scratch memory: addresses of rows, the offset of the only segment, a tile at the edge, a mask, the rest.
_OFFSETS = 4 * tile.BLOCK
_MASK = _OFFSETS + 16
_EDGE = _MASK + 16
_REST = _EDGE + tile.EDGE
_PANELS = 1 << 18  # bytes of panels of floats at once, if one is not more


class _Form(NamedTuple):
    """How weights are stored: bits of a number, numbers in a block, vectors in a row of a panel."""

    bits: int
    block: int
    vectors: int

    def __str__(self) -> str:
        return "_".join(map(str, self))

    @property
    def row(self) -> int:
        """Bytes of a row of floats of a panel."""
        return 16 * self.vectors

    @property
    def group(self) -> int:
        """Bytes of 8 rows of a panel."""
        return self.vectors * self.bits * 4


def matmul_nbits(unit: Unit, routine: Routine) -> Code:
    """a [..., K] x packed b, scales [panels, blocks, nr], zero points [panels, blocks, nr] of int16 -> [..., N].

    Attributes bits, block; K is a multiple of `block`, which is one of 8.
    """
    *outer, depth = routine.inputs[0]
    columns = routine.outputs[0][-1]
    form = _Form(routine.attributes["bits"], routine.attributes["block"], tile.SHAPES[unit.target].vectors)
    blocks = depth // form.block
    halve, multiply = _halve(unit, form), _multiply(unit, form)
    widen, product = _widen(unit, form, 1), tile.product(unit)
    with frame.function(unit, routine) as f:
        a, b, scales, zeros, c = frame.buffers(f, routine)
        rows = f.let(frame.product(f, outer))
        row_bytes, c_row = 4 * depth, 4 * columns
        panel, scale = depth // 8 * form.group, blocks * form.row
        f.set(b, b + f.begin * panel)
        f.set(scales, scales + f.begin * scale)
        f.set(zeros, zeros + f.begin * (scale // 2))
        f.set(c, c + f.begin * form.row)
        left = f.let(c_row - f.begin * form.row)
        share = f.let((f.end - f.begin) * form.row)
        f.set(left, f.select(left < share, left, share))
        number, strange = f.local(i32), f.local(i32)
        data, infos = f.let(f.scratch + _REST), f.let(f.scratch + (_REST + FEW * row_bytes))
        with f.block() as done:
            f.br_if(done, i32.eqz(rows))
            with f.if_(rows <= FEW):
                with f.loop(number, 0, rows):
                    places = data + number * row_bytes, infos + number * (blocks * _INFO)
                    f.set(strange, strange | halve(a + number * row_bytes, *places, blocks))
                with f.if_(i32.eqz(strange)):
                    f.call(multiply, data, infos, rows, blocks, b, scales, zeros, c, c_row, left, f.scratch)
                    f.br(done)
            _in_floats(f, form, depth, rows, left, (a, b, scales, zeros, c), c_row, (widen, product))
    return Code(f, -(-columns * 4 // form.row), scratch=SCRATCH)


def widen_nbits(unit: Unit, routine: Routine) -> Code:
    """Panels of b, scales and zero points, as `matmul_nbits` has them, as floats [..., K, panel] in the scratch memory.

    The attribute `panel` is a multiple of nr; units begin with the first of a panel of floats.
    """
    form = _Form(routine.attributes["bits"], routine.attributes["block"], tile.SHAPES[unit.target].vectors)
    together = routine.attributes[HOSTED] * 4 // form.row
    blocks = routine.inputs[1][1]
    widen = _widen(unit, form, together)
    panel, scale = blocks * form.block // 8 * form.group, blocks * form.row
    with frame.function(unit, routine) as f:
        b, scales, zeros = frame.buffers(f, routine)
        number, place = f.local(i32), f.local(i32)
        with f.loop(number, f.begin, f.end):
            f.set(place, number - f.begin)
            f.set(place, i32.div_u(place, together) * (blocks * form.block * together) + i32.rem_u(place, together))
            operands = b + number * panel, scales + number * scale, zeros + number * (scale // 2)
            f.call(widen, *operands, f.scratch + place * form.row, blocks)
    return Code(f, routine.inputs[0][0], together)


def _in_floats(
    f: Function,
    form: _Form,
    depth: int,
    rows: Variable,
    left: Variable,
    operands: Sequence[Variable],
    c_row: int,
    functions: Sequence[Function],
) -> None:
    """Blocks of rows times some panels at a time, as floats."""
    a, b, scales, zeros, c = operands
    widen, product = functions
    blocks, panel = depth // form.block, depth * form.row
    together = max(1, _PANELS // panel) * form.row  # bytes of columns
    width, done, row, count = (f.local(i32) for _ in range(4))
    f.store(f.scratch, i32.const(0), offset=_OFFSETS)
    with f.while_(left > 0):
        f.set(width, f.select(left < together, left, together))
        with f.loop(done, 0, width, step=form.row):
            f.call(widen, b, scales, zeros, f.scratch + _REST + i32.div_u(done, form.row) * panel, blocks)
            f.set(b, b + depth // 8 * form.group)
            f.set(scales, scales + blocks * form.row)
            f.set(zeros, zeros + blocks * (form.row // 2))
        with f.loop(row, 0, rows, step=tile.BLOCK):
            f.set(count, f.select(rows - row < tile.BLOCK, rows - row, i32.const(tile.BLOCK)))
            tile.table(f, f.scratch, count, a + row * (4 * depth), i32.const(4 * depth))
            left_side = f.scratch, count, f.scratch + _OFFSETS, 1, 4 * depth
            panels = f.scratch + _REST, form.row, panel
            f.call(product, *left_side, *panels, c + row * c_row, c_row, width, f.scratch + _EDGE)
        f.set(c, c + width)
        f.set(left, left - width)


def _halve(unit: Unit, form: _Form) -> Function:
    """A function that makes integers of a row of A, block by block; not 0 where one has an infinity or a NaN."""
    return unit.once("nbits", f"halve {form.block}", lambda: _write_halve(unit, form.block))  # type: ignore[no-any-return]


def _write_halve(unit: Unit, block: int) -> Function:
    params = dict.fromkeys(("a", "data", "info", "blocks"), i32)
    with unit.module.function(f"halve_{block}", params, [i32]) as f:
        number, at, exponent, strange = (f.local(i32) for _ in range(4))
        most, high, low = f.local(i32x4), f.local(i32x4), f.local(i32x4)
        q, h = [f.local(i32x4) for _ in range(2)], [f.local(i32x4) for _ in range(2)]
        factor, halves = f.local(f32x4), f.local(i16x8)
        with f.loop(number, 0, f.blocks):
            f.set(most, i32x4.const(0))
            with f.loop(at, 0, 4 * block, step=16):
                f.set(most, i32x4.max_u(most, i32x4.load(f.a + at) & i32x4.const(0x7FFFFFFF)))
            f.set(most, i32x4.max_u(most, _turned(most, 8)))
            f.set(exponent, i32.shr_u(i32x4.extract_lane(i32x4.max_u(most, _turned(most, 4)), lane=0), 23))
            f.set(strange, strange | (exponent == 255))
            f.set(exponent, f.select(exponent < 29, 29, exponent))
            f.set(factor, f32x4.splat(f32.reinterpret_i32((282 - exponent) << 23)))  # the greatest is below 2**29
            f.set(high, i32x4.const(0))
            f.set(low, i32x4.const(0))
            with f.loop(at, 0, 4 * block, step=32):
                for k in range(2):
                    f.set(q[k], i32x4.trunc_sat_f32x4_s(f32x4.nearest(f32x4.load(f.a + at, offset=16 * k) * factor)))
                    f.set(h[k], (q[k] + i32x4.const(1 << 14)) >> 15)
                f.set(halves, i16x8.narrow_i32x4_s(*h))
                f.set(high, high + i32x4.dot_i16x8_s(halves, i16x8.const(1)))
                f.store(f.data + at, halves)
                f.set(halves, i16x8.narrow_i32x4_s(*(x - (y << 15) for x, y in zip(q, h))))
                f.set(low, low + i32x4.dot_i16x8_s(halves, i16x8.const(1)))
                f.store(f.data + at, halves, offset=16)
            f.store(f.info, (exponent - 28) << 23)
            f.store(f.info, -_total(f, high), offset=4)
            f.store(f.info, -_total(f, low), offset=8)
            f.set(f.a, f.a + 4 * block)
            f.set(f.data, f.data + 4 * block)
            f.set(f.info, f.info + _INFO)
        f.return_(strange)
    return f


def _turned(x: Expr, count: int) -> Expr:
    lanes = [(k + count) % 16 for k in range(16)]
    return i8x16.shuffle(x.as_(i8x16), x.as_(i8x16), lanes=lanes).as_(i32x4)


def _total(f: Function, x: Variable) -> Expr:
    f.set(x, x + _turned(x, 8))
    return i32x4.extract_lane(x + _turned(x, 4), lane=0)


_MULTIPLY = ("data", "infos", "rows", "blocks", "b", "scales", "zeros", "c", "c_row", "columns", "scratch")
_TILE = ("data", "infos", "blocks", "b", "scales", "zeros", "c", "c_row", "mask")


def _multiply(unit: Unit, form: _Form) -> Function:
    """A function: `rows` rows of integers times the panels that `columns` bytes of results need."""
    return unit.once("nbits", f"multiply {form}", lambda: _write_multiply(unit, form))  # type: ignore[no-any-return]


def _write_multiply(unit: Unit, form: _Form) -> Function:
    tiles = [_write_tile(unit, form, height) for height in range(1, _HEIGHT + 1)]
    with unit.module.function(f"multiply_{form}", dict.fromkeys(_MULTIPLY, i32)) as f:
        depth = f.let(f.blocks * (4 * form.block))  # bytes of a row
        about = f.let(f.blocks * _INFO)
        data, infos, c, left, target, stride = (f.local(i32) for _ in range(6))
        # Loaded, it stays in a register: V8 makes constants anew wherever they are used.
        f.store(f.scratch, i16x8.const(15), offset=_MASK)
        with f.while_(f.columns > 0):
            f.set(data, f.data)
            f.set(infos, f.infos)
            f.set(c, f.c)
            f.set(left, f.rows)
            edge = f.let(f.columns < form.row)
            with f.while_(left > 0):
                f.set(target, f.select(edge, f.scratch + _EDGE, c))
                f.set(stride, f.select(edge, form.row, f.c_row))
                operands = (f.blocks, f.b, f.scales, f.zeros, target, stride, f.scratch + _MASK)
                with f.if_(left >= _HEIGHT):
                    f.call(tiles[_HEIGHT - 1], data, infos, *operands)
                with f.else_():
                    f.call(tiles[0], data, infos, *operands)
                height = f.let(f.select(left < _HEIGHT, left, i32.const(_HEIGHT)))
                with f.if_(edge):
                    tile.copy(f, c, f.c_row, target, form.row, height, f.columns)
                f.set(data, data + depth * height)
                f.set(infos, infos + about * height)
                f.set(c, c + f.c_row * height)
                f.set(left, left - height)
            f.set(f.b, f.b + f.blocks * (form.block // 8 * form.group))
            f.set(f.scales, f.scales + f.blocks * form.row)
            f.set(f.zeros, f.zeros + f.blocks * (form.row // 2))
            f.set(f.c, f.c + form.row)
            f.set(f.columns, f.columns - form.row)
    return f


def _write_tile(unit: Unit, form: _Form, height: int) -> Function:
    """The function of `height` rows of integers times one panel, all of whose columns are written."""
    with unit.module.function(f"tile_{form}_{height}", dict.fromkeys(_TILE, i32)) as f:
        step, about = f.let(f.blocks * (4 * form.block)), f.let(f.blocks * _INFO)
        data = [f.data, *(f.let(f.data + i * step) for i in range(1, height))]
        infos = [f.infos, *(f.let(f.infos + i * about) for i in range(1, height))]
        mask = f.let(i16x8.load(f.mask))
        vectors = range(form.vectors)
        totals = [[f.local(f32x4) for _ in vectors] for _ in data]
        sums = [[[f.local(i32x4) for _ in vectors] for _ in range(2)] for _ in data]
        words, numbers = [f.local(i16x8) for _ in vectors], [f.local(i16x8) for _ in vectors]
        pair, zero, end = f.local(i16x8), f.local(i32x4), f.local(i32)
        with f.loop(f.blocks, f.blocks, 0, step=-1):
            for v in vectors:
                f.set(zero, i32x4.load16x4_s(f.zeros, offset=8 * v))
                for info, halves in zip(infos, sums):
                    for half, line in enumerate(halves):
                        f.set(line[v], zero * i32x4.load32_splat(info, offset=4 + 4 * half))
            f.set(end, data[0] + 4 * form.block)
            with f.while_(data[0] != end):
                for j in range(4):
                    _unpack(f, form, j, words, numbers, mask)
                    for x, halves in zip(data, sums):
                        for half, line in enumerate(halves):
                            f.set(pair, i32x4.load32_splat(x, offset=4 * j + 16 * half).as_(i16x8))
                            for y, z in zip(numbers, line):
                                f.set(z, z + i32x4.dot_i16x8_s(pair, y))
                for x in data:
                    f.set(x, x + _GROUP)
                f.set(f.b, f.b + form.group)
            for info, (high, low), line in zip(infos, sums, totals):
                for v, z in enumerate(line):
                    whole = f32x4.convert_i32x4_s(high[v]) * f32x4.const(1 << 15) + f32x4.convert_i32x4_s(low[v])
                    f.set(z, z + whole * f32x4.load32_splat(info) * f32x4.load(f.scales, offset=16 * v))
                f.set(info, info + _INFO)
            f.set(f.scales, f.scales + form.row)
            f.set(f.zeros, f.zeros + form.row // 2)
        tile.store(f, totals)
    return f


def _unpack(
    f: Function, form: _Form, j: int, words: Sequence[Variable], numbers: Sequence[Variable], mask: Variable
) -> None:
    """The numbers of k = 2j and 2j + 1 in pairs, of 8 at `f.b`; `words` are kept between calls."""
    for v, (word, number) in enumerate(zip(words, numbers)):
        if form.bits == 8:
            f.set(number, i16x8.load8x8_s(f.b, offset=8 * (j * form.vectors + v)))
            continue
        if j == 0:
            f.set(word, i16x8.load(f.b, offset=16 * v))
        shifted = i16x8.shr_u(word, 4 * j) if j else word
        f.set(number, shifted if j == 3 else shifted & mask)


def _widen(unit: Unit, form: _Form, together: int) -> Function:
    """A function that writes a panel as floats, where rows of so many lie side by side."""
    name = f"widen_{form}_{together}"
    return unit.once("nbits", name, lambda: _write_widen(unit, name, form, together))  # type: ignore[no-any-return]


def _write_widen(unit: Unit, name: str, form: _Form, together: int) -> Function:
    row = form.row * together
    with unit.module.function(name, dict.fromkeys(("b", "scales", "zeros", "target", "blocks"), i32)) as f:
        vectors = range(form.vectors)
        scales, zeros = [f.local(f32x4) for _ in vectors], [f.local(i32x4) for _ in vectors]
        words, numbers = [f.local(i16x8) for _ in vectors], [f.local(i16x8) for _ in vectors]
        mask, left = f.let(i16x8.const(15)), f.local(i32)
        with f.loop(f.blocks, f.blocks, 0, step=-1):
            for v in vectors:
                f.set(scales[v], f32x4.load(f.scales, offset=16 * v))
                f.set(zeros[v], i32x4.load16x4_s(f.zeros, offset=8 * v))
            with f.loop(left, 0, form.block, step=8):
                for j in range(4):
                    _unpack(f, form, j, words, numbers, mask)
                    for v, number in enumerate(numbers):
                        pair = number.as_(i32x4)
                        for odd, whole in enumerate(((pair << 16) >> 16, pair >> 16)):
                            value = f32x4.convert_i32x4_s(whole - zeros[v]) * scales[v]
                            f.store(f.target, value, offset=row * (2 * j + odd) + 16 * v)
                f.set(f.target, f.target + 8 * row)
                f.set(f.b, f.b + form.group)
            f.set(f.scales, f.scales + form.row)
            f.set(f.zeros, f.zeros + form.row // 2)
    return f
