"""numpy.matmul, large ones divided among the threads of the session that runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.common import threads
from sardonyx.common.crew import Crew
from sardonyx.common.scoped import Scoped

SHARE = 1 << 22
"""Multiplications that a thread should have: it takes a few thousand of them to wake it."""
GRAIN = 16
"""Rows or columns that BLAS takes together, or a multiple of them."""
LEAST = 1 << 20
"""Multiplications that a part of a product has at least: OpenBLAS has other code for those of up to 100 ** 3."""


_active = Scoped[Crew]()
"""Who shares the products of a thread."""


class shared:  # noqa: N801  # a context manager without a generator, since every run enters one
    """Within the block, BLAS has one thread, and a crew shares the large products of this thread."""

    __slots__ = ("_within",)

    def __init__(self, crew: Crew | None) -> None:
        self._within = _active.within(crew)

    def __enter__(self) -> None:
        self._within.__enter__()
        threads.one_thread.__enter__()

    def __exit__(self, *_: object) -> None:
        threads.one_thread.__exit__()
        self._within.__exit__()


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """numpy.matmul of two arrays of two axes or more.

    >>> matmul(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    crew = _active.value
    rows, columns = a.shape[-2], b.shape[-1]
    shares = 0 if crew is None else min(crew.size, max(a.size * columns, b.size * rows) // SHARE)
    if crew is None or shares < 2:
        return np.matmul(a, b, out=out)
    if out is None:
        outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = np.empty((*outer, rows, columns), np.result_type(a, b))
    axis = _axis(out.shape, shares)
    if axis >= -2 and not _is_exact(out, a.shape[-1], shares):
        return np.matmul(a, b, out=out)
    crew.run(lambda share, count: _part(a, b, out, axis, share, count), shares)
    return out


def _is_exact(out: np.ndarray, depth: int, shares: int) -> bool:
    """Whether parts of matrices have the bits of the whole: not in float64, of vectors, or if they are small."""
    rows, columns = out.shape[-2:]
    return out.dtype == np.float32 and min(rows, columns) >= 2 * shares and rows * columns * depth // shares >= LEAST


def _axis(shape: tuple[int, ...], shares: int) -> int:
    """The axis of a result to be divided, counted from its end: a whole one of matrices, else rows or columns."""
    for axis in range(-len(shape), -2):
        if shape[axis] >= shares and shape[axis] % shares == 0:
            return axis
    return -2 if shape[-2] >= shape[-1] else -1


def _part(a: np.ndarray, b: np.ndarray, out: np.ndarray, axis: int, share: int, count: int) -> None:
    size = out.shape[axis]
    grain = GRAIN if axis >= -2 else 1
    first, last = (size if k == count else size * k // count // grain * grain for k in (share, share + 1))
    index: tuple[Any, ...] = (..., slice(first, last), *[slice(None)] * (-1 - axis))

    def cut(array: np.ndarray) -> Any:
        return array if array.ndim < -axis or (axis < -2 and array.shape[axis] == 1) else array[index]

    if first < last:
        np.matmul(cut(a) if axis != -1 else a, cut(b) if axis != -2 else b, out=cut(out))
