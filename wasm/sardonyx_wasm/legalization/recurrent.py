"""Recurrent layers on their way to the routine: which ones it can do, and their weights in panels."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.code.layer import Layer
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.ranges import integers, least
from sardonyx.primitives.array import Equation

from ..routines.recurrent import rows_at_once
from .legalizer import Legalizer
from .products import in_pairs, in_panels
from .quads import in_quads


def pack(legalizer: Legalizer, equation: Equation) -> bool:
    """Weights [directions, gates * hidden, hidden] -> [directions, panels, hidden, nr].

    Those of a GRU's hidden gate have panels of their own if they multiply the state that was reset. Weights of 8 bits
    stay integers where the state is rounded to such: those of `matmul_quads`, or in the panels of `matmul_int8`.
    """
    layer = Layer(**equation.params)
    inputs, weights, *others = equation.inputs
    columns, width = p.transpose(weights, [0, 2, 1]), legalizer.width(dtypes.float32)
    hidden = int(columns.shape[1])
    if "scale" in layer.operands and (quads := in_quads(columns)):
        equation.inputs = (inputs, *quads, *others)
        return False
    if "scale" in layer.operands and (dtype := least(integers(weights))) is not None:
        panels = in_pairs(p.cast(columns, dtype))
    elif layer.cell == "gru" and not layer.linear_before_reset:
        gated, linear = p.slice_axis(columns, 2, 0, 2 * hidden), p.slice_axis(columns, 2, 2 * hidden, hidden)
        panels = p.concat([in_panels(gated, width), in_panels(linear, width)], 1)
    else:
        panels = in_panels(columns, width)
    equation.inputs = (inputs, panels, *others)
    return False


def takes(equation: Equation, target: str) -> bool:
    """Whether the routine can do it: known widths, float32, the same activations in all directions."""
    layer = Layer(**equation.params)
    inputs, weights, *_ = equation.inputs
    if inputs.dtype is not dtypes.float32 or not layer.alike:
        return False
    if not all(isinstance(size, int) and size for size in weights.shape):
        return False
    return rows_at_once(layer.cell, int(weights.shape[2])) > 0
