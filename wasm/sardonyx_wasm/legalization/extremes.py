"""The lowest and the highest element on their way to a routine, which finds those of blocks in one pass."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Equation

from .. import primitives as own
from .legalizer import Legalizer

_MOVES = frozenset({"reshape", "transpose"})


def takes(equation: Equation, target: str) -> bool:
    """Whether the routine finds them: of float32, unless there are no elements for certain."""
    (x,) = equation.inputs
    return x.dtype is dtypes.float32 and all(size for size in x.shape if isinstance(size, int))


def extremes(legalizer: Legalizer, equation: Equation) -> bool:
    """Those of blocks, in whatever order elements lie, then those of all blocks."""
    lie = _unmoved(equation.inputs[0])
    x = p.reshape(lie, [lie.size])
    blocks = (x.shape[0] + own.BLOCK_EXTREMES.block - 1) // own.BLOCK_EXTREMES.block
    types = [(output.dtype, (blocks,)) for output in equation.outputs]
    found = legalizer.trace.append(own.BLOCK_EXTREMES, (x,), {}, types)
    for output, some, function in zip(equation.outputs, found, ("min", "max"), strict=True):
        one = p.reduce(some, function) if not isinstance(blocks, int) or blocks > 1 else some
        legalizer.define_reshaped(output, one)
    return True


def _unmoved(x: Array) -> Array:
    """What an Array was before its elements were moved."""
    while x.equation is not None and x.equation.primitive.name in _MOVES:
        (x,) = x.equation.inputs
    return x
