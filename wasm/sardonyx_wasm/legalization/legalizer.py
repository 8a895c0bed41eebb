"""What the rules of legalization share."""

from __future__ import annotations

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.compiler.legalization.channels_last import ChannelsLast
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.trace import Trace

from ..routines.tile import panel_width

EXACT = 1 << 24
"""Integers up to here are numbers of float32."""


class Legalizer(ChannelsLast):
    """Rewrites a trace for a host's compiler, "wasmtime" or "v8"."""

    def __init__(self, trace: Trace, target: str) -> None:
        super().__init__(trace)
        self.target = target
        self.largest: dict[Array, int] = {}
        """How large the integers can be that an Array has from float32, which holds them."""

    def width(self, dtype: DType) -> int:
        """The columns of its tiles."""
        return panel_width(self.target, dtype.name)

    def cast(self, equation: Equation) -> bool:
        """cast of integers that were floats to floats -> these floats"""
        (output,), (x,) = equation.outputs, equation.inputs
        while x.equation is not None and x.equation.primitive.name == "reshape":
            (x,) = x.equation.inputs
        if output.dtype is not dtypes.float32 or x.equation is None or self.largest.get(x, EXACT + 1) > EXACT:
            return self.follow(equation)
        self.define_reshaped(output, x.equation.inputs[0])
        return True
