"""Constants that the optimizer computes, in a file instead of memory: for sessions with a memory limit."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import IO

import numpy as np

from sardonyx.common import cache, memory

SMALL = 1 << 16
"""Bytes up to which a constant stays in memory."""
_active: ContextVar[Spill | None] = ContextVar("spill", default=None)


class Spill:
    """A file that is gone with the last array in it."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within the block, `spilled` writes to this file."""
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)
            if self._file is not None:
                self._file.close()  # mappings stay
                self._file = None

    def write(self, array: np.ndarray) -> np.ndarray:
        """A read-only view of the file with these elements."""
        if self._file is None:
            from tempfile import TemporaryFile  # takes long to import

            folder = cache.directory()
            self._file = TemporaryFile(dir=folder if folder and os.path.isdir(folder) else None)  # noqa: SIM115
        unit = mmap.ALLOCATIONGRANULARITY
        start = -(-self._file.seek(0, 2) // unit) * unit
        self._file.seek(start)
        self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), array.nbytes, access=mmap.ACCESS_READ, offset=start)
        return np.frombuffer(mapped, array.dtype).reshape(array.shape)


def spilled(array: np.ndarray) -> np.ndarray:
    """An array that was computed, or its copy in a file where a session with a memory limit is being made."""
    spill = _active.get()
    if spill is None or array.nbytes <= SMALL or array.dtype == object or sys.platform == "emscripten":
        return array
    if memory.owner(array) is not None:  # a view of a file, or of what the caller gave
        return array
    with suppress(OSError):  # a disk that refuses
        return spill.write(array)
    return array
