"""Legalization of products of bytes, and of convolutions of integers that float32 holds."""

from __future__ import annotations

import numpy as np

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation, constant
from sardonyx.legalization.channels_last import ChannelsLast
from sardonyx.legalization.products import contracted
from sardonyx.symbolic import hint, product
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.designs import designs_of_bytes
from sardonyx_webgpu.window import filled

FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""
ROWS = 4
"""From so many rows on it pays to pack a matrix that is not constant."""
_BYTES = (dtypes.int8, dtypes.uint8)


def dot_general(legalizer: ChannelsLast, equation: Equation) -> bool:
    """dot_general of bytes -> matmul_int8"""
    (output,) = equation.outputs
    if not all(x.dtype in _BYTES for x in equation.inputs):
        return False
    found = contracted(equation)
    pays = legalizer.is_constant(equation.inputs[1]) or hint(found.m) >= ROWS
    if not isinstance(found.k, int) or not isinstance(found.n, int) or not found.work >= FEWEST or not pays:
        return False
    a, b = found.operands([product(found.batch)])
    legalizer.define_reshaped(output, matmul(legalizer, a, b))
    return True


def matmul(legalizer: ChannelsLast, a: Array, b: Array) -> Array:
    """The product of stacks of matrices of bytes, int32."""
    (batch, m, k), n = a.shape, b.shape[2]
    signed = dtypes.int8 in (a.dtype, b.dtype)
    wide = p.cast(b, dtypes.int32)
    moved = wide - 128 if signed and b.dtype is dtypes.uint8 else wide
    params = {"signed": signed, **designs_of_bytes(batch, m, k, n)}
    operands = [filled(a, 2), _as_words(moved)]
    made = legalizer.record(own.MATMUL_INT8, operands, params, dtypes.int32, (batch, m, n))
    if signed and a.dtype is dtypes.uint8:
        made = made + 128 * p.sum_(moved, [1], keepdims=True)
    if moved is not wide:
        made = made + 128 * p.sum_(p.cast(a, dtypes.int32), [2], keepdims=True)
    return made


def _as_words(b: Array) -> Array:
    """[B, K, N] -> [B, K / 4, N] words of four bytes, the first one in the lowest bits; both filled up to fours."""
    wide = filled(filled(b, 1), 2)
    batch, depth, n = wide.shape
    parts = p.reshape(p.cast(wide, dtypes.uint32) & 255, [batch, int(depth) // 4, 4, n])
    return p.sum_(p.shift_left(parts, constant(np.arange(0, 32, 8)[:, None], dtypes.uint32)), [2])
