"""Products, inverses and distances of matrices that onnxruntime has beside ONNX."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.control import loop
from sardonyx.sizes.symbolic import product

MICROSOFT = "com.microsoft"


class CDist(Operator, domain=MICROSOFT):
    """Distances [M, K] between the rows of A [M, N] and those of B [K, N]: `euclidean`, or their squares.

    They are taken from norms and products, |a|^2 - 2 a b + |b|^2, and never below 0.
    """

    metric: str = "sqeuclidean"

    def expand(self, a: Array, b: Array) -> Array:
        if self.metric not in ("euclidean", "sqeuclidean"):
            raise ValueError(f"metric {self.metric!r} is not supported; use euclidean or sqeuclidean")
        if a.rank != 2 or b.rank != 2:
            raise ValueError(f"A {p.show(a.shape)} and B {p.show(b.shape)} are not both matrices")
        norms = p.sum_(a * a, [1], keepdims=True) + p.reshape(p.sum_(b * b, [1]), (1, b.shape[0]))
        squares = p.maximum(norms - 2.0 * p.dot_general(a, b, ([1], [1])), 0.0)
        return p.sqrt(squares) if self.metric == "euclidean" else squares

    samples = [
        sample((3, 4), (5, 4)),
        sample((3, 4), (2, 4), metric="euclidean"),
        sample(np.array([[1.0, 2.0]]), np.array([[4.0, -2.0]]), metric="euclidean"),
        sample((0, 3), (2, 3)),
    ]


class Inverse(Operator, domain=MICROSOFT):
    """The inverses of matrices [..., M, M], by elimination with the largest pivot of each column (Gauss and Jordan)."""

    def expand(self, x: Array) -> Array:
        if x.rank < 2 or not x.shape[-2] == x.shape[-1]:
            raise ValueError(f"the operand is {p.show(x.shape)}, but square matrices are needed")
        size, outer = x.shape[-1], x.shape[:-2]
        matrices = p.reshape(p.widen(x), (product(outer), size, size))
        count = matrices.shape[0]
        batch, places = p.iota((count, 1), 0), p.iota((1, size), 1)
        unit = p.cast(p.equal(p.iota((1, size, 1), 1), p.iota((1, 1, size), 2)), matrices.dtype)
        both = p.concat([matrices, p.broadcast_to(unit, matrices.shape)], 2)

        def eliminate(k: Array, going: Array, reduced: Array) -> list[Array]:
            column = p.gather(reduced, [k], [2], 1)
            pivot = p.unsqueeze(p.arg(p.where(places < k, -1, p.absolute(column)), "argmax", 1), [1])
            swapped = p.where(p.equal(places, pivot), k, p.where(p.equal(places, k), pivot, places))
            rows = p.gather(reduced, [batch, swapped], [0, 1])
            row, column = p.gather(rows, [k], [1], 1), p.gather(rows, [k], [2], 1)
            row = row / p.unsqueeze(p.gather(row, [k], [1], 1), [1])
            here = p.unsqueeze(p.equal(places, k), [2])
            rest = rows - p.unsqueeze(column, [2]) * p.unsqueeze(row, [1])
            return [constant(True), p.where(here, p.unsqueeze(row, [1]), rest)]

        (done,) = loop(p.literal(size, dtypes.int64), None, [both], eliminate)
        return p.cast(p.reshape(p.slice_axis(done, 2, size, size), x.shape), x.dtype)

    samples = [
        sample((3, 4, 4), tolerance=1e-4),
        sample((2, 2)),
        sample(np.array([[0, 1], [2, 3]], np.float64)),
        sample((1, 1)),
        sample(np.zeros((0, 3, 3), np.float32)),
    ]


class MatMulInteger16(Operator, domain=MICROSOFT):
    """numpy.matmul of integers of 16 bits, in uint32 if neither has a sign, else in int32; sums wrap."""

    def expand(self, a: Array, b: Array) -> Array:
        unsigned = a.dtype.kind == b.dtype.kind == "uint"
        return p.matmul(a, b, dtypes.uint32 if unsigned else dtypes.int32)

    samples = [
        sample(np.array([[1, -300], [32767, 4]], np.int16), np.array([[5, -6], [-32768, 8]], np.int16)),
        sample(np.array([1, 2, 3], np.int16), np.ones((2, 3, 1), np.int16)),
    ]


class SparseToDenseMatMul(Operator, domain=MICROSOFT):
    """alpha * A B of a sparse matrix A, which is made dense, and a matrix B; `transA` and `transB` transpose them.

    alpha multiplies floats alone.
    """

    alpha: float = 1.0
    transA: int = 0  # noqa: N815 - onnxruntime's name
    transB: int = 0  # noqa: N815

    def expand(self, a: Array, b: Array) -> Array:
        if a.rank != 2 or b.rank != 2:
            raise ValueError(f"A {p.show(a.shape)} and B {p.show(b.shape)} are not both matrices")
        result = p.dot_general(a, b, ([0 if self.transA else 1], [1 if self.transB else 0]))
        return result * self.alpha if self.alpha != 1.0 and result.dtype.is_float else result
