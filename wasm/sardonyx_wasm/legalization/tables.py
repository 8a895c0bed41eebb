"""Legalization of what is computed with quantized tensors one by one: functions of 8 bits become tables.

Whatever depends on one tensor of 8 bits and on numbers alone, such as an activation between dequantization and
quantization, has 256 results at most. They are computed here, and the routine `lookup` copies them. Where that tensor
comes from sums of products that were scaled, rounded and bounded, `requantize` does that as well. It is known before a
trace is legalized which results come from tables; afterwards `narrow` has them take the type and the border that
products want of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from sardonyx.code import scalar
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.compiler.legalization.functions import TARGETS, Functions, Values
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Size

from .. import primitives as own
from .legalizer import Legalizer
from .requantization import Sums, sums

FEWEST = 6
"""Equations from which on a table is faster than what they compute."""


@record(frozen=True)
class _Wanted:
    """What is to come from a table of these numbers: for all bytes of x, or for sums from low to high."""

    x: Array
    sums: Sums | None
    values: Values


class _Result(NamedTuple):
    """A result of `requantize`, or else `lookup`: operands but the table, its numbers, the shape, its border."""

    sums: bool
    operands: tuple[Array, ...]
    values: Values
    shape: tuple[Size, ...]
    border: tuple[int, int] = (0, 0)


class Tables:
    """Which results come from tables, of the equations of these ONNX nodes."""

    def __init__(self, trace: Trace, origins: Collection[int]) -> None:
        self._origins = origins
        self._functions = Functions(trace, origins)
        self._wanted: dict[Array, _Wanted] = {}
        self._results: dict[Array, _Result] = {}
        for root, arrays in self._functions.asked.items():
            self._choose(root, arrays)

    @property
    def in_use(self) -> bool:
        """Whether there are any, once a trace is legalized."""
        return bool(self._results)

    # ---- before

    def _choose(self, root: Array, asked: Sequence[Array]) -> None:
        """Have results come from tables, where that pays."""
        equation = root.equation
        scaled = sums(root) if equation is not None and equation.origin in self._origins else None
        if scaled is not None:
            together = asked if len(asked) == 1 else [root]
            domain = np.arange(scaled.low, scaled.high + 1)
            for array, values in zip(together, self._functions.values(root, domain, together), strict=True):
                self._wanted[array] = _Wanted(scaled.x, scaled, values)
        others = [
            y for y in asked if y not in self._wanted and y is not root and self._functions.cost(y, root) >= FEWEST
        ]
        for array, values in zip(
            others, self._functions.values(root, np.arange(256, dtype=np.uint8), others), strict=True
        ):
            self._wanted[array] = _Wanted(root, None, values)

    # ---- meanwhile

    def write(self, legalizer: Legalizer, equation: Equation) -> bool:
        """An equation that ends a function of 8 bits -> requantize or lookup"""
        wanted = self._wanted.get(equation.outputs[0]) if len(equation.outputs) == 1 else None
        if wanted is None:
            return False
        (output,), x = equation.outputs, wanted.x
        image = legalizer.is_image(x)
        if wanted.sums and wanted.sums.channel not in (None, 1 if image else x.rank - 1):
            return False
        source = legalizer.last(x) if image else x
        operands = wanted.sums.operands(legalizer, source) if wanted.sums else (source,)
        result = _Result(wanted.sums is not None, operands, wanted.values, source.shape)
        array = self._record(legalizer, result, output.dtype, None if image else output)
        if image:
            legalizer.define_last(output, array)
        return True

    def _record(self, legalizer: Legalizer, result: _Result, dtype: DType, output: Array | None) -> Array:
        """A new Array that is a result, or an old one that is one from now on."""
        operands, values = result.operands, result.values
        limits = operands[-1].value
        if result.sums and limits is not None and (values == values[0] + np.arange(len(values))).all():
            moved = np.array([*limits[:2], values[0]], np.float32)
            operands = (*operands[:-1], constant(moved))
        else:
            table = np.zeros(256, values.dtype)
            table[: len(values)] = values
            operands = (*operands, constant(table, dtype))
        array = legalizer.record(
            own.REQUANTIZE if result.sums else own.LOOKUP, operands, {"border": result.border}, dtype, result.shape
        )
        if output is not None:
            assert array.equation is not None
            output.equation, array.equation.outputs = array.equation, (output,)
            array = output
        self._results[array] = result
        return array

    # ---- afterwards

    def narrow(self, legalizer: Legalizer, equation: Equation) -> bool:
        """cast or pad of requantize or lookup -> requantize or lookup"""
        result = self._results.get(equation.inputs[0]) if len(equation.inputs) == 1 else None
        if result is None:
            return False
        (output,), params = equation.outputs, equation.params
        if equation.primitive.name == "cast" and output.dtype in TARGETS:
            result = result._replace(values=scalar.cast(result.values, output.dtype.storage))
        elif equation.primitive.name == "pad" and _is_border(params) and result.border == (0, 0):
            result = result._replace(shape=output.shape, border=params["low"][1:3])
        else:
            return False
        self._record(legalizer, result, output.dtype, output)
        return True


def _is_border(params: dict[str, Any]) -> bool:
    """Whether a padding puts zeros around images with their channels last."""
    low, high = params["low"], params["high"]
    if len(low) != 4 or params["value"] != 0:
        return False
    outside = (low[0], high[0], low[3], high[3])
    if not all(isinstance(size, int) and size == 0 for size in outside):
        return False
    return all(isinstance(size, int) and size >= 0 for size in low[1:3])
