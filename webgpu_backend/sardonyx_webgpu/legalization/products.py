"""Legalization of products of floats."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.channels_last import ChannelsLast
from sardonyx.compiler.legalization.products import contraction
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import product
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.routines.designs import designs

FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""


def dot_general(legalizer: ChannelsLast, equation: Equation) -> bool:
    """dot_general of floats -> matmul; that of bytes -> matmul_int8"""
    (output,) = equation.outputs
    if equation.params["dtype"] is dtypes.int32:
        from sardonyx_webgpu.legalization import integers

        return integers.dot_general(legalizer, equation)
    matrices = contraction(equation)
    if matrices is None or not matrices.work >= FEWEST:
        return False
    if matrices.is_sums:  # fusion joins them with what surrounds them
        return False
    legalizer.define_reshaped(output, matmul(legalizer, *matrices.operands([product(matrices.batch)]), output.dtype))
    return True


def matmul(legalizer: ChannelsLast, a: Array, b: Array, dtype: dtypes.DType) -> Array:
    """The product of two stacks of matrices."""
    shape = (*a.shape[:-1], b.shape[-1])
    params = designs(a.shape[0], a.shape[-2], *b.shape[-2:])
    result = legalizer.record(own.MATMUL, [a, b], params, dtypes.float32, shape)
    return p.cast(result, dtype)
