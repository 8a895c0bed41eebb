"""One row times a matrix in BLAS's panels.

Each element of the matrix is used once, so memory is what takes time: it is read in the order in which it lies, some
rows of a panel together, whose products are added to sums in the scratch memory. A unit is a panel.
"""

from __future__ import annotations

from sardonyx.code.kernel import Routine

from ..assembler import Expr, Variable, i32, op
from ..code import Code, Unit
from . import frame, tile

_TOGETHER = 2
"""Rows of a panel that are read together: Cranelift loads all of them before it adds, and has no registers for more."""


def matmul_row(unit: Unit, routine: Routine) -> Code:
    """a [..., K], one row, x b [panels, K, nr] -> [..., N]; a row of a panel is a multiple of 16 bytes."""
    panels, depth, nr = routine.inputs[1]
    lanes = tile.LANES[routine.reads[0]]
    width, columns = nr * lanes.element, routine.outputs[0][-1] * lanes.element
    is_fused = "relaxed-simd" in unit.features
    with frame.function(unit, routine) as f:
        a, b, c = frame.buffers(f, routine)
        x, end, column = (f.local(i32) for _ in range(3))
        factors = [f.local(lanes.type) for _ in range(_TOGETHER)]

        def add(x: Expr, b: Variable, count: int) -> None:
            for k, factor in enumerate(factors[:count]):
                f.set(factor, lanes.splat(x, offset=k * lanes.element))
            total = f.local(lanes.type)
            for offset in range(0, width, 16):
                f.set(total, lanes.type.load(f.scratch, offset=offset))
                for k, factor in enumerate(factors[:count]):
                    y = lanes.type.load(b, offset=k * width + offset)
                    f.set(total, lanes.type.relaxed_madd(y, factor, total) if is_fused else total + factor * y)
                f.store(f.scratch, total, offset=offset)
            f.set(b, b + count * width)

        f.set(b, b + f.begin * (depth * width))
        f.set(end, a + depth // _TOGETHER * _TOGETHER * lanes.element)
        with f.loop(column, f.begin * width, f.end * width, step=width):
            f.do(op("memory.fill", f.scratch, 0, width))
            f.set(x, a)
            with f.while_(x != end):
                add(x, b, _TOGETHER)
                f.set(x, x + _TOGETHER * lanes.element)
            if depth % _TOGETHER:
                add(x, b, depth % _TOGETHER)
            f.do(op("memory.copy", c + column, f.scratch, frame.least(f, i32.const(width), columns - column)))
    return Code(f, panels, scratch=width)
