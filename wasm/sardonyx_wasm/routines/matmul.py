"""Matrix products of float32 and float64: blocks of rows times panels of columns, by `tile.product`.

A unit of work is a row of the result, those of all matrices one after another; but a panel of columns where a packed
product has few rows, so that each thread reads a part of B. Sums run over K in order, whatever the units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sardonyx.code.kernel import Routine

from ..abi import SCRATCH
from ..assembler import Expr, Function, Operand, Variable, i32, op, v128
from ..code import Code, Unit
from . import frame, tile

FEW = 16
"""With at most as many rows, known beforehand, a unit of `matmul_packed` is a panel."""

# Places in the scratch memory: addresses of rows, the offset of the only segment, a tile at the edge, a panel of B.
_OFFSETS, _EDGE, _PANEL = 512, 1024, 2048

_COPIED = 24
"""From so many rows on, a panel of a matrix that is not packed is copied before it is used."""


class _Matmul:
    """The function of a routine being written, with what its products share."""

    def __init__(self, unit: Unit, routine: Routine, depth: int | str, columns: int | str) -> None:
        self.f = frame.function(unit, routine)
        self.lanes = tile.LANES[routine.reads[0]]
        self.height, self.width = tile.SHAPES[unit.target].height, tile.SHAPES[unit.target].width
        self._product = tile.product(unit, routine.reads[0])
        self._sizes = depth, columns
        self.a, self.b, self.c = frame.buffers(self.f, routine)

    def __enter__(self) -> _Matmul:
        f = self.f.__enter__()
        depth, columns = (frame.size(f, size) for size in self._sizes)
        self.depth = f.let(depth * self.lanes.element)  # bytes of a row of a, and below of c and of a panel of b
        self.c_row = f.let(columns * self.lanes.element)
        self.panel = f.let(depth * self.width)
        self.copied = f.scratch + _PANEL
        f.store(f.scratch, i32.const(0), offset=_OFFSETS)
        return self

    def __exit__(self, *error: Any) -> None:
        self.f.__exit__(*error)

    def add(self, variable: Variable, value: Operand) -> None:
        self.f.set(variable, variable + value)

    def rows(self, first: Expr, step: Expr, count: Operand) -> None:
        """The rows of A that `product` takes next."""
        tile.table(self.f, self.f.scratch, count, first, step)

    @contextmanager
    def blocks(self, begin: Expr, end: Expr) -> Iterator[tuple[Variable, Variable]]:
        """For each block of rows: its first and their number, at most `tile.BLOCK` and nearly equal."""
        f, row, count = self.f, self.f.local(i32), self.f.local(i32)
        total = f.let(end - begin)
        with f.if_(total):
            pieces = i32.div_u(total + (tile.BLOCK - 1), tile.BLOCK)
            tiles = i32.div_u(i32.div_u(total + (pieces - 1), pieces) + (self.height - 1), self.height)
            size = f.let(tiles * self.height)
            with f.loop(row, begin, end, step=size):
                f.set(count, frame.least(f, size, end - row))
                yield row, count

    def product(
        self,
        count: Operand,
        b: Expr,
        c: Expr,
        c_row: Expr,
        columns: Expr,
        b_row: Operand | None = None,
        panel: Operand | None = None,
    ) -> None:
        """`count` rows of the table times panels of b, as many as `columns` bytes of results need."""
        f = self.f
        operands = (f.scratch, count, f.scratch + _OFFSETS, 1, self.depth, b, self.width if b_row is None else b_row)
        panel = self.panel if panel is None else panel
        f.call(self._product, *operands, panel, c, c_row, columns, f.scratch + _EDGE)

    def copy(self, b: Expr) -> None:
        """Copy a panel of b [K, N] to `copied`."""
        f, source, target = self.f, self.f.let(b), self.f.let(self.copied)
        with f.loop(target, self.copied, self.copied + self.panel, step=self.width, unsigned=True):
            for offset in range(0, self.width, 16):
                f.store(target, v128.load(source, offset=offset), offset=offset)
            self.add(source, self.c_row)

    def fill_up(self, b: Expr) -> None:
        """Copy b [K, N], narrower than a panel, to `copied` and fill it up with zeros."""
        f = self.f
        f.do(op("memory.fill", self.copied, 0, self.panel))
        tile.copy(f, self.copied, self.width, b, self.c_row, i32.div_u(self.panel, self.width), self.c_row)


def matmul_packed(unit: Unit, routine: Routine) -> Code:
    """a [..., K] x b [ceil(N / nr), K, nr], the last panel filled up with zeros -> [..., N]."""
    *outer, columns = routine.outputs[0]
    shape, element = tile.SHAPES[unit.target], tile.LANES[routine.reads[0]].element
    if all(isinstance(size, int) for size in (*outer, columns)) and math.prod(outer) <= FEW:
        return Code(frame.general(unit, routine, _few), -(-columns * element // shape.width), scratch=_PANEL)
    return Code(frame.general(unit, routine, _packed), frame.units(outer), shape.height, _PANEL)


def _few(unit: Unit, routine: Routine) -> Function:
    """All rows times some panels."""
    *outer, depth = routine.inputs[0]
    with _Matmul(unit, routine, depth, routine.outputs[0][-1]) as m:
        rows = frame.product(m.f, outer)
        m.rows(m.a, m.depth, rows)
        before, width = m.f.let(m.f.begin * m.width), (m.f.end - m.f.begin) * m.width
        m.product(rows, m.b + m.f.begin * m.panel, m.c + before, m.c_row, frame.least(m.f, width, m.c_row - before))
    return m.f


def _packed(unit: Unit, routine: Routine) -> Function:
    """Some rows times all panels."""
    matmul = _Matmul(unit, routine, routine.inputs[0][-1], routine.outputs[0][-1])
    with matmul as m, m.blocks(m.f.begin, m.f.end) as (row, count):
        m.rows(m.a + row * m.depth, m.depth, count)
        m.product(count, m.b, m.c + row * m.c_row, m.c_row, m.c_row)
    return matmul.f


def matmul(unit: Unit, routine: Routine) -> Code:
    """a [..., M, K] x b [..., K, N] -> [..., M, N]; b is one matrix, or has all of a's outer axes."""
    units = frame.units(routine.inputs[0][:-1])
    return Code(frame.general(unit, routine, _rows), units, tile.SHAPES[unit.target].height, SCRATCH)


