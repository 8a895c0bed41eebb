"""Scatter on its way to the routine: which indices place updates, and which merely count."""

from __future__ import annotations

from sardonyx.common import dtypes
from sardonyx.primitives.array import Equation
from sardonyx.primitives.indexing import counts_along

from .. import primitives as own
from .legalizer import Legalizer


def scatter(legalizer: Legalizer, equation: Equation) -> bool:
    """Indices that merely count say that updates stay where they are along an axis."""
    x, updates, *indices = equation.inputs
    (output,), params = equation.outputs, equation.params
    counted = {axis: counts_along(index) for axis, index in zip(params["axes"], indices, strict=True)}
    lines = {axis: line for axis, line in counted.items() if line is not None}
    named = {axis: index for axis, index in zip(params["axes"], indices, strict=True) if axis not in lines}
    integers = all(index.dtype in (dtypes.int32, dtypes.int64) for index in named.values())
    if not named or not integers or len({*lines.values()}) < len(lines):
        return False
    attributes = {"axes": tuple(named), "lines": tuple(lines.items()), "reduction": params["reduction"]}
    legalizer.define(output, own.SCATTER_UPDATES, [x, updates, *named.values()], attributes)
    return True
