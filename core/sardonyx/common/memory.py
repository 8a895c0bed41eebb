"""Memory: how much there can be at most, so that what claims more is refused before it is allocated; mapped files."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from sardonyx.common.record import record
from sardonyx.common.units import nbytes
from sardonyx.errors import RuntimeException

AXES = 64
"""The most axes that NumPy's arrays have."""
EAGER = 1 << 30
"""Bytes of a result that is computed while a model is compiled."""


class TooLargeError(RuntimeException):
    """More bytes are asked for than there can be."""


def refuse(what: str, nbytes: int, most: int | None = None) -> None:
    """Raises TooLargeError where `what` wants more bytes than there can be, or than `most`."""
    limit = min(available(), available() if most is None else most)
    if nbytes > limit:
        raise TooLargeError(f"{what} wants {nbytes:,} bytes, and {limit:,} is the most that there can be here")


def refuse_axes(what: str, count: int) -> None:
    """Raises TooLargeError where `what` wants more axes than an array has."""
    if count > AXES:
        raise TooLargeError(f"{what} wants {count} axes, and {AXES} is the most that there can be")


@cache
def available() -> int:
    """The bytes of memory that this process may have: the machine's, its container's or its own limit."""
    return min(sys.maxsize, _machine(), _container(), addresses())


def _machine() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows and browsers do not tell
        return sys.maxsize


def _container() -> int:
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            text = file.read()
    except OSError:
        return sys.maxsize
    return int(text) if text.strip().isdecimal() else sys.maxsize


def addresses() -> int:
    """The bytes of addresses that this process may have, as `ulimit -v` says."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit
    except ImportError:  # Windows has none, and JupyterLite an empty one
        return sys.maxsize
    limit, _ = getrlimit(RLIMIT_AS)
    return sys.maxsize if limit == RLIM_INFINITY else limit


def owner(array: np.ndarray) -> Any:
    """What has the memory of an array: a mapped file, bytes, or None for an array of its own."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


FOLIO = 1 << 21
"""Bytes of a file that one access may bring in."""


def forget(*arrays: np.ndarray) -> None:
    """Let the system drop the pages of arrays in mapped files: devices have copies. They come back when read.

    What lies beside an array goes, too: reading any of it has brought the rest back.
    """
    dropped = set()
    for array in arrays:
        mapped = owner(array)
        if not isinstance(mapped, mmap.mmap) or not hasattr(mapped, "madvise") or not array.size:
            continue
        steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
        start = _address(array) - _address(np.frombuffer(mapped, np.uint8, 1))
        end = start + sum(step for step in steps if step > 0) + array.itemsize
        first, last = (start + sum(step for step in steps if step < 0)) // FOLIO * FOLIO, -(-end // FOLIO) * FOLIO
        if (id(mapped), first, last) not in dropped:
            dropped.add((id(mapped), first, last))
            mapped.madvise(mmap.MADV_DONTNEED, first, min(last, len(mapped)) - first)


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


PIECE = 1 << 22
"""Bytes of an array that are copied to a device at a time."""


def pieces(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The bytes of a C-contiguous array in pieces, each with its offset; each is forgotten once the next is asked for.

    So a copy of a large array in a mapped file does not keep twice its bytes in memory.

    >>> [(offset, len(piece)) for offset, piece in pieces(np.zeros(3 << 19))]
    [(0, 4194304), (4194304, 4194304), (8388608, 4194304)]
    """
    flat = array.reshape(-1).view(np.uint8)
    for offset in range(0, len(flat), PIECE):
        piece = flat[offset : offset + PIECE]
        yield offset, piece
        forget(piece)


@record(frozen=True)
class MemoryReport:
    """Bytes that a session holds on one provider.

    `weights` are constants on the device; `shared` are those among them that lie in the model's file or the host's
    arrays and cost nothing more. `arena` is what intermediate results lie in. `peak` is the most that the whole process
    ever held, 0 where the system does not tell. `limit` is `SessionOptions.memory_limit`, of which the session uses
    `held` on all of its providers together (`sardonyx.runtime.budget`); 0 where there is none.
    """

    provider: str
    weights: int
    shared: int
    arena: int
    peak: int
    limit: int = 0
    held: int = 0

    def __str__(self) -> str:
        parts = f"weights {nbytes(self.weights)} ({nbytes(self.shared)} in place), arena {nbytes(self.arena)}"
        bound = f", {nbytes(self.held)} held of {nbytes(self.limit)} at most" if self.limit else ""
        return f"{self.provider}: {parts}{bound}, peak of the process {nbytes(self.peak)}"


def peak() -> int:
    """The largest resident size of this process so far, in bytes; 0 where the system does not tell."""
    if sys.platform == "linux":  # whose getrusage counts what the process was before it began this program
        with open("/proc/self/status") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM")), 0)
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return 0
    resident = getrusage(RUSAGE_SELF).ru_maxrss
    return resident if sys.platform == "darwin" else resident * 1024
