"""Where buffers lie in their chunk: a layout that is valid for any sizes.

Two buffers that live at the same time are ordered: one ends before the other starts, whatever their sizes. The order is
found by placing them first-fit with the sizes of the call at hand, which is what makes it tight for similar ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from sardonyx.common.record import record
from sardonyx.providers.contract import ALIGNMENT

LARGEST = 1 << 48
"""Bytes that a buffer counts as at most, more than there are, so that the places of thousands are int64."""


@record(frozen=True)
class Lifetime:
    """A buffer as the layout sees it: alive from step `first` to step `last`, both included, `nbytes` at the moment."""

    first: int
    last: int
    nbytes: int


def beneath(lifetimes: list[Lifetime]) -> list[list[int]]:
    """For each buffer those that end before it starts, but for what lies beneath these anyway.

    >>> beneath([Lifetime(0, 1, 8), Lifetime(1, 2, 8), Lifetime(2, 3, 8)])
    [[], [0, 2], []]
    """
    order, _ = _first_fit(lifetimes)
    result: list[list[int]] = [[] for _ in lifetimes]
    steps, tops = [-(1 << 62)], [-1]  # where another buffer becomes the uppermost one so far, and which
    for k in order:
        life = lifetimes[k]
        begin, end = bisect_right(steps, life.first) - 1, bisect_left(steps, life.last + 1)
        result[k] = sorted({*tops[begin:end]} - {-1})
        after = tops[end - 1]
        is_cut = steps[begin] < life.first
        steps[begin + is_cut : end] = [life.first, life.last + 1]
        tops[begin + is_cut : end] = [k, after]
        if (following := begin + is_cut + 2) < len(steps) and steps[following] == life.last + 1:
            del steps[following - 1], tops[following - 1]
    return result


def extent(lifetimes: list[Lifetime]) -> int:
    """The bytes that buffers take together.

    >>> extent([Lifetime(0, 1, 256), Lifetime(1, 2, 256), Lifetime(2, 3, 512)])
    768
    """
    _, end = _first_fit(lifetimes)
    return end


def _first_fit(lifetimes: list[Lifetime]) -> tuple[list[int], int]:
    """The buffers from the lowest one to the highest one, and where the last one ends.

    The largest ones are placed first, each where those that live at the same time leave room.
    """
    count = len(lifetimes)
    firsts, lasts, begins, ends = np.zeros((4, count + 1), np.int64)
    """Of those that are placed, in the order of where they begin."""
    order: list[int] = []
    highest = 0
    for k in sorted(range(count), key=lambda k: (-lifetimes[k].nbytes, k)):
        life = lifetimes[k]
        room = min(max(aligned(life.nbytes), 0), LARGEST)
        placed = len(order)
        met = np.flatnonzero((firsts[:placed] <= life.last) & (lasts[:placed] >= life.first))
        start = 0
        if met.size:
            reached = np.maximum.accumulate(ends[met])
            free = np.append(0, reached)
            gaps = np.flatnonzero(free[:-1] + room <= begins[met])
            start = int(free[gaps[0] if gaps.size else -1])
        highest = max(highest, start + room)
        place = int(np.searchsorted(begins[:placed], start, "right"))
        for kept, new in ((firsts, life.first), (lasts, life.last), (begins, start), (ends, start + room)):
            kept[place + 1 : placed + 1] = kept[place:placed]
            kept[place] = new
        order.insert(place, k)
    return order, highest


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
