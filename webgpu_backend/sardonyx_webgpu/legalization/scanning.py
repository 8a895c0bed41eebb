"""Running sums along few long lines, and what is found by counting: in blocks, a thread for each."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.code.folds import identity
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import Size, hint, product
from sardonyx_webgpu import primitives as own

BLOCK = 64
LONG = 256
"""Elements from which a line is cut into blocks."""
MANY = 4096
"""Lines from which a thread for each is enough."""
_COMBINE = {"sum": "add", "prod": "mul"}


def cumulative(rewriter: Rewriter, equation: Equation) -> bool:
    """cumulative -> the same within blocks, and of the blocks' totals"""
    (x,) = equation.inputs
    (output,), params = equation.outputs, equation.params
    if not _is_long(x.shape, params["axis"]):
        return False
    if params["function"] == "prod" and x.dtype.is_float:
        return False  # a block's product may overflow where that of the line is zero
    wide = p.cast(x, dtypes.float32) if x.dtype.is_float else x
    rewriter.define_reshaped(output, p.cast(_in_blocks(wide, **params), x.dtype))
    return True


def _is_long(shape: tuple[Size, ...], axis: int) -> bool:
    lines = hint(product([size for k, size in enumerate(shape) if k != axis]))
    return hint(shape[axis]) >= LONG and lines < MANY


def _running(x: Array, function: str, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    if _is_long(x.shape, axis):
        return _in_blocks(x, function, axis, exclusive, reverse)
    return p.cumulative(x, function, axis, exclusive, reverse)


def _in_blocks(x: Array, function: str, axis: int, exclusive: bool, reverse: bool) -> Array:
    n, blank = x.shape[axis], identity(function, x.dtype)
    blocks = -(-n // BLOCK)
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]
    full = p.reshape(_padded(x, axis, 0, blocks * BLOCK - n, blank), (*outer, blocks, BLOCK, *inner))
    inside = p.cumulative(full, function, axis + 1, False, reverse)
    totals = p.squeeze(p.slice_axis(inside, axis + 1, 0 if reverse else BLOCK - 1, 1), [axis + 1])
    before = p.unsqueeze(_running(totals, function, axis, True, reverse), [axis + 1])
    result = p.reshape(p.elementwise(_COMBINE[function], inside, before), (*outer, blocks * BLOCK, *inner))
    if exclusive:
        result = _padded(p.slice_axis(result, axis, 0, n), axis, 1 - reverse, int(reverse), blank)
    return p.slice_axis(result, axis, int(exclusive and reverse), n)


def _padded(x: Array, axis: int, low: Size, high: Size, value: float) -> Array:
    """An Array with numbers before and behind it along an axis."""
    none: list[Size] = [0] * x.rank
    return p.pad(x, [*none[:axis], low, *none[axis + 1 :]], [*none[:axis], high, *none[axis + 1 :]], value)


def nonzero(rewriter: Rewriter, equation: Equation) -> bool:
    """nonzero -> counts of blocks, their running sum, and a thread for each block"""
    (x,) = equation.inputs
    n = product(x.shape)
    blocks = -(-n // BLOCK)
    flags = p.cast(p.elementwise("ne", p.reshape(x, (n,)), 0), dtypes.int32)
    counts = p.sum_(p.reshape(_padded(flags, 0, 0, blocks * BLOCK - n, 0), (blocks, BLOCK)), [1])
    ends = counts if isinstance(blocks, int) and blocks < 2 else _running(counts, "sum", 0)
    types = [(array.dtype, array.shape) for array in equation.outputs]
    finding = rewriter.trace.append(own.FIND_NONZERO, (x, ends), {}, types)[0].equation
    assert finding is not None
    for array in equation.outputs:
        array.equation = finding
    finding.outputs = equation.outputs
    return True
