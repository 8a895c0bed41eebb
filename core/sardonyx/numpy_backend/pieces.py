"""The arrays of a kernel, cut into blocks for the cache, and into parts for threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sardonyx.numpy_backend.division import (
    Access,
    Bound,
    Cuts,
    Division,
    access,
    address,
    even,
    ranges,
    sliced,
    smallest,
)
from sardonyx.numpy_backend.room import Room

Arrays: TypeAlias = tuple[np.ndarray, ...]

BLOCK_BYTES = 1 << 18
"""Bytes of the largest array in a block: a few of them fit into the second-level cache."""
FEWEST = 4
"""Places along an axis that a part has at least. NumPy may sum along another axis where there is one place alone."""


def bound(run: Callable[[Sequence[Arrays]], None], outer: int, arrays: Arrays, flats: Arrays, is_long: bool) -> Bound:
    """A launch that calls `run` with a list of blocks.

    The first of the `arrays` is written; all have the same axes, `outer` of which are those of the result. Elements of
    the `flats` are read anywhere. If `is_long`, what one NumPy call leaves is read by the next.
    """
    size = BLOCK_BYTES if is_long else None
    arrays = _as_read(outer, arrays)

    def accesses() -> list[Access]:
        return [access(array, array is arrays[0]) for array in (*arrays, *flats)]

    def divide(rooms: Sequence[Room], cuts: Cuts) -> Division | None:
        place = _place(outer, arrays, len(rooms), cuts)
        if place is None:
            return None
        axis, ends = place
        varying = [array.ndim > axis and array.shape[axis] != 1 for array in arrays]
        parts = [partial(run, blocks(outer, _sliced(arrays, varying, axis, part), size)) for part in ranges(ends)]
        touched = [
            access(array, array is arrays[0], axis, ends) if varies else access(array, array is arrays[0])
            for array, varies in zip(arrays, varying, strict=True)
        ]
        return Division(parts, [*touched, *(access(array, False) for array in flats)])

    return Bound(partial(run, blocks(outer, arrays, size)), accesses, divide)


def _as_read(outer: int, arrays: Arrays) -> Arrays:
    """The arrays with their `outer` axes in the order in which the largest of them lies, if all have all axes: blocks
    are then cut from memory that is read in a row, whatever the order in which it is written."""
    largest = max(arrays[1:], key=lambda array: array.size * (0 not in array.strides), default=arrays[0])
    order = sorted(range(outer), key=lambda axis: -abs(largest.strides[axis]) if axis < largest.ndim else 0)
    if order == [*range(outer)] or 0 in largest.strides or any(array.ndim != largest.ndim for array in arrays):
        return arrays
    axes = (*order, *range(outer, largest.ndim))
    return tuple(array.transpose(axes) for array in arrays)


def blocks(outer: int, arrays: Arrays, nbytes: int | None) -> list[Arrays]:
    """The arrays cut along the first of the `outer` axes that is not 1, so that they have about so many bytes."""
    largest = max(array.nbytes for array in arrays)
    if nbytes is None or largest <= nbytes:
        return [arrays]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    axis = next((k for k, size in enumerate(shape[:outer]) if size > 1), None)
    if axis is None:
        return [arrays]
    step = max(1, shape[axis] * nbytes // largest)
    varying = [array.ndim > axis and array.shape[axis] != 1 for array in arrays]
    ends = even(shape[axis], max(1, shape[axis] // step))
    return [_sliced(arrays, varying, axis, part) for part in ranges(ends)]


def _sliced(arrays: Arrays, varying: Sequence[bool], axis: int, part: slice) -> Arrays:
    return tuple(sliced(array, axis, part) if varies else array for array, varies in zip(arrays, varying, strict=True))


def _place(outer: int, arrays: Arrays, count: int, cuts: Cuts) -> tuple[int, tuple[int, ...]] | None:
    """The axis to be cut, and where: as the largest array was cut when it was written, or in equal parts."""
    shape = arrays[0].shape
    for array in sorted(arrays, key=_nbytes, reverse=True):
        cut = cuts.get(address(array)) if cuts else None
        if cut is None or len(cut.ends) != count:
            continue
        for axis in range(min(outer, array.ndim)):
            step = array.strides[axis]
            fits = array.shape[axis] == shape[axis] and step * shape[axis] == cut.period
            if fits and step > 0 and not any(end % step for end in cut.ends):
                ends = tuple(end // step for end in cut.ends)
                if smallest(ends) >= FEWEST:
                    return axis, ends
    for axis, size in enumerate(shape[:outer]):
        if size >= FEWEST * count:
            return axis, even(size, count)
    return None


def _nbytes(array: Any) -> int:
    nbytes: int = array.nbytes
    return nbytes
