"""How a tensor of 8 bits comes from sums of products: the end of QLinearConv, QLinearMatMul and the like."""

from __future__ import annotations

from math import lcm
from typing import TypeAlias

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import same_shape

from ..routines.requantize import STEP
from .legalizer import EXACT, Legalizer

Values: TypeAlias = np.ndarray


@record(frozen=True)
class Sums:
    """(x + bias) * scale, rounded, + zero, from low to high.

    Bias and scale are numbers, or vectors along the axis `channel`.
    """

    x: Array
    bias: Values
    scale: Values
    channel: int | None
    zero: int
    low: int
    high: int

    def operands(self, legalizer: Legalizer, source: Array) -> tuple[Array, ...]:
        """What `requantize` takes but a table, of x with its channels last."""
        count = max(self.bias.size, self.scale.size)
        period = lcm(count, STEP)
        bias, scale = (np.resize(np.broadcast_to(part, (count,)), period) for part in (self.bias, self.scale))
        largest = legalizer.largest.get(source, EXACT + 1)
        if source.equation is not None and largest + int(np.abs(self.bias.astype(np.int64)).max()) <= EXACT:
            source, bias = source.equation.inputs[0], bias.astype(np.float32)
        limits = np.array([self.low - self.zero, self.high - self.zero, 0], np.float32)
        return source, constant(bias, source.dtype), constant(scale), constant(limits)


def sums(y: Array) -> Sums | None:
    """How y comes from sums of products, if it does."""
    reader = _Reader(y)
    reader.operand("cast")
    high, low = reader.constant("min"), reader.constant("max")
    zero = reader.constant("add", np.zeros(()))
    reader.operand("round")
    scale = reader.constant("mul")
    reader.operand("cast")
    bias = reader.constant("add", np.zeros((), np.int32))
    x = reader.x
    if x is None or x.dtype is not dtypes.int32 or x.rank == 0 or _function(x) is not None:
        return None
    if scale.dtype != np.float32 or not np.isfinite(scale).all():
        return None
    numbers = [float(number.reshape(-1)[0]) for number in (zero, low, high) if number.size == 1]
    if len(numbers) < 3 or not all(number.is_integer() and abs(number) < 1 << 9 for number in numbers):
        return None
    first, last = numbers[1:]
    channels = {axis for part in (bias, scale) for axis, size in _lengths(part, x.rank) if size > 1}
    if not 0 <= last - first < 256 or len(channels) > 1:
        return None
    channel = channels.pop() if channels else None
    return Sums(x, bias.reshape(-1), scale.reshape(-1), channel, *map(int, numbers))


class _Reader:
    """Goes back from an Array, as long as it is made as is expected; `x` is where it is, None if it was not."""

    def __init__(self, x: Array) -> None:
        self.x: Array | None = x

    def operand(self, function: str) -> None:
        """To the one operand of a function."""
        equation = self.x.equation if self.x is not None and _function(self.x) == function else None
        self.x = None if equation is None else equation.inputs[0]

    def constant(self, function: str, default: Values | None = None) -> Values:
        """To the operand of a function whose other one is a constant; nowhere for another function with a default."""
        x, self.x = self.x, None
        if x is not None and x.equation is not None and _function(x) == function:
            for one, other in (x.equation.inputs, x.equation.inputs[::-1]):
                if other.value is not None and one.value is None and same_shape(one.shape, x.shape):
                    self.x = one
                    return other.value
        elif default is not None:
            self.x = x
        return np.zeros(()) if default is None else default


def _function(x: Array) -> str | None:
    """How an Array is computed: the name of a scalar function, or "cast"."""
    if x.equation is None or x.equation.primitive.name not in ("elementwise", "cast"):
        return None
    return str(x.equation.params.get("function", "cast"))


def _lengths(part: Values, rank: int) -> list[tuple[int, int]]:
    """The axes that a constant has in an Array of this rank, and their sizes."""
    return [(rank - part.ndim + axis, size) for axis, size in enumerate(part.shape)]
