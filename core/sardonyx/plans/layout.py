"""Where buffers lie in their chunk: a layout that is valid for any sizes.

Two buffers that live at the same time are ordered: one ends before the other starts, whatever their sizes. The order is
found by placing them first-fit with the sizes of the call at hand, which is what makes it tight for similar ones.
"""

from __future__ import annotations

from bisect import insort

from sardonyx.common.record import record
from sardonyx.providers.contract import ALIGNMENT


@record(frozen=True)
class Lifetime:
    """A buffer as the layout sees it: alive from step `first` to step `last`, both included, `nbytes` at the moment."""

    first: int
    last: int
    nbytes: int


def beneath(lifetimes: list[Lifetime]) -> list[list[int]]:
    """For each buffer those that end before it starts.

    >>> beneath([Lifetime(0, 1, 8), Lifetime(1, 2, 8), Lifetime(2, 3, 8)])
    [[], [0, 2], []]
    """
    result, _ = _first_fit(lifetimes)
    masks = [_mask(lower) for lower in result]
    return [_immediate(lower, masks) for lower in result]


def extent(lifetimes: list[Lifetime]) -> int:
    """The bytes that buffers take together.

    >>> extent([Lifetime(0, 1, 256), Lifetime(1, 2, 256), Lifetime(2, 3, 512)])
    768
    """
    _, end = _first_fit(lifetimes)
    return end


def _first_fit(lifetimes: list[Lifetime]) -> tuple[list[list[int]], int]:
    """For each buffer those below it of what it meets, and where the last one ends."""
    placed: list[tuple[int, int, int, int]] = []
    result: list[list[int]] = [[] for _ in lifetimes]
    order = sorted(range(len(lifetimes)), key=lambda k: (-lifetimes[k].nbytes, k))
    highest = 0
    for k in order:
        life = lifetimes[k]
        room = aligned(life.nbytes)
        first, last = life.first, life.last
        meets = [spot for spot in placed if (other := lifetimes[spot[3]]).first <= last and first <= other.last]
        start = 0
        for begin, _, end, _ in meets:
            if start + room <= begin:
                break
            start = max(start, end)
        spot = (start, len(placed), start + room, k)
        highest = max(highest, start + room)
        insort(placed, spot)
        for met in meets:
            low, high = (met[3], k) if met < spot else (k, met[3])
            result[high].append(low)
    return result, highest


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _immediate(below: list[int], masks: list[int]) -> list[int]:
    """Without those that lie beneath another one of the list anyway; sets are the bits of integers, being many."""
    implied = 0
    for other in below:
        implied |= masks[other]
    return sorted(lower for lower in set(below) if not implied >> lower & 1)


def _mask(numbers: list[int]) -> int:
    bits = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        bits[number // 8] |= 1 << number % 8
    return int.from_bytes(bits, "little")
