"""onnxruntime's operators on quantized tensors. Where a zero point is left out, it is 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.ops.activation import MICROSOFT, LeakyRelu, Softmax
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.pooling import AveragePool, Pool
from sardonyx.ops.qlinear import centred, dequantized, quantized, ratio
from sardonyx.ops.quantization import DequantizeLinear, QuantizeLinear
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import product

BYTES = np.arange(0, 240, 10, dtype=np.uint8).reshape(1, 2, 3, 4)
SIGNED = (np.arange(24) * 9 - 110).astype(np.int8).reshape(2, 3, 4)
ONE_STEP = 1 / 127
"""A tolerance of one step: onnxruntime looks some functions up in tables, or fuses additions."""


def scale(number: float) -> np.ndarray:
    return np.array(number, np.float32)


def zero(number: int, dtype: type[np.generic] = np.uint8) -> np.ndarray:
    return np.array(number, dtype)


POOLED = (BYTES, scale(0.1), zero(100), scale(0.12), zero(40))


def scalar(parameter: Array | None) -> Array | None:
    """A scale or zero point of a whole tensor, without axes."""
    return None if parameter is None else p.reshape(parameter, ())


def shift(zero_point: Array | None) -> Array:
    """The zero point of a whole tensor as a float."""
    zero = scalar(zero_point)
    return p.full((), 0.0, dtypes.float32) if zero is None else p.cast(zero, dtypes.float32)


def rounded(x: Array, dtype: DType) -> Array:
    """Floats, zero point included, as the nearest integers of 8 bits (halves to the even one), saturated."""
    low = -128 if dtype.kind == "int" else 0
    return p.cast(p.minimum(p.maximum(p.round_even(x), low), low + 255), dtype)


def like(x: Array, zero_point: Array | None) -> DType:
    """The type of a result: the zero point's, else that of the operand."""
    return x.dtype if zero_point is None else zero_point.dtype


def encoded(y: Array, scale: Array, zero_point: Array | None, x: Array) -> Array:
    """Floats in the scale of a whole tensor, that come from a quantized x."""
    return quantized(y / p.reshape(scale, ()), scalar(zero_point), like(x, zero_point))


def decoded(x: Array, scale: Array, zero_point: Array | None) -> Array:
    return dequantized(x, p.reshape(scale, ()), scalar(zero_point))


