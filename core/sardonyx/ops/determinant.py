"""Determinants."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.control import loop
from sardonyx.sizes.symbolic import product


class Det(Operator, since=11):
    """The determinants [...] of matrices [..., M, M], by elimination with the largest pivot of each column."""

    def expand(self, x: Array) -> Array:
        if x.rank < 2 or not x.shape[-2] == x.shape[-1]:
            raise ValueError(f"the operand is {p.show(x.shape)}, but square matrices are needed")
        size, outer = x.shape[-1], x.shape[:-2]
        matrices = p.reshape(p.widen(x), (product(outer), size, size))
        batch = p.iota((matrices.shape[0], 1), 0)
        places = p.iota((1, size), 1)

        def eliminate(k: Array, going: Array, reduced: Array, det: Array) -> list[Array]:
            column = p.gather(reduced, [k], [2], 1)
            pivot = p.unsqueeze(p.arg(p.where(places < k, -1, p.absolute(column)), "argmax", 1), [1])
            swapped = p.where(p.equal(places, pivot), k, p.where(p.equal(places, k), pivot, places))
            rows = p.gather(reduced, [batch, swapped], [0, 1])
            row, column = p.gather(rows, [k], [1], 1), p.gather(rows, [k], [2], 1)
            divisor = p.gather(row, [k], [1], 1)
            factor = p.where(places > k, column / p.unsqueeze(p.where(p.equal(divisor, 0), 1, divisor), [1]), 0)
            rest = rows - p.unsqueeze(factor, [2]) * p.unsqueeze(row, [1])
            same = p.equal(p.squeeze(pivot, [1]), k)
            return [constant(True), rest, det * p.where(same, divisor, -divisor)]

        ones = p.full((matrices.shape[0],), 1, matrices.dtype)
        _, det = loop(p.literal(size, dtypes.int64), None, [matrices, ones], eliminate)
        return p.cast(p.reshape(det, outer), x.dtype)

    samples = [
        sample((3, 4, 4)),
        sample((2, 2)),
        sample((2, 1, 5, 5)),
        sample(np.array([[0, 1], [2, 3]], np.float64)),
        sample(np.ones((1, 3, 3), np.float32)),
        sample(np.zeros((0, 3, 3), np.float32)),
        sample((1, 1)),
    ]
