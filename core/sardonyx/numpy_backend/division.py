"""Launches that can be divided among threads, and the memory that each part of them touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sardonyx.common.record import record
from sardonyx.numpy_backend.room import Room

Run: TypeAlias = Callable[[], Any]


@record(frozen=True)
class Cut:
    """Whose memory is whose: a byte b is of the first part k for which (b - start) % period < ends[k]."""

    start: int
    period: int
    ends: tuple[int, ...]


class Access(NamedTuple):
    """The memory from `start` to `end`, of which a part touches what the cut leaves to it, or any, if that is None."""

    start: int
    end: int
    cut: Cut | None
    writes: bool

    def disturbs(self, other: Access) -> bool:
        """Whether different parts may meet where one of them writes."""
        apart = self.end <= other.start or other.end <= self.start
        return not (apart or (self.cut is not None and self.cut == other.cut)) and (self.writes or other.writes)


@record(frozen=True)
class Division:
    """What each thread is to call, and all that is touched by it."""

    parts: Sequence[Run]
    accesses: Sequence[Access]


Cuts: TypeAlias = Mapping[int, Cut]
"""How memory was divided when it was written, by its start: who wrote it has it in its cache."""
Divide: TypeAlias = Callable[[Sequence[Room], Cuts], "Division | None"]


class Bound(NamedTuple):
    """A launch with its buffers."""

    run: Run
    accesses: Callable[[], Sequence[Access]]
    """All that it touches."""
    divide: Divide
    """The same work for threads that have these rooms, bit for bit; None where it cannot be divided so."""


def even(size: int, count: int, grain: int = 1) -> tuple[int, ...]:
    """Where parts of about equal size end, multiples of `grain` but for the last."""
    return (*(size * k // count // grain * grain for k in range(1, count)), size)


def ranges(ends: Sequence[int]) -> list[slice]:
    """The parts that end there."""
    return [slice(first, last) for first, last in pairwise((0, *ends))]


def smallest(ends: Sequence[int]) -> int:
    """The size of the smallest part."""
    return min(last - first for first, last in pairwise((0, *ends)))


def sliced(array: np.ndarray, axis: int, part: slice) -> np.ndarray:
    """A part of an array along an axis."""
    return array[(*(slice(None),) * axis, part)]


def access(array: np.ndarray, writes: bool, axis: int | None = None, ends: Sequence[int] = ()) -> Access:
    """What is touched of an array that is cut at `ends` along an axis, or of which any part touches all."""
    start = address(array)
    steps = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)] if array.size else []
    first = start + sum([step for step in steps if step < 0])
    last = start + sum([step for step in steps if step > 0]) + (array.itemsize if array.size else 0)
    return Access(first, last, None if axis is None else _cut(array, start, axis, ends), writes)


def address(array: np.ndarray) -> int:
    """Where an array begins."""
    place: int = array.__array_interface__["data"][0]
    return place


def _cut(array: np.ndarray, start: int, axis: int, ends: Sequence[int]) -> Cut | None:
    """None where the parts are not ranges that repeat."""
    step = array.strides[axis]
    if step <= 0 or min(array.strides) < 0 or not array.size:
        return None
    period, inside = step * array.shape[axis], array.itemsize
    for other, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        if other == axis or size == 1:
            continue
        if stride < step:
            inside += (size - 1) * stride
        elif stride % period:
            return None
    if inside > step:
        return None
    return Cut(start % period, period, tuple(end * step for end in ends))
