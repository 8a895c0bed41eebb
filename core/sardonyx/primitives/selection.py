"""The primitive that selects the largest or smallest elements of lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, cast, native
from sardonyx.primitives.movement import normalize_axis, slice_axis
from sardonyx.primitives.reduction import SORT
from sardonyx.sizes.symbolic import Size


class TopK(Primitive):
    """The first `k` elements of `sort` along an axis, and where they came from (int64)."""

    name = "top_k"

    def infer(self, x: Array, k: Size, axis: int, largest: bool) -> Types:
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return [(x.dtype, shape), (dtypes.int64, shape)]

    def numpy(self, x: np.ndarray, k: int, axis: int, largest: bool) -> Values:
        lines = np.moveaxis(x, axis, -1)
        if not k or 4 * k >= lines.shape[-1] or not x.size:
            (order,) = SORT.numpy(lines, axis=lines.ndim - 1, descending=largest)[1:]
            order = order[..., :k]
        else:
            order = _first(lines.reshape(-1, lines.shape[-1]), k, largest).reshape(*lines.shape[:-1], k)
        outputs = np.take_along_axis(lines, order, -1), order
        return [np.moveaxis(item, -1, axis) for item in outputs]

    def expand(self, x: Array, k: Size, axis: int, largest: bool) -> Sequence[Array]:
        """A slice of what is sorted."""
        return [slice_axis(item, axis, 0, k) for item in bind(SORT, x, axis=axis, descending=largest)]


def _first(lines: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """int64 [lines, k]: where the first ones are; there are more than k in a line, and k is not 0."""
    count = lines.shape[1]
    border = np.partition(lines, count - k if largest else k - 1, 1)[:, count - k if largest else k - 1, None]
    if lines.dtype.kind == "f":
        missing, at_end = np.isnan(lines), np.isnan(border)
        equal = (lines == border) | (missing & at_end)
        before = (lines > border) | (missing & ~at_end) if largest else (lines < border) | (at_end & ~missing)
    else:
        equal, before = lines == border, lines > border if largest else lines < border
    room = k - before.sum(1, keepdims=True)
    chosen = before | (equal & (np.cumsum(equal, 1) <= room))
    order = np.nonzero(chosen)[1].reshape(-1, k)
    (finer,) = SORT.numpy(np.take_along_axis(lines, order, 1), axis=1, descending=largest)[1:]
    return np.take_along_axis(order, finer, 1)


TOP_K = primitive(TopK)


def top_k(x: Array, k: Size, axis: int, largest: bool = True) -> tuple[Array, Array]:
    """The k largest or smallest elements along an axis in order, NaN being the largest, and their int64 indices; the
    first ones of equal elements.

    >>> from sardonyx.primitives.binding import constant
    >>> [found.value.tolist() for found in top_k(constant([3, 1, 3, 2]), 2, 0)]
    [[3, 3], [0, 2]]
    """
    values, indices = bind(TOP_K, native(x), k=k, axis=normalize_axis(axis, x.rank), largest=largest)
    return cast(values, x.dtype), indices
