"""Running sums and products on their way to the routine."""

from __future__ import annotations

from sardonyx.primitives.array import Equation

from .. import primitives as own
from .legalizer import Legalizer


def cumulative(legalizer: Legalizer, equation: Equation) -> bool:
    """The routine instead of the program."""
    (output,) = equation.outputs
    legalizer.define(output, own.ACCUMULATE, equation.inputs, equation.params)
    return True
