"""The primitive that couples probabilities of pairs.

Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", 2004, second method, with
libsvm's iteration, whose result depends on when it stops: each row stops by itself.
"""

from __future__ import annotations

import numpy as np

from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values

MOST_ROUNDS = 100


def tolerance(count: int) -> float:
    """How far from their mean the slopes of so many probabilities may be in the end."""
    return 0.005 / count


class Coupling(Primitive):
    """The probabilities x [rows, classes] that make x'Qx smallest, for Q of floats [rows, classes, classes]."""

    name = "coupling"

    def infer(self, q: Array) -> Types:
        return [(q.dtype, q.shape[:2])]

    def numpy(self, q: np.ndarray) -> Values:
        rows, count = q.shape[:2]
        x = np.full((rows, count), 1.0 / max(1, count), q.dtype)
        open_rows = np.arange(rows if count else 0)
        with np.errstate(all="ignore"):
            for _ in range(MOST_ROUNDS):
                slope = (q[open_rows] * x[open_rows, None]).sum(2)
                level = (x[open_rows] * slope).sum(1)
                is_open = np.abs(slope - level[:, None]).max(1, initial=0) >= tolerance(count)
                open_rows, level = open_rows[is_open], level[is_open]
                if not open_rows.size:
                    break
                x[open_rows] = _improved(q[open_rows], x[open_rows], level)
        return [x]


def _improved(q: np.ndarray, x: np.ndarray, level: np.ndarray) -> np.ndarray:
    """One round: each probability in turn is set to its best, and all are scaled to the sum 1."""
    for k in range(x.shape[1]):
        own, slope = q[:, k, k], (q[:, k] * x).sum(1)
        step = (level - slope) / own
        scale = 1 + step
        level = (level + step * (step * own + 2 * slope)) / scale / scale
        x[:, k] += step
        x = x / scale[:, None]
    return x


COUPLING = primitive(Coupling)


def coupling(q: Array) -> Array:
    """The probabilities [rows, classes] that `Coupling` finds for Q [rows, classes, classes]."""
    return bind(COUPLING, q)[0]
