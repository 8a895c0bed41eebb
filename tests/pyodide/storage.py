"""Types that NumPy lacks, on their way to Pyodide: it has no `ml_dtypes`, so they travel as what the engine stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.convert import inward, outward
from sardonyx.common.strings import StringTable


def stored(value: Any) -> Any:
    """An array, a list of such or None, in integers instead of types that NumPy lacks."""
    if value is None:
        return None
    if isinstance(value, list):
        return [stored(item) for item in value]
    array = np.asarray(value)
    return inward(array, dtypes.of(array.dtype))


def typed(found: Any, like: Any) -> Any:
    """What came back, in the types of what is like it, unless it is stored otherwise."""
    if isinstance(found, list) and isinstance(like, list):
        return [typed(*pair) for pair in zip(found, like)] + found[len(like) :]
    if isinstance(found, np.ndarray) and isinstance(like, np.ndarray):
        dtype = dtypes.of(like.dtype)
        if dtype is not dtypes.string and found.dtype == dtype.storage:
            return outward(found, dtype, StringTable())
    return found
