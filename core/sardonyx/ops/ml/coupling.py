"""Probabilities of classes from those of each class against each other.

Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", 2004, second method, with
libsvm's iteration, whose result depends on when it stops: each row stops by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.array import Array, constant

MOST_ROUNDS = 100


def coupled(chances: Array, pairs: Sequence[tuple[int, int]], count: int) -> Array:
    """Probabilities [rows, classes] from those of the first class of each pair [rows, pairs]."""
    q = quadratic(chances, pairs, count)
    start = p.full((chances.shape[0], count), 1.0 / count, chances.dtype)
    trips, going = constant(np.int64(MOST_ROUNDS)), constant(np.bool_(True))

    def round_(number: Array, going: Array, x: Array) -> list[Array]:
        slope = p.sum_(q * p.unsqueeze(x, [1]), [2])
        level = p.sum_(x * slope, [1], keepdims=True)
        error = p.max_(p.absolute(slope - level), [1], keepdims=True)
        open_ = error >= 0.005 / count
        return [p.reduce(open_, "any"), p.where(open_, improved(q, x, slope, level), x)]

    return p.loop(trips, going, [start], round_)[0]


def quadratic(chances: Array, pairs: Sequence[tuple[int, int]], count: int) -> Array:
    """The matrix Q [rows, classes, classes] whose form p'Qp the probabilities make smallest."""
    numbers = {pair: k for k, pair in enumerate(pairs)}
    places = np.array(
        [numbers.get((min(i, j), max(i, j)), 0) for i in range(count) for j in range(count)], np.int64
    ).reshape(count, count)
    above, same = np.triu(np.ones((count, count), bool), 1), np.eye(count, dtype=bool)
    given = p.gather(chances, [constant(places)], [1], 1)
    against = p.where(constant(above), 1.0 - given, given)  # [i, j]: the chance of j against i
    square = p.where(constant(same), 0.0, against * against)
    diagonal = p.sum_(square, [2], keepdims=True)
    return p.where(constant(same), diagonal, -given * (1.0 - given))


def improved(q: Array, x: Array, slope: Array, level: Array) -> Array:
    """One round: each probability in turn is set to its best, and all are scaled to the sum 1."""
    for k in range(int(x.shape[1])):
        row = p.squeeze(p.slice_axis(q, 1, k, 1), [1])
        own, down = p.slice_axis(row, 1, k, 1), p.slice_axis(slope, 1, k, 1)
        step = (level - down) / own
        scale = 1.0 + step
        moved = constant(np.arange(int(x.shape[1])) == k)
        level = (level + step * (step * own + 2.0 * down)) / scale / scale
        slope = (slope + step * row) / scale
        x = p.where(moved, x + step, x) / scale
    return x
