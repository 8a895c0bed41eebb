"""Lookup in a table that the model holds: dictionaries of encoders, spelled in primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant

SPARSE = 4
"""Integer keys are looked up at once where at most this many times as many integers lie between the extreme ones."""


def lookup(x: Array, keys: Any, values: Any, default: Any, dtype: DType) -> Array:
    """The value, of type `dtype`, of the key that each element equals, or the default; NaN equals NaN.

    Of equal keys the last one counts. Keys, values and the default are NumPy arrays, lists or scalars.
    """
    other = constant(np.asarray(default).reshape(()), dtype)
    keys, items = _elements(keys, x.dtype), _elements(values, dtype)
    if x.dtype is dtypes.string:
        x = p.bitcast(x, dtypes.int32)
    ordered, place = np.unique(keys[::-1], return_index=True)
    items = items[::-1][place]
    if not len(ordered):
        return p.broadcast_to(other, x.shape)
    if x.dtype.is_int and int(ordered[-1]) - int(ordered[0]) < SPARSE * len(ordered):
        return _direct(x, ordered, items, other)
    if not np.isnan(ordered[-1]):
        return _bisect(x, ordered, items, other)
    rest = _bisect(x, ordered[:-1], items[:-1], other) if len(ordered) > 1 else other
    return p.where(p.isnan(x), Array(dtype, (), items[-1:].reshape(())), rest)


def _elements(items: Any, dtype: DType) -> np.ndarray:
    elements = constant(np.asarray(items), dtype).value
    assert elements is not None
    return elements


def _direct(x: Array, keys: np.ndarray, values: np.ndarray, other: Array) -> Array:
    low, high = int(keys[0]), int(keys[-1])
    assert other.value is not None
    line = np.full(high - low + 1, other.value)
    line[(keys - keys[0]).astype(np.int64)] = values
    picked = p.gather(Array(other.dtype, line.shape, line), [x - low], [0])
    return p.where((x >= low) & (x <= high), picked, other)


def _bisect(x: Array, keys: np.ndarray, values: np.ndarray, other: Array) -> Array:
    """Binary search: at every step `place` is that of a key which is not above the element, or 0."""
    table = Array(x.dtype, keys.shape, keys)
    place = p.full(x.shape, 0, dtypes.int32)
    last = len(keys) - 1
    for bit in reversed(range(last.bit_length())):
        ahead = p.minimum(place + (1 << bit), last)
        place = p.where(p.gather(table, [ahead], [0]) <= x, ahead, place)
    picked = p.gather(Array(other.dtype, values.shape, values), [place], [0])
    return p.where(p.equal(p.gather(table, [place], [0]), x), picked, other)
