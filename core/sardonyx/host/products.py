"""numpy.matmul, large ones divided among the threads of the session that runs.

A part of a product has the bits that it has in the whole only where BLAS would have begun anew anyway. `grain` knows
where OpenBLAS does; `python -m pytest tests/engine/test_grains.py` tries it for all code that a processor can run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from sardonyx.common import threads
from sardonyx.common.crew import Crew
from sardonyx.common.record import record
from sardonyx.common.scoped import Scoped

SHARE = 1 << 22
"""Multiplications that a thread should have: it takes a few thousand of them to wake it."""
LEAST = 1 << 20
"""Multiplications that a part of a product has at least: OpenBLAS has other code for those of up to 100 ** 3."""
PACKED = 12
"""Multiplications that take as long as putting one element into the order in which BLAS reads it."""
FEW = 3
"""Rows that are multiplied sooner one by one, since BLAS puts no matrix into an order of its own for a vector."""


@record(frozen=True)
class Grain:
    """Where products may be divided; no part has fewer rows, or fewer columns."""

    rows: int
    """At multiples of so many rows,"""
    columns: int
    """or of so many columns; 0 for nowhere."""
    rest: int
    """Rows behind such a multiple from which on there is nowhere between columns."""
    small: int
    """Multiplications up to which BLAS has other code."""
    is_free: bool = False
    """Whether all columns are summed in one way, wherever a product ends."""

    def across(self, rows: int) -> int:
        """At multiples of how many columns a product of so many rows may be divided."""
        return self.columns if rows % self.rows < self.rest else 0


_SKYLAKE = Grain(16, 16, 16, 10**6, is_free=True)
# OpenBLAS does 320 columns at a time while 640 are left, and the last ones of them in another way. Of the first 320 it
# takes 12 rows together, or 8; of the others 24 and 12. Other code takes 4, 8, 12, 16 or 24 rows.
_HASWELL = Grain(12, 320, 8, 0)
_ANY = Grain(24, 0, 0, 10**6)
_GRAINS = {
    **dict.fromkeys(("skylakex", "cooperlake", "sapphirerapids"), _SKYLAKE),
    **dict.fromkeys(("haswell", "zen"), _HASWELL),
}
EXACT = Grain(16, 16, 16, 0, is_free=True)
"""The same of sums that are not rounded."""


@cache
def grain(itemsize: int = 4) -> Grain:
    """Where the BLAS that NumPy has lets products be divided, of floats of 4 bytes, or of 8; of another than OpenBLAS
    that is a guess."""
    return _ANY if itemsize == 8 else _GRAINS.get(threads.corename(), _ANY)


def one_by_one(rows: int, depth: int, columns: int) -> bool:
    """Whether the rows of a product are to be given to BLAS one by one."""
    is_small = grain(4) is _SKYLAKE and rows * depth * columns <= _SKYLAKE.small
    return 1 < rows <= FEW and columns > 1 and not is_small


def cuts(size: int, count: int, grain: int) -> tuple[int, ...]:
    """Where at most so many parts of about equal size end: multiples of `grain`, which no part is smaller than.

    >>> cuts(100, 3, 12), cuts(700, 2, 320), cuts(25, 4, 24), cuts(100, 2, 0)
    ((36, 72, 100), (320, 700), (25,), (100,))
    """
    if not grain:
        return (size,)
    near = {(2 * size * k + count * grain) // (2 * count * grain) * grain for k in range(1, count)}
    return (*sorted(end for end in near if 0 < end <= size - grain), size)


def cost(ends: Sequence[int], each: int = 1) -> float:
    """How long the largest part takes that ends there, as a share of the whole, if each reads all of the other side.

    Ends are in units of `each` rows or columns.
    """
    largest = max(last - first for first, last in pairwise((0, *ends)))
    return (largest * each + PACKED) / max(1, ends[-1] * each)


_active = Scoped[Crew]()
"""Who shares the products of a thread."""


class shared:  # noqa: N801  # a context manager without a generator, since every run enters one
    """Within the block, BLAS has one thread, and a crew shares the large products of this thread."""

    __slots__ = ("_blas", "_within")

    def __init__(self, crew: Crew | None) -> None:
        self._blas = threads.OneThread()
        self._within = _active.within(crew)

    def __enter__(self) -> None:
        self._within.__enter__()
        self._blas.__enter__()

    def __exit__(self, *_: object) -> None:
        self._blas.__exit__()
        self._within.__exit__()


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """numpy.matmul of two arrays of two axes or more.

    >>> matmul(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    crew = _active.value
    rows, columns = a.shape[-2], b.shape[-1]
    if one_by_one(rows, a.shape[-1], columns):
        made = matmul(a[..., None, :], b[..., None, :, :], None if out is None else out[..., None, :])
        return made[..., 0, :] if out is None else out
    shares = 0 if crew is None else min(crew.size, max(a.size * columns, b.size * rows) // SHARE)
    if crew is None or shares < 2:
        return np.matmul(a, b, out=out)
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    axis = next((k - len(outer) - 2 for k, n in enumerate(outer) if n >= shares and n % shares == 0), 0)
    if axis:
        size = outer[axis + 2]
        ends: tuple[int, ...] = (*(size * k // shares for k in range(1, shares)), size)
    else:
        axis, ends = _cut(a, b, shares)
    if len(ends) == 1:
        return np.matmul(a, b, out=out)
    made = np.empty((*outer, rows, columns), np.result_type(a, b)) if out is None else out

    def part(share: int, count: int) -> None:
        if count == 1:
            np.matmul(a, b, out=made)
        else:
            _part(a, b, made, axis, slice(ends[share - 1] if share else 0, ends[share]))

    crew.run(part, len(ends))
    return made


def _cut(a: np.ndarray, b: np.ndarray, shares: int) -> tuple[int, tuple[int, ...]]:
    """Rows or columns, and where parts of them end that have the bits of the whole.

    A product by a vector has others.
    """
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    whole = -2, (rows,)
    taken = np.result_type(a, b)
    if min(rows, columns) < 2 or taken not in (np.float32, np.float64) or is_square(a, b):
        return whole
    known = grain(taken.itemsize)
    choices = (-2, cuts(rows, shares, known.rows)), (-1, cuts(columns, shares, known.across(rows)))
    axis, ends = min(choices, key=lambda choice: cost(choice[1]))
    smallest = min(last - first for first, last in pairwise((0, *ends)))
    return (axis, ends) if cost(ends) < 1 and smallest * (rows * columns * depth // ends[-1]) >= LEAST else whole


def is_square(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether operands begin at one place: NumPy multiplies a matrix by its transpose in another way."""
    first, second = (int(array.__array_interface__["data"][0]) for array in (a, b))
    return first == second


def _part(a: np.ndarray, b: np.ndarray, out: np.ndarray, axis: int, part: slice) -> None:
    index: tuple[Any, ...] = (..., part, *[slice(None)] * (-1 - axis))

    def cut(array: np.ndarray) -> Any:
        return array if array.ndim < -axis or (axis < -2 and array.shape[axis] == 1) else array[index]

    np.matmul(cut(a) if axis != -1 else a, cut(b) if axis != -2 else b, out=cut(out))


def work_type(a: np.ndarray, b: np.ndarray, terms: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type to sum that many products in: for integers a float type if that is exact, since BLAS has no integers."""
    if dtype == np.float16:
        return np.dtype(np.float32)
    if dtype.kind not in "iu" or not a.size or not b.size:
        return dtype
    if not (np.can_cast(a.dtype, dtype) and np.can_cast(b.dtype, dtype)):
        return dtype
    bound = terms * prod(max(1, int(x.max()), -int(x.min())) for x in (a, b))
    return np.dtype(np.float32 if bound < 1 << 24 else np.float64 if bound < 1 << 53 else dtype)


def narrowed(result: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """A result in the type that was asked for; sums that do not fit wrap."""
    if dtype.kind in "iu" and result.dtype.kind == "f":
        result = result.astype(np.int64)
    return result.astype(dtype, copy=False)
