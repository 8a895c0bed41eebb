"""Random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


def random(*shape: int, dtype: str = "f4") -> np.ndarray[Any, Any]:
    """Normal numbers, the same for the same shape."""
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)
