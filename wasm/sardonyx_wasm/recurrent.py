"""Recurrent layers on their way to the routine: which ones it can do, and their weights in panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Equation
from sardonyx.primitives.recurrent import Layer

from .routines.recurrent import rows_at_once

if TYPE_CHECKING:
    from .legalize import _Legalizer


def pack(legalizer: _Legalizer, equation: Equation) -> bool:
    """Weights [directions, gates * hidden, hidden] -> [directions, panels, hidden, nr].

    Those of a GRU's hidden gate have panels of their own if they multiply the state that was reset.
    """
    layer = Layer(**equation.params)
    inputs, weights, *others = equation.inputs
    columns = p.transpose(weights, [0, 2, 1])
    hidden = int(columns.shape[1])
    if layer.cell == "gru" and not layer.linear_before_reset:
        gated, linear = p.slice_axis(columns, 2, 0, 2 * hidden), p.slice_axis(columns, 2, 2 * hidden, hidden)
        panels = p.concat([legalizer.packed(gated), legalizer.packed(linear)], 1)
    else:
        panels = legalizer.packed(columns)
    equation.inputs = (inputs, panels, *others)
    return False


def takes(equation: Equation) -> bool:
    """Whether the routine can do it: known widths, float32, the same activations in all directions."""
    layer = Layer(**equation.params)
    inputs, weights, *_ = equation.inputs
    if inputs.dtype is not dtypes.float32 or not layer.alike:
        return False
    if not all(isinstance(size, int) and size for size in weights.shape):
        return False
    return rows_at_once(layer.cell, int(weights.shape[2])) > 0
