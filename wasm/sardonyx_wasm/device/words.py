"""The words of a segment in the host's memory: a list of launches, and by what threads share it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np

from sardonyx.common.cached import cached_property

from ..abi import COUNTERS, HEADER, LAUNCH, RECORD, RECORDS, SLEEPY, STATE, STOP
from ..hosts import Host
from .allocation import Allocation

_FRONT = STATE // 4 + HEADER
_RELEASED = (1 << 32) - 1, (1 << 31) - 1
"""In all counters: every range has been taken, and more is done than there can be, so that it may be more yet."""


class Entry(Protocol):
    """What is launched one after another."""

    launches: int
    size: int
    """Words that it has in the list."""


class Launch:
    """The launch of a code; `first` is the place of its parameters among those of the segment."""

    launches = 1

    def __init__(self, number: int, addresses: Sequence[int], params: Sequence[int], first: int) -> None:
        self.words = [number, len(addresses) + len(params), *addresses, *params]
        self.size = len(self.words)
        self.params = range(LAUNCH + len(addresses), self.size)
        """Where the parameters are in it,"""
        self.sources = range(first, first + len(params))
        """and among those of the segment."""


class Words:
    """The words of a segment, for a run by so many threads at a time, which may spin while they wait or not."""

    def __init__(self, host: Host, entries: Sequence[Entry], threads: int, spins: bool = True) -> None:
        *starts, end = accumulate([entry.size for entry in entries], initial=_FRONT)
        shared = RECORD // 4 * threads + COUNTERS // 4 * sum([entry.launches for entry in entries])
        self._block = Allocation(host, 4 * (end + shared))
        address = self._block.address
        self.address = address + STATE
        self._memory = host.array(address, (end + shared,), np.uint32)
        self._shared = self._memory[end:]
        self._counters = self._memory[end + RECORD // 4 * threads :].reshape(-1, COUNTERS // 4)
        records = address + 4 * end
        self._memory[: STATE // 4] = 0
        self._memory[RECORDS // 4] = records
        self._memory[SLEEPY // 4] = not spins
        self._memory[STATE // 4 : _FRONT] = [0, address, records + RECORD * threads, records]
        launches = [(start, entry) for start, entry in zip(starts, entries) if isinstance(entry, Launch)]
        for start, launch in launches:
            self._write(start, launch.words)
        self._steps = [start for start, entry in zip(starts, entries) if not isinstance(entry, Launch)]
        self._places = [start + place for start, launch in launches for place in launch.params]
        self._sources = [source for _, launch in launches for source in launch.sources]

    def take(self, params: np.ndarray) -> None:
        """Work with other parameters, those of the segment."""
        spots, sources = self._spots
        self._memory[spots] = params[sources]

    def write(self, number: int, words: Sequence[int]) -> None:
        """Have words in the place of a step: of so many before it, those that are no launches of a code."""
        self._write(self._steps[number], words)

    def _write(self, start: int, words: Sequence[int]) -> None:
        self._memory[start : start + len(words)] = np.array(words, np.int64)  # some are negative: the lower half

    @cached_property
    def _spots(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self._places, np.int64), np.array(self._sources, np.int64)

    def use(self, scratch: int) -> None:
        """Have scratch memory at an address."""
        self._memory[STATE // 4] = scratch

    def begin(self) -> None:
        """Nothing was taken yet, and nothing is done."""
        self._shared.fill(0)

    def release(self) -> None:
        """Nothing is left, and nobody waits; threads go on to the end with what they have."""
        self._counters[:] = _RELEASED

    def stop(self, now: int) -> None:
        """Ask a run to end early, or no more."""
        self._memory[STOP // 4] = now
