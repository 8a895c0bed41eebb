"""The arithmetic of linear quantization: real = scale * (integer - zero point).

Types of 4 bits are held one element a byte. Formulas, roundings and element types are onnxruntime's, so that scales and
integers are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidArgument

RANGES: dict[DType, tuple[int, int]] = {
    dtypes.uint8: (0, 255),
    dtypes.int8: (-128, 127),
    dtypes.uint16: (0, 65535),
    dtypes.int16: (-32768, 32767),
    dtypes.uint4: (0, 15),
    dtypes.int4: (-8, 7),
}
"""The least and the greatest integer of each type."""
SYMMETRIC = {dtypes.int8: (-127, 127), dtypes.int16: (-32767, 32767)}
"""Those that are used where zero is to lie in the middle."""
REDUCED = {
    dtypes.uint8: (0, 127),
    dtypes.int8: (-64, 64),
    dtypes.uint16: (0, 32767),
    dtypes.int16: (-16384, 16384),
    dtypes.uint4: (0, 7),
    dtypes.int4: (-4, 3),
}
"""Those of one bit fewer, whose products cannot saturate 16 bits."""


def limits(dtype: DType, reduced: bool = False, symmetric: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest integer that a tensor of this type gets, as scalars of the type.

    >>> limits(dtypes.int8, symmetric=True)
    (array(-127, dtype=int8), array(127, dtype=int8))
    """
    if dtype is dtypes.float8e4m3fn:
        raise NotImplementedError("float8e4m3fn has no least and greatest integer")
    if dtype not in RANGES:
        raise InvalidArgument(f"tensors cannot be quantized to {dtype}; to {', '.join(map(str, RANGES))} they can")
    table = REDUCED if reduced else SYMMETRIC if symmetric and dtype in SYMMETRIC else RANGES
    low, high = table[dtype]
    return np.array(low, dtype.storage), np.array(high, dtype.storage)


