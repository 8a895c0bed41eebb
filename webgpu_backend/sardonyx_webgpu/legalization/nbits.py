"""Legalization of products with dequantized weights: (number - zero point) * scale stays as small as it is stored."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.dequantized import Multiplied, multiplied
from sardonyx.compiler.legalization.ranges import bounds
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.legalization.window import filled
from sardonyx_webgpu.routines.designs import designs

FEWEST = 1 << 12
"""Matrices of fewer numbers become floats."""
CHUNKS = (32, 16, 8)
"""Numbers along K between two looks at scales: the first ones of which a block is a multiple."""


def dot_general(rewriter: Rewriter, equation: Equation) -> bool:
    """dot_general of floats and dequantized weights -> matmul_nbits"""
    (output,) = equation.outputs
    factors = multiplied(rewriter, equation)
    if factors is None or (result := matmul(rewriter, factors)) is None:
        return False
    rewriter.define_reshaped(output, p.cast(result, output.dtype))
    return True


def matmul(rewriter: Rewriter, factors: Multiplied) -> Array | None:
    """The product, None where `matmul_nbits` cannot do it."""
    a, weights, rows, columns = factors
    inner = factors.inner()
    depth, n, block = factors.depth, factors.width, prod(int(weights.numbers.shape[axis]) for axis in inner)
    chunk = CHUNKS[0] if block == depth else next((size for size in CHUNKS if block % size == 0), 0)
    low, high = bounds(weights.numbers)
    least, most = bounds(weights.zeros)
    if not chunk or depth * n < FEWEST or high - low > 255 or least < low or most - low > 255:
        return None
    bits = next(bits for bits in (2, 4, 8) if high - low < 1 << bits and chunk % (32 // bits) == 0)
    padded = depth + -depth % chunk
    numbers = weights.matrix(p.cast(weights.numbers, dtypes.int32) - low, rows, columns)
    scales = _narrow(weights.scales)
    if scales.value is not None and scales.value.size == 1:  # a number is part of code, which then has no buffer
        scales = constant(np.full((1, n), scales.value.reshape(()), scales.value.dtype), scales.dtype)
    else:
        scales = weights.matrix(scales, rows, columns, inner)
    zero = _number(weights.zeros)
    zeros = [] if zero is not None else [_zeros(factors, inner, low)]
    operands = [_as_words(p.pad(numbers, [0, 0], [padded - depth, 0]), bits), scales, *zeros]
    params: dict[str, Any] = {
        "bits": bits,
        "chunk": chunk,
        "repeat": 0 if block == depth else block // chunk,
        "zero": None if zero is None else zero - low,
        "guarded": padded != depth,
        **designs(1, a.shape[0], depth, n),
    }
    a = p.unsqueeze(a, [0])
    result = rewriter.record(
        own.MATMUL_NBITS, [a, *(filled(x, 1) for x in operands)], params, dtypes.float32, (1, a.shape[1], n)
    )
    return p.reshape(result, result.shape[1:])


def _zeros(factors: Multiplied, inner: list[int], low: int) -> Array:
    zeros = p.cast(p.cast(factors.weights.zeros, dtypes.int32) - low, dtypes.uint8)
    return factors.weights.matrix(zeros, factors.rows, factors.columns, inner)


def _narrow(scales: Array) -> Array:
    """Scales as they are stored, of 16 or 32 bits."""
    while scales.equation is not None and scales.equation.primitive.name == "cast":
        (before,) = scales.equation.inputs
        if not before.dtype.is_float or before.dtype.bits < 16 or before.dtype.bits > scales.dtype.bits:
            break
        scales = before
    return scales if scales.dtype.bits <= 32 else p.cast(scales, dtypes.float32)


def _number(zeros: Array) -> int | None:
    """The zero point that all weights have, if that is known."""
    if zeros.value is None or not zeros.value.size or (zeros.value != zeros.value.flat[0]).any():
        return None
    return int(zeros.value.flat[0])


def _as_words(numbers: Array, bits: int) -> Array:
    """[K, N] -> [K / P, N] words of P numbers of so many bits, the first one in the lowest bits."""
    depth, n = numbers.shape
    count = 32 // bits
    parts = p.reshape(p.cast(numbers, dtypes.uint32), [int(depth) // count, count, n])
    shifts = constant(np.arange(0, 32, bits)[:, None], dtypes.uint32)
    return p.sum_(p.shift_left(parts, shifts), [1])
