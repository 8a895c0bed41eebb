"""Which of two ways is the faster one, by trying both now and then.

A way is tried some uses in a row, of which the first tells nothing: what it works on lies in the caches of whoever took
the other way. Two of them count, since every other use may take longer, where two works take turns or each is done
twice after a pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

ROW = 3
"""Uses of a way that is tried: one that tells nothing, and two that count."""
BEGINNING, ROWS = 2, 8
"""Rows that tell nothing, since what they need is made then, and rows at first in all, of either way in turn."""
TRIES = 6
"""Uses that are kept of each way; the median counts, since a machine does other things as well."""
PERIOD, SHORT_PERIOD = 131 - ROW, 43 - ROW
"""Uses until the way that is not taken is tried again: sooner at first, when a process does much else. From one time to
the next it is a prime number, so that no habit of the work favours a way.
"""
_EARLY = 5 * SHORT_PERIOD
LONG = 0.03
"""Seconds of a use that is a row by itself: what the caches have at first matters little to it."""
GAIN = 0.97
"""How much of the first way's time the second may take at most: it costs more than time."""


class Trial:
    """Two ways of doing the same work, the simple one and one that may be faster.

    >>> trial = Trial()
    >>> for _ in range(ROW * ROWS):
    ...     way = trial.next()
    ...     trial.took(way, 0.002 if way else 0.001)
    >>> trial.next()
    0
    """

    def __init__(self) -> None:
        self._times = deque[float](maxlen=TRIES), deque[float](maxlen=TRIES)
        self._best = 1
        self._uses = 0
        self._rows = 0
        self._left = 0
        """Uses that are left of a row,"""
        self._tried: int | None = None
        """and its way, if that is tried: else it is the best one."""
        self._way = -1
        """The way of the last use."""

    def next(self) -> int:
        """The way to take: 0, the simple one, or 1."""
        if not self._left:
            self._begin()
        self._left -= 1
        self._uses += 1
        return self._best if self._tried is None else self._tried

    def _begin(self) -> None:
        """Begin a row."""
        self._left = ROW
        if self._rows < ROWS:
            self._tried = 1 - self._rows.bit_count() % 2  # Thue and Morse's order: no habit of the work favours a way
        elif self._tried is None:
            self._tried = 1 - self._best
        else:
            self._tried = None
            self._left = PERIOD if self._uses > _EARLY else SHORT_PERIOD
        self._rows += 1

    def took(self, way: int, seconds: float, amount: float = 1) -> None:
        """Remember how long a use took, and of how much work."""
        is_long = seconds >= LONG
        if is_long and self._tried is not None:
            self._left = 0
        if (is_long or way == self._way) and self._rows > BEGINNING:
            self._times[way].append(seconds / amount)
            simple, other = self._times
            if simple and other:
                self._best = int(_median(other) <= GAIN * _median(simple))
        self._way = way


def _median(values: Collection[float]) -> float:
    """The middle one, or the mean of both; the standard library's takes 3 ms to import."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return (ordered[half] + ordered[~half]) / 2
