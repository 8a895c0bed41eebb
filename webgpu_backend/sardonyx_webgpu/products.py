"""Legalization of products of floats."""

from __future__ import annotations

from math import prod

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation
from sardonyx.legalization.channels_last import ChannelsLast, are_floats
from sardonyx.symbolic import hint, product
from sardonyx_webgpu import primitives as own

FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""


def dot_general(legalizer: ChannelsLast, equation: Equation) -> bool:
    """dot_general of floats -> matmul"""
    a, b = equation.inputs
    (output,) = equation.outputs
    if not (are_floats(a, b) and equation.params["dtype"].is_float):
        return False
    left, right = ([*sides] for sides in equation.params["batch"])
    contract = equation.params["contract"]
    rows = [axis for axis in range(a.rank) if axis not in (*left, *contract[0])]
    columns = [axis for axis in range(b.rank) if axis not in (*right, *contract[1])]
    depth = [a.shape[axis] for axis in contract[0]]
    sizes = [hint(product([x.shape[k] for k in axes])) for x, axes in ((a, left), (a, rows), (b, columns))]
    if prod(sizes) * hint(product(depth)) < FEWEST or 0 in sizes:
        return False
    batch = product([a.shape[axis] for axis in left])
    m, n = (product([x.shape[axis] for axis in axes]) for x, axes in ((a, rows), (b, columns)))
    if isinstance(n, int) and n == 1 and contract[0] == (a.rank - 1,):
        return False  # sums along lines, which fusion joins with what surrounds them
    k = product(depth)
    first = p.reshape(p.transpose(a, [*left, *rows, *contract[0]]), [batch, m, k])
    second = p.reshape(p.transpose(b, [*right, *contract[1], *columns]), [batch, k, n])
    legalizer.define_reshaped(output, matmul(legalizer, first, second, output.dtype))
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
