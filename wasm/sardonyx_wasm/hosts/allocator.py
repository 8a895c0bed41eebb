"""A first-fit allocator over the addresses of a memory that grows."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable

from sardonyx.common import forks
from sardonyx.common.forks import Whole

_GRANULE = 64


def _align(address: int, align: int) -> int:
    return -(-address // align) * align


class Allocator:
    """Hands out ranges of `start`..`limit`; `grow(end)` makes addresses below `end` usable and says up to where.

    `release(start, end)` hears of each range that came back.

    >>> memory = Allocator(64, 1024, grow=lambda end: end)
    >>> a, b = memory.allocate(100), memory.allocate(10, align=256)
    >>> a, b
    (64, 256)
    >>> memory.free(a)
    >>> memory.allocate(64)
    64
    """

    def __init__(
        self,
        start: int,
        limit: int,
        grow: Callable[[int], int],
        release: Callable[[int, int], None] = lambda start, end: None,
    ) -> None:
        self._limit = limit
        self._grow = grow
        self._release = release
        self._end = start
        self._used: dict[int, int] = {}
        self._free: list[tuple[int, int]] = []  # sorted; no two ranges touch
        self._lock = threading.Lock()
        self._returned: deque[tuple[int, int]] = deque()

    def allocate(self, nbytes: int, align: int = _GRANULE) -> int:
        """The address of a free range; raises MemoryError if none is left, ValueError for a wrong alignment."""
        if align.bit_count() != 1:
            raise ValueError(f"align={align} is not a power of two")
        align = max(align, _GRANULE)
        size = max(-(-nbytes // _GRANULE), 1) * _GRANULE
        with Whole(), self._lock:
            self._collect()
            fits = (i for i, (start, end) in enumerate(self._free) if _align(start, align) + size <= end)
            index = next(fits, None)
            if index is None:
                index = self._extend(size, align)
            start, end = self._free[index]
            address = _align(start, align)
            rest = [(start, address), (address + size, end)]
            self._free[index : index + 1] = [(low, high) for low, high in rest if low < high]
            self._used[address] = address + size
            return address

    def _extend(self, size: int, align: int) -> int:
        """Grow until the last free range holds `size`; its index."""
        touches = bool(self._free) and self._free[-1][1] == self._end
        start = self._free[-1][0] if touches else self._end
        end = _align(start, align) + size
        if end > self._limit:
            used = sum(end - start for start, end in self._used.items())
            raise MemoryError(
                f"no room for {size:,} bytes: WebAssembly has {self._limit:,} for all sessions, {used:,} are in use; "
                "release some, or take NumpyExecutionProvider"
            )
        self._end = self._grow(end)
        self._free[len(self._free) - touches :] = [(start, self._end)]
        return len(self._free) - 1

    def free(self, address: int) -> None:
        """Take a range back; raises ValueError if it is not in use.

        Safe in finalizers, which may interrupt `allocate` in its own thread: a held lock defers the work.
        """
        end = self._used.pop(address, None)
        if end is None:
            raise ValueError(f"address {address} is not allocated, or was freed before")
        self._returned.append((address, end))
        if forks.is_near():
            return
        with Whole():
            if self._lock.acquire(blocking=False):
                try:
                    self._collect()
                finally:
                    self._lock.release()

    def _collect(self) -> None:
        while self._returned:
            start, end = self._returned.popleft()
            self._release(start, end)
            index = bisect_left(self._free, (start, end))
            if index < len(self._free) and self._free[index][0] == end:
                end = self._free.pop(index)[1]
            if index and self._free[index - 1][1] == start:
                index -= 1
                start = self._free.pop(index)[0]
            self._free.insert(index, (start, end))
