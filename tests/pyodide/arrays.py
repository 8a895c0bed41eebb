"""Arrays as JSON, to and from Pyodide: this file runs on both sides and needs nothing but NumPy."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt


def packed(array: npt.NDArray[Any]) -> list[Any]:
    """Return dtype, shape and contents; strings are a list, others base64 of their bytes.

    >>> packed(np.array([[1, 2]], np.uint8))
    ['uint8', [1, 2], 'AQI=']
    >>> unpacked(packed(np.array(["red"], object)))
    array(['red'], dtype=object)
    """
    if array.dtype == object:
        return ["object", list(array.shape), array.ravel().tolist()]
    return [array.dtype.name, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def unpacked(value: list[Any]) -> npt.NDArray[Any]:
    """Return the array again."""
    dtype, shape, content = value
    if dtype == "object":
        return np.array([*content, None], object)[:-1].reshape(shape)
    return np.frombuffer(base64.b64decode(content), dtype).reshape(shape)
