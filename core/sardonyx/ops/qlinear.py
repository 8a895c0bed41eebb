"""Products and convolutions of quantized tensors: exact sums of integers, scaled back into integers."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.ops.convolution import ConvInteger, with_bias
from sardonyx.ops.matmul import MatMulInteger, is_zero
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.sliding import Sliding
from sardonyx.primitives.array import Array


def quantized(x: Array, zero: Array | None, dtype: DType) -> Array:
    """Floats rounded to the nearest integer (halves to the even one), plus a zero point, saturated."""
    x = p.cast(x, dtypes.float32)
    whole = x if dtype.is_float else p.round_even(x)
    moved = whole if zero is None else whole + p.cast(zero, dtypes.float32)
    if dtype.is_float:
        return p.cast(moved, dtype)
    low = -(2 ** (dtype.bits - 1)) if dtype.kind == "int" else 0
    return p.cast(p.minimum(p.maximum(moved, low), low + 2**dtype.bits - 1), dtype)


def dequantized(x: Array, scale: Array, zero: Array | None) -> Array:
    """float32 (x - zero point) * scale, of parameters that broadcast against x."""
    return p.cast(centred(x, zero), dtypes.float32) * p.cast(scale, dtypes.float32)


def centred(x: Array, zero: Array | None) -> Array:
    """int32 (float32 of 8-bit floats) x less a zero point that broadcasts against it."""
    work = dtypes.float32 if x.dtype.is_float else dtypes.int32
    wide = p.cast(x, work)
    return wide if zero is None or is_zero(zero) else wide - p.cast(zero, work)


def ratio(a: Array, b: Array, y: Array) -> Array:
    """float32 a * b / y of scales, rounded as onnxruntime does."""
    wide = [p.cast(scale, dtypes.float32) for scale in (a, b, y)]
    return wide[0] * wide[1] / wide[2]


def along(parameter: Array, axis: int, rank: int) -> Array:
    """A scale or zero point shaped to broadcast: a vector lies along this axis of a tensor of this rank."""
    if parameter.rank != 1 or parameter.shape[0] == 1:
        return p.reshape(parameter, ()) if parameter.rank == 1 else parameter
    return p.reshape(parameter, (parameter.shape[0], *[1] * (rank - 1 - p.normalize_axis(axis, rank))))


class QLinearMatMul(Operator, since=10):
    """The matrix product of quantized A and B, quantized; scales and zero points are one number, or one per row of A
    and Y and column of B."""

    def expand(
        self,
        a: Array,
        a_scale: Array,
        a_zero: Array,
        b: Array,
        b_scale: Array,
        b_zero: Array,
        y_scale: Array,
        y_zero: Array,
    ) -> Array:
        if a.dtype.is_float or b.dtype.is_float:
            left, right = centred(a, along(a_zero, -2, a.rank)), centred(b, along(b_zero, -1, b.rank))
            total = p.matmul(p.cast(left, dtypes.float32), p.cast(right, dtypes.float32))
        else:
            total = MatMulInteger(self.node).expand(a, b, a_zero, b_zero)
        scales = along(a_scale, -2, a.rank), along(b_scale, -1, b.rank), along(y_scale, -2, a.rank)
        product = p.cast(total, dtypes.float32) * ratio(*scales)
        return quantized(product, along(y_zero, -2, a.rank), y_zero.dtype)

    samples = [
        sample(
            np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8),
            np.array([0.0066], np.float32),
            np.array([113], np.uint8),
            np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8),
            np.array([0.00705], np.float32),
            np.array([114], np.uint8),
            np.array([0.0107], np.float32),
            np.array([118], np.uint8),
        ),
        sample(
            np.arange(-12, 12, dtype=np.int8).reshape(2, 3, 4),
            np.array(0.02, np.float32),
            np.array(-3, np.int8),
            np.arange(-20, 0, dtype=np.int8).reshape(4, 5) * 3,
            np.array(0.05, np.float32),
            np.array(0, np.int8),
            np.array(0.1, np.float32),
            np.array(7, np.int8),
        ),
    ]


class QLinearConv(Sliding, since=10):
    """Convolution of quantized x with w, plus an int32 bias, quantized; w has one scale and zero point, or one per
    output channel. The border of x holds its zero point."""

    kernel_shape: tuple[int, ...] | None = None
    group: int = 1

    def expand(
        self,
        x: Array,
        x_scale: Array,
        x_zero: Array,
        w: Array,
        w_scale: Array,
        w_zero: Array,
        y_scale: Array,
        y_zero: Array,
        bias: Array | None = None,
    ) -> Array:
        zeros = (None if is_zero(zero) else along(zero, 0, 1) for zero in (x_zero, w_zero))
        total = with_bias(ConvInteger(self.node).expand(x, w, *zeros), bias)
        scale = ratio(along(x_scale, 1, x.rank), along(w_scale, 1, x.rank), along(y_scale, 1, x.rank))
        return quantized(p.cast(total, dtypes.float32) * scale, along(y_zero, 1, x.rank), y_zero.dtype)

    samples = [
        sample(
            np.arange(49, dtype=np.uint8).reshape(1, 1, 7, 7) * 5,
            np.array(0.00369, np.float32),
            np.array(132, np.uint8),
            np.array([0], np.uint8).reshape(1, 1, 1, 1),
            np.array([0.00172], np.float32),
            np.array([255], np.uint8),
            np.array(0.00162, np.float32),
            np.array(123, np.uint8),
        ),
        sample(
            np.arange(50, dtype=np.uint8).reshape(1, 2, 5, 5) * 5,
            np.array(0.1, np.float32),
            np.array(9, np.uint8),
            np.arange(-54, 54, 2, dtype=np.int8).reshape(3, 2, 3, 3),
            np.array([0.2, 0.1, 0.05], np.float32),
            np.array([0, 0, 0], np.int8),
            np.array(20, np.float32),
            np.array(100, np.uint8),
            np.array([100, -900, 7], np.int32),
            pads=[1, 0, 1, 1],
            strides=[2, 1],
        ),
    ]
