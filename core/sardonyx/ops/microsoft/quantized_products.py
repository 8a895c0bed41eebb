"""onnxruntime's products and convolutions of quantized tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.activation import MICROSOFT
from sardonyx.ops.matmul import MatMulInteger
from sardonyx.ops.microsoft.quantized import (
    BYTES,
    ONE_STEP,
    channels_first,
    channels_last,
    like,
    scalar,
    scale,
    zero,
)
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.qlinear import QLinearConv, QLinearMatMul, along, quantized
from sardonyx.ops.quantization import DynamicQuantizeLinear
from sardonyx.primitives.array import Array

INTEGERS = BYTES.reshape(4, 6), (np.arange(24) * 5 - 60).astype(np.int8).reshape(6, 4)
"""What samples multiply: weights of 7 bits, since onnxruntime's sums saturate where processors have no VNNI."""
MATRICES = (*(INTEGERS[0], scale(0.1), zero(100)), *(INTEGERS[1], scale(0.2), zero(0, np.int8)))


class MicrosoftQLinearMatMul(QLinearMatMul, domain=MICROSOFT, name="QLinearMatMul"):
    """QLinearMatMul as onnxruntime's quantizer writes it for 8-bit floats, which ONNX's did not take at first."""


class MicrosoftQLinearConv(QLinearConv, domain=MICROSOFT, name="QLinearConv"):
    """QLinearConv, of x and y whose channels may come last."""

    channels_last: int = 0

    def expand(self, x: Array, *parameters: Any) -> Array:
        convolve = QLinearConv(self.node).expand
        if self.channels_last:
            return channels_last(convolve(channels_first(x), *parameters))
        return convolve(x, *parameters)

    samples = [
        sample(
            *(BYTES, scale(0.1), zero(9)),
            *((np.arange(32) * 4 - 64).astype(np.int8).reshape(2, 4, 2, 2), scale(0.05), zero(0, np.int8)),
            *(scale(20), zero(128)),
            channels_last=1,
        ),
    ]


class QGemm(Operator, domain=MICROSOFT):
    """alpha * A B + C of quantized matrices, of which A and B may be transposed; B has one scale and zero point, or one
    per column, and C is int32 in the scale of the product. Quantized if y has a scale, else float32."""

    alpha: float = 1.0
    transA: int = 0  # noqa: N815 - onnxruntime's name
    transB: int = 0  # noqa: N815

    def expand(
        self,
        a: Array,
        a_scale: Array,
        a_zero: Array,
        b: Array,
        b_scale: Array,
        b_zero: Array,
        c: Array | None = None,
        y_scale: Array | None = None,
        y_zero: Array | None = None,
    ) -> Array:
        a, b = (p.transpose(x) if swapped else x for x, swapped in ((a, self.transA), (b, self.transB)))
        total = MatMulInteger(self.node).expand(a, b, a_zero, b_zero)
        total = p.cast(total if c is None else total + c, dtypes.float32)
        factor = self.alpha * p.reshape(a_scale, ()) * along(b_scale, 1, 2)
        if y_scale is None:
            return total * factor
        return quantized(total * (factor / p.reshape(y_scale, ())), scalar(y_zero), like(a, y_zero))

    samples = [
        sample(*MATRICES, None, scale(300), zero(100), tolerance=ONE_STEP),
        sample(*MATRICES, np.arange(-2, 2, dtype=np.int32) * 900, scale(300), zero(100), alpha=1.5, tolerance=ONE_STEP),
        sample(*MATRICES, np.arange(-2, 2, dtype=np.int32), alpha=0.5),
        sample(
            *(BYTES.reshape(6, 4), scale(0.1), zero(100)),
            *(INTEGERS[1].reshape(4, 6), np.array([0.1, 0.2, 0.3, 0.4], np.float32), np.array([3, 0, -3, 9], np.int8)),
            *(None, scale(300), zero(100)),
            transA=1,
            transB=1,
            tolerance=ONE_STEP,
        ),
    ]


class MatMulIntegerToFloat(Operator, domain=MICROSOFT):
    """The matrix product of quantized A and B, plus a bias, as floats; B may have a scale and zero point per column."""

    def expand(
        self,
        a: Array,
        b: Array,
        a_scale: Array,
        b_scale: Array,
        a_zero: Array | None = None,
        b_zero: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        total = MatMulInteger(self.node).expand(a, b, a_zero, b_zero)
        factor = p.widen(p.reshape(a_scale, ())) * p.widen(along(b_scale, -1, b.rank))
        result = p.cast(p.cast(total, dtypes.float32) * factor, a_scale.dtype)
        return result if bias is None else result + bias

    samples = [
        sample(*INTEGERS, scale(0.1), scale(0.2)),
        sample(*INTEGERS, scale(0.1), scale(0.2), zero(7), zero(-3, np.int8), (4,)),
        sample(*INTEGERS, scale(0.1), np.array([0.1, 0.2, 0.3, 0.4], np.float32), None, np.arange(4, dtype=np.int8)),
    ]


class DynamicQuantizeMatMul(Operator, domain=MICROSOFT):
    """The matrix product of A, quantized by its own range, and quantized B, plus a bias, as floats."""

    def expand(
        self, a: Array, b: Array, b_scale: Array, b_zero: Array | None = None, bias: Array | None = None
    ) -> Array:
        integers, a_scale, a_zero = DynamicQuantizeLinear(self.node).expand(a)
        return MatMulIntegerToFloat(self.node).expand(integers, b, a_scale, b_scale, a_zero, b_zero, bias)

    samples = [
        sample((2, 3, 6), INTEGERS[1], scale(0.2)),
        sample((3, 6), INTEGERS[1], np.array([0.1, 0.2, 0.3, 0.4], np.float32), np.arange(4, dtype=np.int8), (4,)),
    ]
