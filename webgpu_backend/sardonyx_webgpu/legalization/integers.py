"""Legalization of products of bytes, and of convolutions that are such."""

from __future__ import annotations

from math import prod

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.channels_last import ChannelsLast
from sardonyx.compiler.legalization.products import contracted
from sardonyx.compiler.legalization.ranges import bounds, fits
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import hint, product, same, same_shape
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.legalization.window import filled
from sardonyx_webgpu.routines.designs import designs_of_bytes

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
    matrices = contracted(equation)
    pays = legalizer.is_constant(equation.inputs[1]) or hint(matrices.m) >= ROWS
    if not isinstance(matrices.k, int) or not isinstance(matrices.n, int) or not matrices.work >= FEWEST or not pays:
        return False
    a, b = matrices.operands([product(matrices.batch)])
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
    result = legalizer.record(own.MATMUL_INT8, operands, params, dtypes.int32, (batch, m, n))
    if signed and a.dtype is dtypes.uint8:
        result = result + 128 * p.sum_(moved, [1], keepdims=True)
    if moved is not wide:
        result = result + 128 * p.sum_(p.cast(a, dtypes.int32), [2], keepdims=True)
    return result


def pointwise(legalizer: ChannelsLast, equation: Equation) -> bool:
    """conv_general of bytes that looks at one place -> matmul_int8"""
    x, w = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    ones = prod([*map(int, w.shape[2:]), *params["strides"], *params["spread"], params["groups"]]) == 1
    if not ones or output.dtype is not dtypes.int32 or not same_shape(x.shape[2:], output.shape[2:]):
        return False
    if any(not same(border, 0) for border in params["low"]) or not legalizer.is_constant(w):
        return False
    if not (w.dtype.is_int and fits(bounds(w), dtypes.int8)) or (uncentred := _uncentred(x)) is None:
        return False
    image, zero = legalizer.last(uncentred[0]), uncentred[1]
    maps, channels = map(int, w.shape[:2])
    matrix = p.reshape(p.transpose(p.reshape(w, [maps, channels]), [1, 0]), [1, channels, maps])
    rows = p.reshape(image, [1, product(image.shape[:-1]), channels])
    total = matmul(legalizer, rows, p.cast(matrix, dtypes.int8))
    if zero is not None:
        total = total - zero * p.sum_(p.cast(matrix, dtypes.int32), [1], keepdims=True)
    legalizer.define_last(output, p.reshape(total, [*image.shape[:-1], maps]))
    return True


def _uncentred(x: Array) -> tuple[Array, Array | None] | None:
    """The bytes and the one zero point, if any, of which an Array of int32 is the difference."""
    x = _as_it_was(x)
    if x.equation is None:
        return None
    name, inputs = x.equation.primitive.name, x.equation.inputs
    if name == "cast" and inputs[0].dtype in _BYTES:
        return inputs[0], None
    if name != "elementwise" or x.equation.params["function"] != "sub":
        return None
    centred, zero = inputs
    inner = _uncentred(centred)
    one = isinstance(zero.size, int) and zero.size == 1 and same_shape(centred.shape, x.shape)
    return (inner[0], p.reshape(zero, ())) if inner is not None and inner[1] is None and one else None


def _as_it_was(x: Array) -> Array:
    """An Array before it was transposed forth and back, as images are."""
    perms = []
    at = x
    while at.equation is not None and at.equation.primitive.name == "transpose":
        perms.append(at.equation.params["perm"])
        (at,) = at.equation.inputs
    return at if len(perms) == 2 and [perms[1][axis] for axis in perms[0]] == [*range(x.rank)] else x


def _as_words(b: Array) -> Array:
    """[B, K, N] -> [B, K / 4, N] words of four bytes, the first one in the lowest bits; both filled up to fours."""
    wide = filled(filled(b, 1), 2)
    batch, depth, n = wide.shape
    parts = p.reshape(p.cast(wide, dtypes.uint32) & 255, [batch, int(depth) // 4, 4, n])
    return p.sum_(p.shift_left(parts, constant(np.arange(0, 32, 8)[:, None], dtypes.uint32)), [2])
