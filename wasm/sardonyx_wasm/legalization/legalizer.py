"""What the rules of legalization share."""

from __future__ import annotations

from sardonyx import primitives as p
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
        image = self.last(x) if self.is_image(x) else x
        floats = self._floats(image) if output.dtype is dtypes.float32 else None
        if floats is None:
            return self.follow(equation)
        if image is x:
            self.define_reshaped(output, floats)
        else:
            self.define_last(output, p.reshape(floats, image.shape))
        return True

    def _floats(self, x: Array) -> Array | None:
        """The floats that integers were, if they have not moved and are no larger than floats can be."""
        while x.equation is not None and x.equation.primitive.name == "reshape":
            (x,) = x.equation.inputs
        if x.equation is None or self.largest.get(x, EXACT + 1) > EXACT:
            return None
        return x.equation.inputs[0]
