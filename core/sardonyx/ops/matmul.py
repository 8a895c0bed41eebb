"""Matrix products."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.lift import without
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array


class MatMul(Operator):
    """numpy.matmul: the matrix product over the last two axes, broadcast over the others."""

    def expand(self, a: Array, b: Array) -> Array:
        return p.matmul(a, b)

    samples = [
        sample((3, 4), (4, 5)),
        sample((2, 3, 4), (4, 5)),
        sample((2, 1, 3, 4), (5, 4, 2)),
        sample((3, 4), (2, 4, 5)),
        sample((4,), (4,)),
        sample((4,), (2, 4, 3)),
        sample((2, 3, 4), (4,)),
        sample((0, 4), (4, 2)),
        sample((2, 0), (0, 3)),
        sample(np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)),
    ]


class Gemm(Operator):
    """alpha * A B + beta * C, of which A and B may be transposed; C broadcasts to the product."""

    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0  # noqa: N815 - ONNX's name
    transB: int = 0  # noqa: N815

    def expand(self, a: Array, b: Array, c: Array | None = None) -> Array:
        if a.rank != 2 or b.rank != 2:
            raise ValueError(f"A {p.show(a.shape)} and B {p.show(b.shape)} are not both matrices")
        if c is not None and c.rank > 2:
            raise ValueError(f"C {p.show(c.shape)} does not broadcast to a matrix")
        result = _scaled(p.dot_general(a, b, ([0 if self.transA else 1], [1 if self.transB else 0])), self.alpha)
        return result if c is None else result + _scaled(c, self.beta)

    upgrades = {7: without("broadcast")}

    samples = [
        sample((3, 4), (4, 5), (5,)),
        sample((4, 3), (5, 4), (3, 1), transA=1, transB=1, alpha=0.5, beta=2.0),
        sample((3, 4), (4, 5)),
        sample((3, 4), (4, 5), (), beta=0.25),
        sample((3, 0), (0, 2), (3, 2)),
        sample(np.array([[1, 2]], np.int32), np.array([[3], [4]], np.int32), np.array([5], np.int32)),
    ]


def _scaled(x: Array, factor: float) -> Array:
    return x if factor == 1.0 else x * factor


def is_zero(parameter: Array) -> bool:
    """Whether a zero point is known to be 0."""
    return parameter.value is not None and not parameter.value.any()


class MatMulInteger(Operator, since=10):
    """(A - a_zero_point) (B - b_zero_point) of 8-bit integers in int32; zero points are one number, or one per row
    of A and column of B."""

    def expand(self, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
        if a.rank == 0 or b.rank == 0:
            raise ValueError(f"A {p.show(a.shape)} and B {p.show(b.shape)} are not both vectors, matrices or stacks")
        if a.rank == 1 or b.rank == 1:
            return self._of_vectors(a, b, a_zero, b_zero)
        result = p.matmul(a, b, dtypes.int32)
        row = None if a_zero is None or is_zero(a_zero) else _zero_point(a_zero, -1)
        column = None if b_zero is None or is_zero(b_zero) else _zero_point(b_zero, -2)
        if row is not None:
            result = result - row * p.sum_(p.cast(b, dtypes.int32), [-2], keepdims=True)
        if column is not None:
            result = result - p.sum_(p.cast(a, dtypes.int32), [-1], keepdims=True) * column
        if row is not None and column is not None:
            result = result + row * column * a.shape[-1]
        return result

    def _of_vectors(self, a: Array, b: Array, a_zero: Array | None, b_zero: Array | None) -> Array:
        """The product where A is a row, or B a column, whose axis is left out again."""
        rows = p.unsqueeze(a, [0]) if a.rank == 1 else a
        columns = p.unsqueeze(b, [1]) if b.rank == 1 else b
        result = self.expand(rows, columns, a_zero, b_zero)
        result = p.squeeze(result, [-1]) if b.rank == 1 else result
        return p.squeeze(result, [-1 if b.rank == 1 else -2]) if a.rank == 1 else result

    samples = [
        sample(np.array([1, 200, 7], np.uint8), np.array([[5, -6], [-7, 8], [1, 0]], np.int8), np.array(3, np.uint8)),
        sample(np.array([1, 200], np.uint8), np.array([5, 9], np.uint8), None, np.array(9, np.uint8)),
        sample(np.array([[1, 200], [3, 4]], np.uint8), np.array([[5, -6], [-7, 8]], np.int8)),
        sample(
            np.array([[11, 7, 3], [10, 6, 2]], np.uint8),
            np.array([[1, 4], [2, 5], [3, 6]], np.uint8),
            np.array(12, np.uint8),
            np.array(3, np.uint8),
        ),
        sample(
            np.array([[-128, 127, 3]], np.int8),
            np.array([[1, -4], [2, 5], [-3, 6]], np.int8),
            np.array(-12, np.int8),
            np.array([3, -3], np.int8),
        ),
    ]


def _zero_point(zero: Array, axis: int) -> Array:
    """int32, with an axis of size 1 where the product is summed: a vector has one zero point per row or column."""
    zero = p.cast(zero, dtypes.int32)
    return p.unsqueeze(zero, [axis]) if zero.rank == 1 else zero


class FusedMatMul(Operator, domain="com.microsoft"):
    """alpha * A B of stacks of matrices, after A's first axis is moved before its last one (`transBatchA`) and its
    last two axes are swapped (`transA`); B alike."""

    alpha: float = 1.0
    transA: int = 0  # noqa: N815 - onnxruntime's name
    transB: int = 0  # noqa: N815
    transBatchA: int = 0  # noqa: N815
    transBatchB: int = 0  # noqa: N815

    def expand(self, a: Array, b: Array) -> Array:
        a = _matrices(a, self.transA, self.transBatchA)
        b = _matrices(b, self.transB, self.transBatchB)
        return _scaled(p.matmul(a, b), self.alpha)

    samples = [
        sample((2, 3, 4), (2, 4, 5), alpha=0.5),
        sample((2, 4, 3), (2, 5, 4), transA=1, transB=1),
        sample((3, 2, 4), (2, 4, 5), transBatchA=1),
        sample((4, 2, 3), (4, 2, 5), transBatchA=1, transA=1, transBatchB=1),
        sample((4,), (4, 2), transA=1),
    ]


class TransposeMatMul(FusedMatMul, domain="com.microsoft"):
    """The older name of FusedMatMul."""

    samples = [sample((2, 4, 3), (2, 4, 5), transA=1, alpha=2.0)]


def _matrices(x: Array, swapped: int, rotated: int) -> Array:
    order = list(range(x.rank))
    if rotated and x.rank > 2:
        order.insert(x.rank - 2, order.pop(0))
    if swapped and x.rank > 1:
        order[-2:] = order[:-3:-1]
    return p.transpose(x, order)