def scale_and_zero(
    low: Any, high: Any, least: Any, greatest: Any, symmetric: bool = False, min_real_range: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The zero points and scales by which [least, greatest] stand for [low, high], arrays of the shape of these.

    The range is widened to hold 0 (and, if `symmetric`, to lie around it), and to `min_real_range`. A range of nothing
    has scale 1. The difference is taken in float64, for a range of finite float16 or float32 may be infinite.
    """
    low, high, least, greatest = (np.asarray(each) for each in (low, high, least, greatest))
    if least > 0 or greatest < 0:
        raise InvalidArgument(f"integers from {least} to {greatest} do not hold 0")
    kind = high.dtype
    low, high = np.minimum(low, np.array(0, low.dtype)), np.maximum(high, np.array(0, kind))
    if min_real_range is not None:
        high = np.maximum(high, low + np.asarray(min_real_range, low.dtype))
    if symmetric:
        high = np.maximum(np.abs(low), np.abs(high))
        low = -high
    steps = greatest.astype(np.float64) - least.astype(np.float64)
    scale = np.asarray((np.array(high, np.float64) - np.array(low, np.float64)) / steps)
    if not (scale >= 0).all():
        raise InvalidArgument("a range holds NaN; the calibration data, or a layer, give it")
    nothing = scale < np.finfo(high.dtype).tiny
    if symmetric:
        zero = np.broadcast_to(np.round((int(least) + int(greatest)) / 2.0), scale.shape)
    else:
        zero = np.round(least - low / np.where(nothing, 1.0, scale))
    zero = np.where(nothing, 0, zero).astype(least.dtype)
    return np.asarray(zero), np.asarray(np.where(nothing, 1.0, scale).astype(high.dtype))


def restricted(
    low: Any, high: Any, least: int = 0, greatest: int = 255, min_real_range: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The zero point and the scale of uint8 whose zero point is the least integer, or the middle for a negative `low`.

    They are scalars, uint8 and float32; the range that they stand for holds [low, high] and 0.
    """
    least, greatest = int(least), int(greatest)
    middle, steps = (least + greatest + 1) // 2, greatest - least
    bottom, top = min(float(np.squeeze(low)), 0.0), max(float(np.squeeze(high)), 0.0)
    if min_real_range is not None and min_real_range > 0:
        top = max(top, bottom + float(min_real_range))
    if top <= bottom:  # both are 0
        zero, scale = least, 1.0 / max(1, steps)
    elif bottom >= 0:
        zero, scale = least, top / steps
    else:
        zero, scale = middle, max(-bottom / (middle - least), top / (greatest - middle))
    rounded = np.array(scale, np.float32)
    if min_real_range is not None and float(rounded) < min_real_range / steps:
        rounded = np.array(min_real_range / steps, np.float32)
    return np.array(zero, np.uint8), rounded


def of_data(
    data: np.ndarray,
    dtype: DType,
    symmetric: bool,
    reduced: bool = False,
    min_real_range: float | None = None,
    low: Any = None,
    high: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The zero point and the scale for these floats; `low` and `high` stand for the least and the greatest of them."""
    least, greatest = limits(dtype, reduced, symmetric)
    if not data.size:
        return np.array(0, least.dtype), np.array(1.0, data.dtype)
    bottom = np.array(data.min() if low is None else low, data.dtype)
    top = np.array(data.max() if high is None else high, data.dtype)
    return scale_and_zero(bottom, top, least, greatest, symmetric, min_real_range)


def of_channels(
    weight: np.ndarray,
    dtype: DType,
    axis: int,
    symmetric: bool,
    reduced: bool = False,
    min_real_range: float | None = None,
    asked: Sequence[Mapping[str, Any]] = ({},),
) -> tuple[np.ndarray, np.ndarray]:
    """The zero points and the scales of the channels along an axis.

    `asked` says more of all channels, or of each: `scale` and `zero_point`, or `rmin` and `rmax`.
    """
    least, greatest = limits(dtype, reduced, symmetric)
    count = weight.shape[axis]
    each = list(asked) if len(asked) == count else [asked[0]] * count
    if not weight.size:
        return np.zeros(count, least.dtype), np.ones(count, weight.dtype)
    others = tuple(other for other in range(weight.ndim) if other != axis)
    low = np.asarray([one.get("rmin", seen) for one, seen in zip(each, weight.min(axis=others))], weight.dtype)
    high = np.asarray([one.get("rmax", seen) for one, seen in zip(each, weight.max(axis=others))], weight.dtype)
    zero, scale = scale_and_zero(low, high, least, greatest, symmetric, min_real_range)
    for channel, one in enumerate(each):
        if "scale" in one and "zero_point" in one:
            zero[channel], scale[channel] = one["zero_point"], one["scale"]
    return zero, scale


def of_blocks(
    weight: np.ndarray, dtype: DType, axis: int, block_size: int, symmetric: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Zero points and scales of blocks along an axis of a matrix, along which they have an element for each block."""
    if weight.ndim != 2:
        raise NotImplementedError(
            f"blocks are for matrices, and the weight is {list(weight.shape)}: reshape it, or quantize by channels"
        )
    least, greatest = limits(dtype, symmetric=symmetric)
    rows = np.moveaxis(weight, axis, 0)
    count = -(-len(rows) // block_size)
    padded = np.zeros((count * block_size, rows.shape[1]), weight.dtype)
    padded[: len(rows)] = rows
    blocks = padded.reshape(count, block_size, -1)
    zero = np.zeros((), weight.dtype)
    low, high = np.minimum(blocks.min(axis=1), zero), np.maximum(blocks.max(axis=1), zero)
    if symmetric:
        high = np.maximum(np.abs(low), np.abs(high))
        low = -high
    scale = ((high - low).astype(np.float64) / (float(greatest) - float(least))).astype(weight.dtype)
    nothing = scale < np.finfo(weight.dtype).tiny
    scale = np.where(nothing, np.ones_like(scale), scale)
    if symmetric:
        points = np.full(scale.shape, round((float(least) + float(greatest)) / 2.0), least.dtype)
    else:
        exact = np.round(float(least) - low.astype(np.float64) / scale.astype(np.float64))
        points = np.where(nothing, 0, np.clip(exact, float(least), float(greatest))).astype(least.dtype)
    return np.moveaxis(points, 0, axis), np.moveaxis(scale, 0, axis)


def quantized(
    data: np.ndarray, dtype: DType, scale: Any, zero: Any, low: float | None = None, high: float | None = None
) -> np.ndarray:
    """Floats as integers, rounded to even and clipped; scale and zero point broadcast to them."""
    least, greatest = limits(dtype)
    bottom: Any = least if low is None else max(int(least), low)
    top: Any = greatest if high is None else min(int(greatest), high)
    levels = np.asarray((data.astype(np.float32) / scale).round() + zero)
    return np.asarray(np.clip(levels, bottom, top).astype(dtype.storage))


def by_channel(values: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """One value of each channel, shaped so that it broadcasts to the tensor."""
    return values.reshape([-1 if each == axis else 1 for each in range(rank)])


def by_block(values: np.ndarray, size: int, axis: int, block_size: int) -> np.ndarray:
    """One value of each block, repeated along the axis up to its size."""
    return np.take(np.repeat(values, block_size, axis), np.arange(size), axis)
