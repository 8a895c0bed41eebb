"""Memory for what is soon done with."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np


class Room:
    """Memory that a thread uses for one launch after another, by purposes that an array may have in each.

    >>> room = Room()
    >>> np.shares_memory(room(0, (2, 3), np.dtype("f4")), room(0, (4,), np.dtype("f4")))
    True
    """

    def __init__(self) -> None:
        self._chunks: dict[int, np.ndarray] = {}

    def __call__(self, purpose: int, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        chunk, nbytes = self._chunks.get(purpose), prod(shape) * dtype.itemsize
        if chunk is None or chunk.nbytes < nbytes:
            # Arrays that were made of a smaller chunk keep it: so chunks at least double.
            chunk = np.empty(max(nbytes, 2 * chunk.nbytes if chunk is not None else 0), np.uint8)
            self._chunks[purpose] = chunk
        return np.ndarray(shape, dtype, chunk)