def channels_first(x: Array) -> Array:
    return p.transpose(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def channels_last(x: Array) -> Array:
    return p.transpose(x, [0, *range(2, x.rank), 1])


class MicrosoftQuantizeLinear(QuantizeLinear, domain=MICROSOFT, name="QuantizeLinear"):
    """QuantizeLinear before ONNX had axes and other types."""

    samples = [
        sample(np.linspace(-9, 9, 24, dtype=np.float32).reshape(2, 3, 4), scale(0.1), zero(100)),
        sample((2, 3), np.array([0.1, 0.2, 0.05], np.float32), np.array([1, 2, 3], np.int8), axis=1),
        sample((4,), scale(1e-4), zero(7, np.int16)),
    ]


class MicrosoftDequantizeLinear(DequantizeLinear, domain=MICROSOFT, name="DequantizeLinear"):
    """DequantizeLinear before ONNX had axes and other types."""

    samples = [
        sample(BYTES, scale(0.1), zero(100)),
        sample(SIGNED, np.array([0.1, 0.2], np.float32), np.array([1, 2], np.int8), axis=0),
        sample(np.array([-30000, 4], np.int16), scale(0.5)),
    ]


class QLinearAdd(Operator, domain=MICROSOFT):
    """The sum of two quantized tensors that broadcast, quantized."""

    def expand(
        self,
        a: Array,
        a_scale: Array,
        a_zero: Array | None,
        b: Array,
        b_scale: Array,
        b_zero: Array | None,
        c_scale: Array,
        c_zero: Array | None = None,
    ) -> Array:
        factors = [p.reshape(p.cast(scale, dtypes.float32) / c_scale, ()) for scale in (a_scale, b_scale)]
        rest = [factor * shift(zero) for factor, zero in zip(factors, (a_zero, b_zero), strict=True)]
        moved = p.cast(b, dtypes.float32) * factors[1] + (shift(c_zero) - (rest[0] + rest[1]))
        return rounded(p.cast(a, dtypes.float32) * factors[0] + moved, a.dtype)

    samples = [
        sample(BYTES, scale(0.1), zero(9), BYTES[0, 0], scale(0.3), zero(99), scale(0.5), zero(3), tolerance=ONE_STEP),
        sample(
            *(SIGNED, scale(0.1), zero(0, np.int8)),
            *(SIGNED[0, :, :1], scale(0.2), zero(-5, np.int8)),
            *(scale(0.2), zero(3, np.int8)),
            tolerance=ONE_STEP,
        ),
    ]


class QLinearMul(Operator, domain=MICROSOFT):
    """The product of two quantized tensors that broadcast, quantized."""

    def expand(
        self,
        a: Array,
        a_scale: Array,
        a_zero: Array | None,
        b: Array,
        b_scale: Array,
        b_zero: Array | None,
        c_scale: Array,
        c_zero: Array | None = None,
    ) -> Array:
        exact = centred(a, scalar(a_zero)) * centred(b, scalar(b_zero))
        factor = p.reshape(ratio(a_scale, b_scale, c_scale), ())
        return rounded(p.cast(exact, dtypes.float32) * factor + shift(c_zero), a.dtype)

    samples = [
        sample(BYTES, scale(0.1), zero(9), BYTES[0, 0], scale(0.3), zero(99), scale(4), zero(128), tolerance=ONE_STEP),
        sample(
            *(SIGNED, scale(0.1), zero(0, np.int8)),
            *(SIGNED[0, :, :1], scale(0.2), zero(-5, np.int8)),
            *(scale(2), zero(3, np.int8)),
            tolerance=ONE_STEP,
        ),
    ]


class QLinearSigmoid(Operator, domain=MICROSOFT):
    """The sigmoid of a quantized tensor, quantized."""

    def expand(
        self, x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None
    ) -> Array:
        return encoded(p.sigmoid(decoded(x, x_scale, x_zero)), y_scale, y_zero, x)

    samples = [
        sample(BYTES, scale(0.05), zero(100), scale(1 / 256), zero(0), tolerance=ONE_STEP),
        sample(SIGNED, scale(0.05), None, scale(1 / 128), None, tolerance=ONE_STEP),
    ]


class QLinearLeakyRelu(Operator, domain=MICROSOFT):
    """LeakyRelu of a quantized tensor, quantized."""

    alpha: float = 0.01

    def expand(
        self, x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None
    ) -> Array:
        return encoded(LeakyRelu(self.node).expand(decoded(x, x_scale, x_zero)), y_scale, y_zero, x)

    samples = [
        sample(BYTES, scale(0.05), zero(100), scale(0.04), zero(30), alpha=0.3, tolerance=ONE_STEP),
        sample(SIGNED, scale(0.05), None, scale(0.06), None, tolerance=ONE_STEP),
    ]


class QLinearSoftmax(Operator, domain=MICROSOFT):
    """Softmax of a quantized tensor, quantized; before operator set 13 over all axes from `axis` on."""

    opset: int
    axis: int = -1

    def expand(self, x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array) -> Array:
        shape, wide = x.shape, decoded(x, x_scale, x_zero)
        if self.opset >= 13:
            return encoded(Softmax(self.node).expand(wide), y_scale, y_zero, x)
        axis = p.normalize_axis(self.axis, x.rank)
        wide = p.reshape(wide, (*shape[:axis], product(shape[axis:])))
        powers = p.exp(wide - p.max_(wide, [axis], keepdims=True))
        return p.reshape(encoded(powers / p.sum_(powers, [axis], keepdims=True), y_scale, y_zero, x), shape)

    samples = [
        sample(BYTES, scale(0.02), zero(100), scale(1 / 256), zero(0), opset=13, tolerance=ONE_STEP),
        sample(BYTES, scale(0.02), None, scale(1 / 256), zero(0), opset=12, axis=2, tolerance=ONE_STEP),
        sample(
            SIGNED,
            scale(0.02),
            zero(5, np.int8),
            scale(1 / 256),
            zero(-128, np.int8),
            opset=13,
            axis=1,
            tolerance=ONE_STEP,
        ),
    ]


class QLinearConcat(Operator, domain=MICROSOFT):
    """Quantized tensors, each with its scale and zero point, joined along an axis in one scale."""

    axis: int

    def expand(self, y_scale: Array, y_zero: Array, *inputs: Array) -> Array:
        parts = [encoded(decoded(*inputs[k : k + 3]), y_scale, y_zero, y_zero) for k in range(0, len(inputs), 3)]
        return p.concat(parts, self.axis)

    samples = [
        sample(
            *(scale(0.2), zero(8)),
            *(BYTES, scale(0.1), zero(100)),
            *(BYTES[:, :1], scale(0.2), zero(8)),
            axis=1,
            tolerance=ONE_STEP,
        ),
    ]


class QLinearWhere(Operator, domain=MICROSOFT):
    """Elements of x where the condition holds, else of y, in one scale."""

    def expand(
        self,
        condition: Array,
        x: Array,
        x_scale: Array,
        x_zero: Array,
        y: Array,
        y_scale: Array,
        y_zero: Array,
        z_scale: Array,
        z_zero: Array,
    ) -> Array:
        chosen = (encoded(decoded(*item), z_scale, z_zero, x) for item in ((x, x_scale, x_zero), (y, y_scale, y_zero)))
        return p.where(condition, *chosen)

    samples = [
        sample(
            np.array([True, False, False, True]),
            *(BYTES, scale(0.1), zero(100)),
            *(BYTES[0, 0], scale(0.3), zero(8)),
            *(scale(0.2), zero(50)),
            tolerance=ONE_STEP,
        ),
    ]


class QLinearReduceMean(Operator, domain=MICROSOFT):
    """The mean of a quantized tensor along axes, quantized."""

    axes: tuple[int, ...]
    keepdims: int

    def expand(
        self, x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None
    ) -> Array:
        return mean(x, x_scale, x_zero, y_scale, y_zero, p.normalize_axes(self.axes, x.rank), bool(self.keepdims))


def mean(
    x: Array,
    x_scale: Array,
    x_zero: Array | None,
    y_scale: Array,
    y_zero: Array | None,
    axes: Sequence[int],
    keepdims: bool = True,
) -> Array:
    """The mean of a quantized tensor along axes, from an exact sum."""
    total = p.cast(p.sum_(centred(x, scalar(x_zero)), axes, keepdims), dtypes.float32)
    step = p.reshape(y_scale, ()) * product(x.shape[axis] for axis in axes)
    return quantized(total * (p.reshape(x_scale, ()) / step), scalar(y_zero), like(x, y_zero))


class QLinearGlobalAveragePool(Operator, domain=MICROSOFT):
    """The mean of a quantized tensor over all spatial axes, quantized."""

    channels_last: int = 0

    def expand(self, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Array:
        axes = range(1, x.rank - 1) if self.channels_last else range(2, x.rank)
        return mean(x, x_scale, x_zero, y_scale, y_zero, axes)

    samples = [
        sample(BYTES, scale(0.1), zero(100), scale(0.05), zero(40), tolerance=ONE_STEP),
        sample(BYTES, scale(0.1), zero(100), scale(0.05), zero(40), channels_last=1, tolerance=ONE_STEP),
    ]


class QLinearAveragePool(Pool, domain=MICROSOFT):
    """AveragePool of a quantized tensor, quantized."""

    count_include_pad: int = 0
    channels_last: int = 0

    def expand(
        self, x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None
    ) -> Array:
        wide = decoded(x, x_scale, x_zero)
        pool = AveragePool(self.node)
        pool.counts_all = True
        pooled = channels_last(pool.expand(channels_first(wide))) if self.channels_last else pool.expand(wide)
        return encoded(pooled, y_scale, y_zero, x)

    samples = [
        sample(*POOLED, kernel_shape=[2, 2], tolerance=ONE_STEP),
        sample(*POOLED, kernel_shape=[2, 3], pads=[1, 1, 0, 1], strides=[2, 1], tolerance=ONE_STEP),
        sample(*POOLED, kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1, tolerance=ONE_STEP),
        sample(*POOLED, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, count_include_pad=1, tolerance=ONE_STEP),
        sample(*POOLED, kernel_shape=[2, 3], channels_last=1, tolerance=ONE_STEP),
    ]


class NhwcMaxPool(Pool, domain=MICROSOFT):
    """MaxPool of integers whose channels come last."""

    def expand(self, x: Array) -> Array:
        return channels_last(p.reduce_window(channels_first(x), "max", **self.windows(channels_first(x))))

    samples = [sample(BYTES, kernel_shape=[2, 2]), sample(BYTES, kernel_shape=[1, 2], strides=[1, 2])]
