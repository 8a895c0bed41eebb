"""Linear quantization: integers times a scale, of the tensor, of an axis, or of blocks along one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.conversion import Conversion, type_of
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array

SCALES = np.array([0.5, 0.1, 0.25], np.float32)
INPUT = np.linspace(-90, 90, 24, dtype=np.float32).reshape(2, 3, 4)


def spread(parameter: Array, x: Array, axis: int, block: int) -> Array:
    """A scale or zero point, shaped to broadcast against x."""
    if parameter.rank == 0 or (parameter.rank == 1 and not block and parameter.shape[0] == 1):
        return p.reshape(parameter, ())
    axis = p.normalize_axis(axis, x.rank)
    if not block:
        return p.reshape(parameter, (parameter.shape[0], *[1] * (x.rank - 1 - axis)))
    if parameter.rank != x.rank:
        raise ValueError(f"scales of blocks have the rank of the input, {x.rank}, not {parameter.rank}")
    before, count, behind = parameter.shape[:axis], parameter.shape[axis], parameter.shape[axis + 1 :]
    repeated = p.broadcast_to(p.unsqueeze(parameter, [axis + 1]), (*before, count, block, *behind))
    return p.slice_axis(p.reshape(repeated, (*before, count * block, *behind)), axis, 0, x.shape[axis])


def aligned(
    x: Array, axis: int, block: int, scale: Array, zero_point: Array | None
) -> tuple[Array, Array, Array | None]:
    """The three so that they broadcast: an axis of whole blocks is split into the blocks and their elements."""
    place = p.normalize_axis(axis, x.rank) if block else 0
    size = x.shape[place] if block else 0
    if not block or not isinstance(size, int) or size % block or scale.rank != x.rank:
        zero_point = None if zero_point is None else spread(zero_point, x, axis, block)
        return x, spread(scale, x, axis, block), zero_point
    split = p.reshape(x, (*x.shape[:place], size // block, block, *x.shape[place + 1 :]))
    scale = p.unsqueeze(scale, [place + 1])
    return split, scale, None if zero_point is None else p.unsqueeze(zero_point, [place + 1])


class QuantizeLinear(Conversion, since=10):
    """x / scale rounded to the nearest integer (halves to the even one), plus the zero point, saturated."""

    axis: int = 1
    block_size: int = 0
    output_dtype: int = 0
    precision: int = 0

    def expand(self, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        dtype = dtypes.uint8
        if zero_point is not None:
            dtype = zero_point.dtype
        elif self.output_dtype:
            dtype = type_of(self.output_dtype)
        precision = type_of(self.precision) if self.precision else scale.dtype
        if not precision.is_float or precision.bits <= 8:
            precision = dtypes.float32
        wide, scale, zero_point = aligned(x, self.axis, self.block_size, scale, zero_point)
        quotient = p.cast(p.cast(wide, precision) / p.cast(scale, precision), dtypes.float32)
        zero = None if zero_point is None else p.cast(zero_point, dtypes.float32)
        if dtype.is_float:
            return p.reshape(self.convert(quotient if zero is None else quotient + zero, dtype), x.shape)
        rounded = p.round_even(quotient)
        low = -(2 ** (dtype.bits - 1)) if dtype.kind == "int" else 0
        moved = rounded if zero is None else rounded + zero
        return p.reshape(p.cast(p.minimum(p.maximum(moved, low), low + 2**dtype.bits - 1), dtype), x.shape)

    samples = [
        sample(INPUT, np.array(0.5, np.float32), np.array(3, np.uint8)),
        sample(INPUT, np.array([0.5], np.float32)),
        sample(INPUT, SCALES, np.array([0, -5, 9], np.int8)),
        sample(INPUT, SCALES * 1e-3, np.array([0, -5, 9], np.int16), axis=-2),
        sample(INPUT, SCALES * 1e-3, np.array([7, 500, 60000], np.uint16)),
        sample(INPUT, np.full((2, 3, 2), 0.3, np.float32), axis=2, block_size=2, output_dtype=dtypes.int8.number),
        sample(
            INPUT[:, :, :3], np.full((2, 3, 2), 0.3, np.float32), np.ones((2, 3, 2), np.uint8), axis=-1, block_size=2
        ),
        sample(np.array([1.25, 0.75, -3.5], np.float16), np.array(0.5, np.float16), np.array(2, np.int8)),
        sample(np.array([0.5, 1.5, 2.5, np.inf, -np.inf], np.float32), np.array(1, np.float32), np.array(0, np.int8)),
    ]


class DequantizeLinear(Operator, since=10):
    """(x - zero point) * scale."""

    axis: int = 1
    block_size: int = 0
    output_dtype: int = 0

    def expand(self, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        dtype = type_of(self.output_dtype) if self.output_dtype else scale.dtype
        work = dtypes.float32 if x.dtype.is_float else dtypes.int32
        wide, scale, zero_point = aligned(x, self.axis, self.block_size, scale, zero_point)
        difference = p.cast(wide, work)
        if zero_point is not None:
            difference = difference - p.cast(zero_point, work)
        result = p.cast(p.cast(difference, dtypes.float32) * p.cast(scale, dtypes.float32), dtype)
        return p.reshape(result, x.shape)

    samples = [
        sample(np.array([[0, 128, 255]], np.uint8), np.array(0.5, np.float32), np.array(128, np.uint8)),
        sample(np.array([[-128, 0, 127]], np.int8), SCALES, np.array([0, -5, 9], np.int8)),
        sample(np.array([[-(2**15), 2**15 - 1]], np.int16), np.array([0.5, 2], np.float32), axis=-1),
        sample(np.array([[0, 2**16 - 1]], np.uint16), np.array([0.5], np.float32), np.array([7], np.uint16)),
        sample(np.array([2**20, -5], np.int32), np.array(1e-3, np.float32)),
        sample(
            np.arange(12, dtype=np.int8).reshape(3, 4), np.array([[1, 2], [3, 4], [5, 6]], np.float32), block_size=2
        ),
        sample(np.array([3, -4], np.int8), np.array(0.5, np.float16), np.array(1, np.int8)),
    ]


class DynamicQuantizeLinear(Operator, since=11):
    """x as uint8, with the scale and zero point that cover its values and 0."""

    def expand(self, x: Array) -> Sequence[Array]:
        low, high = p.extremes(x)
        low, high = p.minimum(low, 0.0), p.maximum(high, 0.0)
        scale = (high - low) / 255.0
        scale = p.where(p.equal(scale, 0.0), 1.0, scale)
        zero = p.minimum(p.maximum(p.round_even(-low / scale), 0.0), 255.0)
        moved = p.round_even(x / scale) + zero
        return p.cast(p.minimum(p.maximum(moved, 0.0), 255.0), dtypes.uint8), scale, p.cast(zero, dtypes.uint8)

    samples = [
        sample((3, 4), outputs=3),
        sample((5, 3, 1200), outputs=3),
        sample(np.array([1, 2.5, 4], np.float32), outputs=3),
        sample(np.array([-1, -2.5], np.float32), outputs=3),
    ]
