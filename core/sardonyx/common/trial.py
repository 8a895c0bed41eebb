"""Which of two ways is the faster one, by trying both now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

TRIES = 5
"""Times that are kept of each way; the median counts, since a machine does other things as well."""
BEGINNING = 2
"""Uses of each way that tell nothing, since what they need is made then."""
PERIOD, SHORT_PERIOD = 65, 13
"""After so many uses the way that is not taken is tried again: sooner at first, when a process does much else. Odd
numbers, since every other use may take longer: where two works take turns, or each is done twice after a pause.
"""
_LONG = 10 * SHORT_PERIOD
GAIN = 0.97
"""How much of the first way's time the second may take at most: it costs more than time."""


class Trial:
    """Two ways of doing the same work, the simple one and one that may be faster.

    >>> trial = Trial()
    >>> for _ in range(20):
    ...     way = trial.next()
    ...     trial.took(way, 2.0 if way else 1.0)
    >>> trial.next()
    0
    """

    def __init__(self) -> None:
        self._times = deque[float](maxlen=TRIES), deque[float](maxlen=TRIES)
        self._uses = 0
        self._best = 1

    def next(self) -> int:
        """The way to take: 0, the simple one, or 1."""
        self._uses += 1
        if self._uses <= 2 * (TRIES + BEGINNING):
            return self._uses.bit_count() % 2  # Thue and Morse's order: no such habit favours a way
        period = PERIOD if self._uses > _LONG else SHORT_PERIOD
        return self._best if self._uses % period else 1 - self._best

    def took(self, way: int, seconds: float) -> None:
        """Remember how long a use took; where the work differs, divided by how much there was."""
        if self._uses > 2 * BEGINNING:
            self._times[way].append(seconds)
            simple, other = self._times
            if simple and other:
                self._best = int(_median(other) <= GAIN * _median(simple))


def _median(values: Collection[float]) -> float:
    """The middle one, or the mean of both; the standard library's takes 3 ms to import."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return (ordered[half] + ordered[~half]) / 2
