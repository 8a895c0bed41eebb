"""Legalization of products of floats: constant matrices are put into panels, in the order in which tiles read them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.compiler.legalization.products import contracted
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import Size, hint, product

from .. import primitives as own
from ..device import blas
from .legalizer import Legalizer

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
"""What routines compute with: float64 as it is, the others in float32."""
FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""


def dot_general(legalizer: Legalizer, equation: Equation) -> bool:
    """dot_general of floats -> matmul, matmul_packed or matmul_panels"""
    (output,) = equation.outputs
    if not all(x.dtype in FLOATS for x in (*equation.inputs, output)):
        return False
    matrices = contracted(equation)
    if not matrices.work >= FEWEST:
        return False
    if matrices.is_sums and matrices.work < blas.FEWEST:
        return False  # fusion joins them with what surrounds them
    legalizer.define_reshaped(output, matmul(legalizer, *matrices.operands(matrices.batch), output.dtype))
    return True


def precision(dtype: DType) -> DType:
    """The type in which routines compute floats of a type."""
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


def matmul(legalizer: Legalizer, a: Array, b: Array, dtype: DType) -> Array:
    """The product of two matrices, or of stacks of them."""
    taken = precision(dtype)
    a, b = p.cast(a, taken), p.cast(b, taken)
    shape = (*a.shape[:-1], b.shape[-1])
    is_own = b.rank == 2 and _stays(legalizer, a.shape[:-1], b)
    nr = legalizer.width(taken) if is_own else panel_width(legalizer, a.shape[:-1], b) if b.rank == 2 else 0
    if nr:
        routine = own.MATMUL_PACKED if is_own else own.MATMUL_PANELS
        result = legalizer.record(routine, [a, in_panels(b, nr)], {"n": shape[-1], "nr": nr}, taken, shape)
    else:
        result = legalizer.record(own.MATMUL, [a, b], {}, taken, shape)
    return p.cast(result, dtype)


def panel_width(legalizer: Legalizer, rows: Sequence[Size], b: Array) -> int:
    """Columns of the panels in which a product wants its right side, 0 for as it is. BLAS wants those of large ones."""
    known = _constant_sizes(legalizer, b)
    if known is None:
        return 0
    if legalizer.target == "v8":
        return legalizer.width(b.dtype)
    count = hint(product(rows))
    return blas.panel_width(*known, count, b.dtype.itemsize) if count * prod(known) >= blas.FEWEST else 0


def _stays(legalizer: Legalizer, rows: Sequence[Size], b: Array) -> bool:
    """Whether a product is the module's in any case: V8's are, and those for which a loop is not worth leaving."""
    known = _constant_sizes(legalizer, b)
    if known is None or legalizer.target == "v8":
        return known is not None
    work = hint(product(rows)) * prod(known)
    return legalizer.trace.repeated and blas.FEWEST <= work < blas.fewest_multiplications(True)


def _constant_sizes(legalizer: Legalizer, b: Array) -> tuple[int, int] | None:
    """The depth and the columns of a matrix that is constant."""
    depth, columns = b.shape
    is_known = isinstance(depth, int) and isinstance(columns, int) and legalizer.is_constant(b)
    return (int(depth), int(columns)) if is_known else None


def in_panels(b: Array, nr: int) -> Array:
    """Matrices [..., K, N] as [..., ceil(N / nr), K, nr], the last panel filled up with zeros."""
    *outer, k, n = b.shape
    panels = -(-int(n) // nr)
    zeros = [0] * len(outer)
    wide = p.pad(b, [*zeros, 0, 0], [*zeros, 0, panels * nr - int(n)])
    axes = [*range(len(outer)), len(outer) + 1, len(outer), len(outer) + 2]
    return p.transpose(p.reshape(wide, [*outer, k, panels, nr]), axes)


def in_pairs(b: Array) -> Array:
    """Matrices [..., K, N] as `matmul_int8` wants them, [..., panels, K / 2, width, 2], filled up with zeros."""
    *batch, k, n = b.shape
    width = own.MATMUL_INT8.width(n)
    half, panels, outer, zeros = (k + 1) // 2, (n + width - 1) // width, len(batch), [0] * len(batch)
    wide = p.pad(b, [*zeros, 0, 0], [*zeros, 2 * half - k, panels * width - n])
    pairs = p.reshape(wide, [*batch, half, 2, panels, width])
    return p.transpose(pairs, [*range(outer), outer + 2, outer, outer + 3, outer + 1])
