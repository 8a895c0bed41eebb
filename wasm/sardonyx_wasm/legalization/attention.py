"""Attention on its way to the routine: which ones it can do, and one bias for all that is added to the scores."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.caches import cache_of
from sardonyx.compiler.legalization.channels_last import are_floats
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.dot_product_attention import NEVER
from sardonyx.sizes.symbolic import Size, hint, same

from .. import primitives as own
from ..abi import HOSTED
from ..routines.tile import panel_width
from .legalizer import Legalizer

LARGE = 1 << 20
"""Multiplications of the queries that share keys by these, from which on BLAS does them alone, a few at a time."""
QUERIES = 384
"""The most queries whose scores are made at a time."""


def takes(equation: Equation, target: str) -> bool:
    """Whether the routine can do it: known widths, a multiple of what it does at once. Natively small products of many
    rows are better left to one call of BLAS for all heads."""
    q, k, v = equation.inputs[:3]
    widths = (q.shape[1], k.shape[1], q.shape[3], v.shape[3])
    if not (are_floats(q, k, v) and q.dtype is dtypes.float32 and all(isinstance(size, int) for size in widths)):
        return False
    heads, groups, depth, width = map(int, widths)
    whole = depth % 4 == 0 and width % panel_width(target) == 0
    if not (whole and min(depth, width, groups) > 0 and max(depth, width) <= own.ATTEND.LARGEST):
        return False
    rows = heads // groups * hint(q.shape[2])
    return target == "v8" or rows < own.ATTEND.FEW or is_hosted(equation)


def is_hosted(equation: Equation) -> bool:
    """Whether natively the products of each matrix are for BLAS."""
    q, k = equation.inputs[:2]
    heads, groups, depth = int(q.shape[1]), int(k.shape[1]), int(q.shape[3])
    return heads // groups * hint(q.shape[2]) * hint(k.shape[2]) * depth >= LARGE


def attend(legalizer: Legalizer, equation: Equation) -> bool:
    """attention -> attend"""
    q, k, v, *others = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    operands = [q, p.cast(k, dtypes.float32), p.cast(v, dtypes.float32)]
    caches = [cache_of(x, 2) for x in operands[1:]]
    in_place = None not in caches
    if in_place:
        operands[1:] = [x for x in caches if x is not None]
    if others:
        added = p.cast(others[0], dtypes.float32) if params["biased"] else p.full((), 0.0, dtypes.float32)
        if params["masked"]:
            added = p.where(others[-1], added, NEVER)
        operands.append(_fitted(added, (*q.shape[:3], k.shape[2])))
    own_params = {"causal": params["causal"], "keys": k.shape[2] if in_place else None}
    if legalizer.target == "wasmtime" and is_hosted(equation):
        own_params[HOSTED] = QUERIES
    legalizer.define(output, own.ATTEND, operands, own_params)
    return True


def _fitted(bias: Array, shape: Sequence[Size]) -> Array:
    """A bias with all axes of the scores, the last one whole, others whole or 1."""
    own = (*[1] * (4 - bias.rank), *bias.shape)
    sizes = [size if same(size, whole) else 1 if size == 1 else size for size, whole in zip(own, shape, strict=True)]
    return p.broadcast_to(p.reshape(bias, sizes), (*sizes[:3], shape[3]))
