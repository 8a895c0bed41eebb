"""Rows of a large constant, taken from the model's file without ever having more than a few of them in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sardonyx.common import memory

ROWS = 4
"""Rows after which the system may drop the pages that were read: it maps more of them around each one."""


class Mapped(np.ndarray):
    """The bytes of a constant that is to stay in its file."""


def lookup(x: np.ndarray, index: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """What writes the rows of a C-contiguous array, which need not be aligned, at each index to `y`."""
    lines = x.reshape(-1).view(np.uint8).reshape(x.shape[0], -1)  # of what is unaligned NumPy would copy all
    results = y.reshape(-1).view(np.uint8).reshape(index.size, -1)

    def run() -> None:
        numbers = index.reshape(-1).astype(np.intp)
        for first in range(0, len(numbers), ROWS):
            part = slice(first, first + ROWS)
            np.take(lines, numbers[part], axis=0, out=results[part], mode="clip")
            memory.forget(x)

    return run
