"""Attention on its way to the routine: which ones it can do."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.channels_last import are_floats
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import hint
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.routines.designs import SHARED, THREAD

LARGEST = 256
"""The widest heads."""
ROWS = 4
"""Queries that a thread takes at most."""


def takes(equation: Equation) -> bool:
    """Whether the routine can do it: known numbers of heads, and known widths."""
    q, k, v = equation.inputs[:3]
    widths = (q.shape[1], k.shape[1], q.shape[3], v.shape[3])
    are_known = are_floats(q, k, v) and all(isinstance(size, int) and size > 0 for size in widths)
    return are_known and all(int(size) <= LARGEST for size in widths[2:])


def attend(rewriter: Rewriter, equation: Equation) -> bool:
    """attention -> attend"""
    q, k, v, *others = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    share = int(q.shape[1]) // int(k.shape[1])
    shape = (*q.shape[:3], k.shape[2])
    added = [p.broadcast_to(_readable(x), shape) for x in others]
    rows = min(ROWS, 1 << (share * hint(q.shape[2]) - 1).bit_length())
    attributes = {**params, "share": share, "depth": int(q.shape[3]), "width": int(v.shape[3])}
    attributes |= {"software": (THREAD, rows), "hardware": (SHARED, rows)}
    result = rewriter.record(own.ATTEND, [q, k, v, *added], attributes, dtypes.float32, output.shape)
    rewriter.define_reshaped(output, p.cast(result, output.dtype))
    return True


def _readable(x: Array) -> Array:
    return x if x.dtype is dtypes.bool_ or are_floats(x) else p.cast(x, dtypes.float32)
