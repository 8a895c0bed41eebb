"""Probabilities of classes from those of each class against each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant


def coupled(chances: Array, pairs: Sequence[tuple[int, int]], count: int) -> Array:
    """Probabilities [rows, classes] from those of the first class of each pair [rows, pairs]."""
    return p.coupling(quadratic(chances, pairs, count))


def quadratic(chances: Array, pairs: Sequence[tuple[int, int]], count: int) -> Array:
    """The matrix Q [rows, classes, classes] whose form p'Qp the probabilities make smallest."""
    numbers = {pair: k for k, pair in enumerate(pairs)}
    places = np.array(
        [numbers.get((min(i, j), max(i, j)), 0) for i in range(count) for j in range(count)], np.int64
    ).reshape(count, count)
    above, same = np.triu(np.ones((count, count), bool), 1), np.eye(count, dtype=bool)
    pairwise = p.gather(chances, [constant(places)], [1], 1)
    against = p.where(constant(above), 1.0 - pairwise, pairwise)  # [i, j]: the chance of j against i
    square = p.where(constant(same), 0.0, against * against)
    diagonal = p.sum_(square, [2], keepdims=True)
    return p.where(constant(same), diagonal, -pairwise * (1.0 - pairwise))
