"""The parts that threads have of a product."""

from __future__ import annotations

RANGES = 2
"""Parts for each thread at most, where a product is divided for them alone,"""
LEAST = 1 << 23
"""and the multiplications of one at least."""


def ranges(work: int, threads: int) -> int:
    """How many parts of so many multiplications there should be for threads: each takes long enough to be worth a call.

    >>> ranges(1 << 23, 2), ranges(1 << 26, 2)
    (2, 4)
    """
    return threads * max(1, min(RANGES, work // (threads * LEAST)))


def part(whole: range, thread: int, threads: int) -> range:
    """What is for a thread of a whole that so many divide."""
    return range(len(whole) * thread // threads, len(whole) * (thread + 1) // threads)
