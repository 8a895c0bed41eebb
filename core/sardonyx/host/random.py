"""Functions of the host that bring in chance."""

from __future__ import annotations

import threading

import numpy as np

from sardonyx.common.forks import Whole
from sardonyx.host import KEY, host_function

_lock = threading.Lock()
_generator: np.random.Generator | None = None  # made when it is wanted: pages that compile have no numpy.random


def set_seed(seed: int) -> None:
    """Makes what operators without a `seed` draw from now on, in this process, the same each time.

    >>> set_seed(7)
    >>> first = key()
    >>> set_seed(7)
    >>> bool((first == key()).all())
    True
    """
    global _generator
    with Whole(), _lock:
        _generator = np.random.default_rng(abs(int(seed)))


@host_function(KEY, pure=False)
def key() -> np.ndarray:
    """A fresh key of `primitives.random_bits`: uint32[2]."""
    global _generator
    with Whole(), _lock:
        _generator = _generator or np.random.default_rng()
        return _generator.integers(0, 1 << 32, 2, np.uint32)


@host_function("random.reference")
def reference(shape: np.ndarray, *, seed: int) -> np.ndarray:
    """float64 from 0 to 1 as NumPy's `RandomState(seed)` gives them: what ONNX's cases of Dropout are made with."""
    return np.random.RandomState(seed).uniform(size=tuple(shape.tolist()))
