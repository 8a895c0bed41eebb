"""Arrays as JSON, to and from Pyodide: this file runs on both sides and needs nothing but NumPy."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np


def packed(value: Any) -> Any:
    """Return an array as dtype, shape and contents; strings are a list, others base64 of their bytes.

    Lists and maps of such become objects; None stays.

    >>> packed(np.array([[1, 2]], np.uint8))
    ['uint8', [1, 2], 'AQI=']
    >>> unpacked(packed(np.array(["red"], object)))
    array(['red'], dtype=object)
    >>> unpacked(packed([{3: np.array([0.5])}, None]))
    [{3: array([0.5])}, None]
    """
    if value is None:
        return None
    if isinstance(value, list):
        return {"items": [packed(item) for item in value]}
    if isinstance(value, dict):
        return {"keys": list(value), "items": [packed(item) for item in value.values()]}
    array = np.asarray(value)
    if array.dtype == object:
        return ["object", list(array.shape), array.ravel().tolist()]
    return [array.dtype.name, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def unpacked(value: Any) -> Any:
    """Return it again."""
    if value is None:
        return None
    if isinstance(value, dict):
        items = [unpacked(item) for item in value["items"]]
        return dict(zip(value["keys"], items, strict=True)) if "keys" in value else items
    dtype, shape, content = value
    if dtype == "object":
        return np.array([*content, None], object)[:-1].reshape(shape)
    return np.frombuffer(base64.b64decode(content), dtype).reshape(shape)
