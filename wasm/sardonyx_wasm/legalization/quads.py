"""Matrices of bytes on their way to `matmul_quads`, and what those lack.

Hosts add the products of two neighbours in 16 bits, so two elements in a column may add up to 128 at most. The second
of those that have more gives the rest, and so does what does not fit int8. Trained weights have few such elements, and
they stand in a list of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.ranges import fits, integers
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.evaluation import Columns, columns_of

from .. import primitives as own

MOST = 1 / 100
"""The part of a matrix that may be in the list: its elements are taken one by one."""
_DEEPEST, _LARGEST = 1 << 16, 1 << 11  # what the words of the list hold
BLOCK = 1 << 18
"""Elements that are looked at in one go: they stay in the cache."""
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
    read = columns_of(w)
    listed = None if read is None else further(read, [int(size) for size in w.shape])
    if listed is None:
        return None
    narrow = p.cast(w if fits(numbers, dtypes.int8) else p.minimum(p.maximum(w, -128), 127), dtypes.int8)
    (*outer, depth, columns), zeros = w.shape, [0] * (w.rank - 2)
    panels, quads = -(-int(columns) // _WIDTH), -(-int(depth) // 4)
    whole = p.pad(narrow, [0] * w.rank, [*zeros, 4 * quads - depth, panels * _WIDTH - columns])
    split = p.reshape(_narrowed(whole), [*outer, quads, 4, panels, _WIDTH])
    first = len(outer)
    laid = p.transpose(split, [*range(first), first + 2, first, first + 3, first + 1])
    sums = p.sum_(p.cast(laid, dtypes.int32), [first + 1, first + 3])
    starts, elements = (constant(array, dtypes.int32) for array in listed)
    return Quads(laid, p.reshape(sums, [*outer, panels * _WIDTH]), starts, elements)


def _narrowed(w: Array) -> Array:
    """int8 [..., K, N], K even, of which two neighbours in a column add up to no more than hosts bear."""
    *outer, depth, columns = w.shape
    pairs = p.cast(p.reshape(w, [*outer, depth // 2, 2, columns]), dtypes.int16)
    one = p.absolute(p.slice_axis(pairs, len(outer) + 1, 0, 1))
    most = _PAIR - one * constant([[0], [1]], dtypes.int16)
    return p.reshape(p.cast(p.minimum(p.maximum(pairs, -most), most), dtypes.int8), w.shape)


def further(read: Columns, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray] | None:
    """What `in_quads` leaves out of matrices [..., K, N]: where the elements of each panel begin, and of the end, and
    the elements, each the row in 16 bits, the column of the panel in 4, and the number. None where there are too many.

    >>> w = np.zeros((200, 17), int)
    >>> w[6:8, 5], w[9, 16] = (100, 30), 200
    >>> starts, elements = further(lambda begin, end: w[:, begin:end], w.shape)
    >>> starts.tolist(), [(word & 0xFFFF, word >> 16 & 15, word >> 20) for word in elements.tolist()]
    ([0, 1, 2], [(7, 5, 2), (9, 0, 73)])
    """
    *outer, depth, columns = shape
    most, found = MOST * prod(shape), 0
    panels, count = -(-columns // _WIDTH), prod(outer)
    step = max(1, BLOCK // max(1, count * depth * _WIDTH)) * _WIDTH
    parts = [np.zeros((4, 0), np.int64)]
    for begin in range(0, columns, step):
        matrix, row, column, number = _left(read(begin, begin + step).reshape(count, depth, -1))
        parts.append(np.stack([matrix * panels + (begin + column) // _WIDTH, row, column % _WIDTH, number]))
        found += len(number)
        if found > most:
            return None
    place, row, column, number = np.concatenate(parts, axis=1)
    order = np.argsort(place, kind="stable")
    words = (row | column << 16 | number << 20)[order]
    starts = np.searchsorted(place[order], np.arange(count * panels + 1))
    return starts.astype(np.int32), words.astype(np.int32)


def _left(w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What two neighbours of matrices [B, K, N] have beyond what hosts bear: matrices, rows, columns and numbers."""
    w = np.pad(w, [(0, 0), (0, 1), (0, 0)]) if w.shape[1] % 2 else np.ascontiguousarray(w)
    if w.dtype != np.int8:
        w = w.astype(np.int32)
    narrow = w if w.dtype == np.int8 else np.clip(w, -128, 127).astype(np.int8)
    sizes = np.abs(narrow).view(np.uint8)  # 128 is a size, too
    over = sizes[:, ::2] > _PAIR - sizes[:, 1::2]
    if narrow is not w:
        beyond = narrow != w
        over |= beyond[:, ::2] | beyond[:, 1::2]
    matrix, row, column = np.unravel_index(np.flatnonzero(over), over.shape)
    pairs = w.reshape(len(w), -1, 2, w.shape[2])[matrix, row, :, column].astype(np.int64)
    kept = np.clip(pairs, -128, 127)
    most = _PAIR - np.abs(kept[:, 0])
    kept[:, 1] = np.clip(kept[:, 1], -most, most)
    left = pairs - kept
    one, second = np.nonzero(left)
    return matrix[one], 2 * row[one] + second, column[one], left[one, second]