def _rows(unit: Unit, routine: Routine) -> Function:
    """Some rows of all matrices, one after another."""
    *outer, depth = routine.inputs[0]
    with _Matmul(unit, routine, depth, routine.outputs[0][-1]) as m:
        f = m.f
        row, stop, b = f.local(i32), f.local(i32), f.local(i32)
        height = f.let(frame.product(f, outer[-1:] if len(routine.inputs[1]) > 2 else outer))
        matrix = f.let(frame.size(f, depth) * m.c_row)
        f.set(row, f.begin)
        with f.while_(i32.lt_u(row, f.end)):
            number = f.let(i32.div_u(row, height))
            f.set(stop, frame.least(f, (number + 1) * height, f.end))
            f.set(b, m.b + number * matrix)
            with m.blocks(row, stop) as (first, count):
                m.rows(m.a + first * m.depth, m.depth, count)
                _columns(m, b, count, f.let(m.c + first * m.c_row))
            f.set(row, stop)
    return f


def _columns(m: _Matmul, b: Variable, count: Variable, c: Expr) -> None:
    """Rows of A times b [K, N]. The last panel overlaps the one before: nothing past the end of b is read."""
    f = m.f
    c = f.let(c)
    fits, last = m.panel <= SCRATCH - _PANEL, f.let(m.c_row - m.width)
    column, at = f.local(i32), f.local(i32)
    with f.if_(last < 0):
        with f.if_(fits):
            m.fill_up(b)
            m.product(count, m.copied, c, m.c_row, m.c_row)
        with f.else_():
            _dots(m, b, count, c)
    with f.else_():
        with f.if_(fits & (count >= _COPIED)), f.loop(column, 0, m.c_row, step=m.width):
            f.set(at, frame.least(f, column, last))
            m.copy(b + at)
            m.product(count, m.copied, c + at, m.c_row, i32.const(m.width))
        with f.else_():
            f.set(at, m.c_row - i32.rem_u(m.c_row, m.width))
            m.product(count, b, c, m.c_row, at, b_row=m.c_row, panel=m.width)
            with f.if_(at < m.c_row):
                m.product(count, b + last, c + last, m.c_row, i32.const(m.width), b_row=m.c_row)


def _dots(m: _Matmul, b: Variable, count: Variable, c: Variable) -> None:
    """The few columns of a B so long that a panel of it does not fit the scratch memory, one by one."""
    f, element = m.f, m.lanes.element
    row, column, at, x, y = (f.local(i32) for _ in range(5))
    total = f.local(m.lanes.scalar)
    with f.loop(row, 0, count), f.loop(column, 0, m.c_row, step=element):
        f.set(total, 0)
        f.set(x, i32.load(f.scratch + row * 4))
        f.set(y, b + column)
        with f.loop(at, 0, m.depth, step=element):
            f.set(total, total + m.lanes.scalar.load(x + at) * m.lanes.scalar.load(y))
            f.set(y, y + m.c_row)
        f.store(c + row * m.c_row + column, total)
