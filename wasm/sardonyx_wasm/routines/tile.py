"""Register tiles: a few rows of A times a panel of B, the inner loop of matrix products and convolutions.

Rows of A are found through a table of their addresses, so that rows of a matrix and windows of an image are alike: row
`i` is, segment by segment, the contiguous elements at `rows[i] + offsets[s]`. A panel of B holds, for each of the
`segments * depth` elements of a row, the next `panel_width` columns. The sum of an output element runs in the order of
A's elements whatever the tile, so results do not depend on how rows are grouped.

All sizes and strides are in bytes, except counts. Elements are float32 or float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.common.record import record

from ..assembler import Expr, Function, Label, Operand, ValueType, Variable, f32, f32x4, f64, f64x2, i32
from ..code import Unit


@record(frozen=True)
class Shape:
    """The register tile of a compiler: `height` rows, `vectors` of 16 bytes, `unroll` steps of depth in its loop.

    `flat` has heights with too few sums to hide the latency of additions, and how many panels then go at once, if the
    rows of a panel lie side by side: each in a block of its own where a compiler `loads_first`, all that a block loads.
    """

    height: int
    vectors: int
    unroll: int
    flat: tuple[tuple[int, int], ...]
    loads_first: bool

    @property
    def width(self) -> int:
        """Bytes of a row of a panel."""
        return 16 * self.vectors


# There are 16 registers: V8 keeps 12 sums in them, and four steps of depth take less time than twice two. Cranelift
# computes nothing before all loads of a block, and a multiply-add overwrites its first factor: fewer sums in wider
# tiles suit it, and no unrolling.
SHAPES = {"v8": Shape(6, 2, 4, ((1, 4), (2, 2)), False), "wasmtime": Shape(2, 4, 1, ((1, 2),), True)}

BLOCK = 60
"""Rows that are best multiplied at once: a block of A stays in the cache while panels of B stream by."""

EDGE = 512
"""Bytes of scratch memory that `product` needs."""

_TILE = ("rows", "offsets", "segments", "depth", "b", "b_row", "b_panel", "c", "c_row")
_PRODUCT = ("rows", "count", *_TILE[1:], "columns", "scratch")


def panel_width(target: str, dtype: str = "float32") -> int:
    """The columns of a panel of packed B, `nr`.

    >>> panel_width("v8"), panel_width("wasmtime")
    (8, 16)
    """
    return SHAPES[target].width // LANES[dtype].element


@record(frozen=True)
class Lanes:
    """How a dtype is computed: `element` is its bytes, `splat` loads one into all lanes."""

    type: ValueType
    scalar: ValueType
    splat: Callable[..., Expr]
    element: int


LANES = {
    "float32": Lanes(f32x4, f32, f32x4.load32_splat, 4),
    "float64": Lanes(f64x2, f64, f64x2.load64_splat, 8),
}


def tile(unit: Unit, height: int, dtype: str = "float32", panels: int = 1) -> Function:
    """The function that writes `height` rows and `panels` panels of a product.

    Its parameters, all i32: `rows`, the address of the `height` addresses of rows of A; `offsets`, the address of what
    is added to them for each of the `segments`; `depth`, the bytes of A in a segment; `b`, the panel, `b_row`, the
    bytes from one of its rows to the next, and `b_panel`, those from one panel to the next; `c` and `c_row`, where the
    first row of results goes and the bytes to the next. All columns of the panels are written. Of several panels
    the rows lie side by side, and `b_row` is not looked at.
    """
    name = f"tile_{dtype}_{height}x{panels}"
    return unit.once("tile", name, lambda: _tile(unit, name, height, dtype, panels))  # type: ignore[no-any-return]


def _tile(unit: Unit, name: str, height: int, dtype: str, panels: int) -> Function:
    lanes, shape = LANES[dtype], SHAPES[unit.target]
    fused = "relaxed-simd" in unit.features
    with unit.module.function(name, dict.fromkeys(_TILE, i32)) as f:
        a = [f.local(i32) for _ in range(height)]
        b = [f.b, *(f.let(f.b + p * f.b_panel) for p in range(1, panels))]
        columns = [(p, 16 * v) for p in b for v in range(shape.vectors)]
        sums = [[f.local(lanes.type) for _ in columns] for _ in a]
        row = [f.local(lanes.type) for _ in columns]
        one = f.local(lanes.type)
        end = f.local(i32)

        def add(total: Variable, factor: Expr, y: Expr) -> None:
            f.set(total, lanes.type.relaxed_madd(y, factor, total) if fused else total + factor * y)

        def step(offset: int) -> None:
            f.set(f.b, f.b + f.b_row)
            for x, (p, at) in zip(row, columns):
                f.set(x, lanes.type.load(p, offset=at))
            for x, totals in zip(a, sums):
                f.set(one, lanes.splat(x, offset=offset))
                for y, total in zip(row, totals):
                    add(total, one, y)

        def flat_step(offset: int, below: int) -> None:
            factors = [f.let(lanes.splat(x, offset=offset)) for x in a]
            for number, (p, at) in enumerate(columns):  # each is used at once: there are no registers for all
                if shape.loads_first and number and at == 0:
                    f.br_if(done, i32.eqz(f.depth))  # never, but it ends a block
                y = f.let(lanes.type.load(p, offset=below + at))
                for factor, totals in zip(factors, sums):
                    add(totals[number], factor, y)

        def steps(count: int) -> None:
            for x in a:
                f.set(x, x + count * lanes.element)
            for number in range(count):
                if panels == 1:
                    step(number * lanes.element)
                else:
                    flat_step(number * lanes.element, number * shape.width)
            if panels > 1:
                for p in b:
                    f.set(p, p + count * shape.width)

        if panels == 1:
            f.set(f.b, f.b - f.b_row)
        with f.block() as done, f.while_(f.segments != 0):
            for i, x in enumerate(a):
                f.set(x, i32.load(f.rows, offset=4 * i) + i32.load(f.offsets) - shape.unroll * lanes.element)
            f.set(end, a[0] + (f.depth & -shape.unroll * lanes.element))
            with f.while_(a[0] != end):
                steps(shape.unroll)
            if shape.unroll > 1:
                for x in a:
                    f.set(x, x + (shape.unroll - 1) * lanes.element)
                f.set(end, a[0] + (f.depth & (shape.unroll - 1) * lanes.element))
                with f.while_(a[0] != end):
                    steps(1)
            f.set(f.offsets, f.offsets + 4)
            f.set(f.segments, f.segments - 1)
        store(f, sums)
    return f


def store(f: Function, rows: Sequence[Sequence[Expr]]) -> None:
    """Store rows of vectors from the parameter `c` on, each `c_row` bytes behind the one before."""
    for number, row in enumerate(rows):
        if number:
            f.set(f.c, f.c + f.c_row)
        for v, vector in enumerate(row):
            f.store(f.c, vector, offset=16 * v)


def product(unit: Unit, dtype: str = "float32") -> Function:
    """The function that writes `count` rows and `columns` bytes of columns of a product, tile by tile.

    Its parameters, all i32: those of `tile`, `rows` having `count` addresses; `columns`, the bytes in a row of results
    that are written, for which `b` has enough panels, each of full width; `scratch`, the address of `EDGE` bytes. Tiles
    are of nearly equal height. At most `BLOCK` rows at a time are best. With few rows, B is read once.
    """
    name = f"product_{dtype}"
    return unit.once("tile", name, lambda: _product(unit, name, dtype))  # type: ignore[no-any-return]


def _product(unit: Unit, name: str, dtype: str) -> Function:
    shape = SHAPES[unit.target]
    tiles = [tile(unit, height, dtype) for height in range(1, shape.height + 1)]
    with unit.module.function(name, dict.fromkeys(_PRODUCT, i32)) as f, f.block() as done:
        f.br_if(done, i32.eqz(f.count))
        operands = (f.offsets, f.segments, f.depth)
        for few, panels in shape.flat:
            is_flat = (f.count == few) & (f.b_row == shape.width)
            with f.if_(is_flat), f.while_(f.columns >= panels * shape.width):
                flat = tile(unit, few, dtype, panels)
                f.call(flat, f.rows, *operands, f.b, f.b_row, f.b_panel, f.c, f.c_row)
                f.set(f.b, f.b + panels * f.b_panel)
                f.set(f.c, f.c + panels * shape.width)
                f.set(f.columns, f.columns - panels * shape.width)
        groups = f.let(i32.div_u(f.count + (shape.height - 1), shape.height))
        low = f.let(i32.div_u(f.count, groups))
        tall = f.let(i32.rem_u(f.count, groups))
        group, height, rows, c, target, stride = (f.local(i32) for _ in range(6))
        with f.while_(f.columns > 0):
            f.set(rows, f.rows)
            f.set(c, f.c)
            with f.loop(group, 0, groups):
                f.set(height, low + (group < tall))
                edge = f.columns < shape.width
                f.set(target, f.select(edge, f.scratch, c))
                f.set(stride, f.select(edge, shape.width, f.c_row))
                _call_one(f, height - 1, tiles, rows, *operands, f.b, f.b_row, f.b_panel, target, stride)
                with f.if_(edge):
                    copy(f, c, f.c_row, target, shape.width, height, f.columns)
                f.set(rows, rows + height * 4)
                f.set(c, c + height * f.c_row)
            f.set(f.b, f.b + f.b_panel)
            f.set(f.c, f.c + shape.width)
            f.set(f.columns, f.columns - shape.width)
    return f


def _call_one(f: Function, index: Expr, functions: Sequence[Function], *operands: Operand) -> None:
    """Call the function of this number."""

    def case(number: int, labels: list[Label]) -> None:
        if number < 0:
            f.br_table(index, labels, labels[-1])
            return
        with f.block() as label:
            case(number - 1, [label, *labels])
        f.call(functions[number], *operands)
        f.br(done)

    with f.block() as done:
        case(len(functions) - 1, [])


def copy(
    f: Function, target: Expr, target_row: Operand, source: Expr, source_row: Operand, rows: Operand, columns: Expr
) -> None:
    """Copy `rows` rows of `columns` bytes, a multiple of 4."""
    row, column, to, of = (f.local(i32) for _ in range(4))
    f.set(to, target)
    f.set(of, source)
    with f.loop(row, 0, rows):
        with f.loop(column, 0, columns, step=4):
            f.store(to + column, i32.load(of + column))
        f.set(to, to + target_row)
        f.set(of, of + source_row)


def table(f: Function, rows: Expr, count: Operand, first: Expr, step: Expr) -> None:
    """Write `count` addresses, from `first` on in steps of `step` bytes, to the memory at `rows`."""
    row, address = f.local(i32), f.local(i32)
    f.set(address, first)
    with f.loop(row, 0, count):
        f.store(rows + row * 4, address)
        f.set(address, address + step)
