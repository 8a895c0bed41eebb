"""Legalization of products of floats."""

from __future__ import annotations

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation
from sardonyx.legalization.channels_last import ChannelsLast
from sardonyx.legalization.products import contraction
from sardonyx.symbolic import hint, product
from sardonyx_webgpu import primitives as own

FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""


def dot_general(legalizer: ChannelsLast, equation: Equation) -> bool:
    """dot_general of floats -> matmul"""
    (output,) = equation.outputs
    found = contraction(equation)
    if found is None or not found.work >= FEWEST or found.is_sums:  # fusion joins sums with what surrounds them
        return False
    legalizer.define_reshaped(output, matmul(legalizer, *found.operands([product(found.batch)]), output.dtype))
    return True


def matmul(legalizer: ChannelsLast, a: Array, b: Array, dtype: dtypes.DType) -> Array:
    """The product of two stacks of matrices."""
    shape = (*a.shape[:-1], b.shape[-1])
    params = {"tile": tile(hint(a.shape[-2]), hint(b.shape[-1]))}
    made = legalizer.record(own.MATMUL, [a, b], params, dtypes.float32, shape)
    return p.cast(made, dtype)


def tile(rows: int, columns: int) -> tuple[int, int]:
    """Rows, and fours of columns, that a thread makes of a product."""
    return min(8, 1 << (rows - 1).bit_length()), 2 if columns > 4 else 1
