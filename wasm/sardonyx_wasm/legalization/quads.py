"""Matrices of bytes on their way to `matmul_quads`, and what those lack.

Hosts add the products of two neighbours in 16 bits, so two elements in a column may add up to 128 at most. The second
of those that have more gives the rest, and so does what does not fit int8. Trained weights have few such elements, and
they stand in a list of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.ranges import integers
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.evaluation import evaluate

from .. import primitives as own

MOST = 1 / 100
"""The part of a matrix that may be in the list: its elements are taken one by one."""
_DEEPEST, _LARGEST = 1 << 16, 1 << 11  # what the words of the list hold
_WIDTH, _PAIR = own.MATMUL_QUADS.width, own.MATMUL_QUADS.pair


class Quads(NamedTuple):
    """Operands of `matmul_quads` for one matrix or several."""

    panels: Array
    sums: Array
    starts: Array
    elements: Array


def in_quads(w: Array) -> Quads | None:
    """Constant matrices [..., K, N] of integers as `matmul_quads` wants them; None where it cannot or would be slow."""
    numbers = integers(w)
    if numbers is None or max(map(abs, numbers)) >= _LARGEST or w.shape[-2] >= _DEEPEST:
        return None
    values = evaluate(w)
    listed = None if values is None else further(values)
    if listed is None:
        return None
    (*outer, depth, columns), zeros = w.shape, [0] * (w.rank - 2)
    panels, quads = -(-int(columns) // _WIDTH), -(-int(depth) // 4)
    behind = [*zeros, 4 * quads - depth, panels * _WIDTH - columns]
    narrow = _narrowed(p.pad(p.cast(w, dtypes.int32), [0] * w.rank, behind))
    split = p.reshape(p.cast(narrow, dtypes.int8), [*outer, quads, 4, panels, _WIDTH])
    first = len(outer)
    order = [*range(first), first + 2, first, first + 3, first + 1]
    starts, elements = (constant(array, dtypes.int32) for array in listed)
    return Quads(p.transpose(split, order), p.reduce(narrow, "sum", [first]), starts, elements)


def _narrowed(w: Array) -> Array:
    """Integers [..., K, N], K even, of which two neighbours in a column add up to no more than hosts bear."""
    *outer, depth, columns = w.shape
    pairs = p.reshape(p.minimum(p.maximum(w, -128), 127), [*outer, depth // 2, 2, columns])
    one, other = (p.slice_axis(pairs, len(outer) + 1, k, 1) for k in range(2))
    size = p.absolute(other)
    over = p.maximum(p.absolute(one) + size - _PAIR, 0)
    return p.reshape(p.concat([one, p.sign(other) * (size - over)], len(outer) + 1), w.shape)


def further(w: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """What `in_quads` leaves out of matrices [..., K, N]: where the elements of each panel begin, and of the end, and
    the elements, each the row in 16 bits, the column of the panel in 4, and the number. None where there are too many.

    >>> w = np.zeros((200, 17), int)
    >>> w[6:8, 5], w[9, 16] = (100, 30), 200
    >>> starts, elements = further(w)
    >>> starts.tolist(), [(word & 0xFFFF, word >> 16 & 15, word >> 20) for word in elements.tolist()]
    ([0, 1, 2], [(7, 5, 2), (9, 0, 73)])
    """
    whole = w.astype(np.int32).reshape(-1, *w.shape[-2:])
    padded = np.pad(whole, [(0, 0), (0, -whole.shape[1] % 2), (0, 0)])
    kept = np.clip(padded, -128, 127)
    one, other = np.abs(kept[:, ::2]), kept[:, 1::2]
    other -= np.sign(other) * np.maximum(one + np.abs(other) - _PAIR, 0)
    left = (padded - kept)[:, : whole.shape[1]]
    if np.count_nonzero(left) > MOST * left.size:
        return None
    panels = -(-left.shape[2] // _WIDTH)
    matrix, row, column = np.nonzero(left)
    place = matrix * panels + column // _WIDTH
    order = np.argsort(place, kind="stable")
    numbers = left[matrix, row, column]
    words = (row | column % _WIDTH << 16 | numbers.astype(np.int64) << 20)[order]
    starts = np.searchsorted(place[order], np.arange(len(left) * panels + 1))
    return starts.astype(np.int32), words.astype(np.int32)
