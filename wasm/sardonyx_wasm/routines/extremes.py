"""The lowest and the highest of floats, block by block: a unit is a block.

The quick instructions for minima and maxima pass over NaN, so lanes where it was seen are kept, with all bits set: that
is NaN, which the slow instructions hand on in the end.
"""

from __future__ import annotations

from functools import reduce
from math import inf

from sardonyx.code.kernel import Routine

from .. import vectors
from ..assembler import Expr, Function, Variable, f32x4, i32
from ..code import Code, Unit
from ..primitives import BLOCK_EXTREMES
from ..scalars.values import kind
from . import frame

_FLOAT = kind("float32")
_VECTORS = 4
"""Vectors at once, each with a result of its own that the next turn waits for."""


def block_extremes(unit: Unit, routine: Routine) -> Code:
    """x [n] of float32 -> the lowest and the highest of each block, both [blocks]."""
    return Code(frame.general(unit, routine, _write), frame.units(routine.outputs[0]))


def _write(unit: Unit, routine: Routine) -> Function:
    with frame.function(unit, routine) as f:
        x, low, high = frame.buffers(f, routine)
        scope = vectors.FunctionScope(unit, f)
        size = 4 * BLOCK_EXTREMES.block
        last = f.let(x + frame.size(f, routine.inputs[0][0]) * 4)
        found = [tuple(f.local(f32x4) for _ in ("low", "high", "nan")) for _ in range(_VECTORS)]
        block, first, at, end = (f.local(i32) for _ in range(4))
        with f.loop(block, f.begin, f.end):
            f.set(first, x + block * size)
            f.set(at, first)
            f.set(end, frame.least(f, at + size, last))
            for vector in found:
                for variable, number in zip(vector, (inf, -inf, 0.0), strict=True):
                    f.set(variable, f32x4.const(number))
            with f.while_(i32.le_u(at + 16 * _VECTORS, end)):
                for k, vector in enumerate(found):
                    _take(f, vector, f32x4.load(at, offset=16 * k))
                f.set(at, at + 16 * _VECTORS)
            with f.while_(i32.le_u(at + 16, end)):
                _take(f, found[0], f32x4.load(at))
                f.set(at, at + 16)
            with f.if_(i32.lt_u(at, end) & i32.le_u(first + 16, end)):  # the last vector overlaps the one before
                _take(f, found[0], f32x4.load(end - 16))
                f.set(at, end)
            with f.while_(i32.lt_u(at, end)):
                _take(f, found[0], f32x4.load32_splat(at))
                f.set(at, at + 4)
            for function, target, kept in (("min", low, 0), ("max", high, 1)):
                lanes = [vector[kept] | vector[2] for vector in found]
                total = reduce(getattr(f32x4, function), lanes)
                f.store(target + block * 4, vectors.horizontal(scope, function, _FLOAT, (total,)))
    return f


def _take(f: Function, vector: tuple[Variable, ...], x: Expr) -> None:
    """Take in one more vector."""
    low, high, nan = vector
    x = f.let(x)
    f.set(low, f32x4.pmin(low, x))
    f.set(high, f32x4.pmax(high, x))
    f.set(nan, nan | (x != x))
