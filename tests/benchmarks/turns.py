"""Turns: all sides are measured in each round, and who goes first alternates, since the first finds colder caches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
SECONDS = 0.03
"""Of one measurement by `medians`, which repeats what is faster."""


def turns(sides: Iterable[T], number: int) -> list[T]:
    """Return the sides in the order of a round.

    >>> turns(["theirs", "ours"], 0), turns(["theirs", "ours"], 1)
    (['theirs', 'ours'], ['ours', 'theirs'])
    """
    order = list(sides)
    return order[::-1] if number % 2 else order


def medians(
    sides: Mapping[str, Callable[[], Any]], rounds: int, seconds: float = SECONDS, tries: int = 1
) -> dict[str, float]:
    """Milliseconds of each side, of the processor's time that this thread has; in each round the fastest try counts."""
    counts = {side: _repetitions(run, seconds) for side, run in sides.items()}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for k in range(rounds):
        for side in turns(sides, k):
            times[side].append(1e3 * min(_timed(sides[side], counts[side]) for _ in range(tries)))
    return {side: statistics.median(known) for side, known in times.items()}


def _repetitions(run: Callable[[], Any], seconds: float) -> int:
    """How often `run` runs in so many seconds."""
    count, end = 0, time.thread_time() + seconds
    while time.thread_time() < end:
        run()
        count += 1
    return count


def _timed(run: Callable[[], Any], count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        run()
    return (time.thread_time() - start) / count
