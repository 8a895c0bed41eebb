"""Windows over arrays: what lies under them combined, and the border that they begin in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from sardonyx.code.folds import UFUNC, identity
from sardonyx.common import dtypes


def fold(
    x: np.ndarray,
    function: str,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
) -> np.ndarray:
    """The primitive `reduce_window` on arrays."""
    extreme = function.removeprefix("arg")
    wide = x.astype(np.float32) if x.dtype == np.float16 and function == "sum" else x
    padded = values = bordered(wide, low, high, identity(extreme, dtypes.of(x.dtype)))
    outer = x.ndim - len(window)
    steps = [_steps(*axis) for axis in zip(padded.shape[outer:], window, strides, dilations, strict=True)]
    for axis, columns in enumerate(steps, outer):
        before = (slice(None),) * axis
        first, *others = (values[(*before, column)] for column in columns)
        values = first.copy()
        for other in others:
            UFUNC[extreme](values, other, out=values)
    if extreme == function:
        return values.astype(x.dtype, copy=False)
    places = np.zeros(values.shape, np.int64)
    for place, columns in reversed(list(enumerate(product(*steps)))):
        elements = padded[(..., *columns)]
        np.copyto(places, place, where=(elements == values) | (elements != elements))
    return places


def _steps(size: int, window: int, stride: int, dilation: int) -> list[slice]:
    """For each element of a window, the places of an axis that it meets."""
    room = size - (window - 1) * dilation
    return [slice(start, start + room, stride) for start in range(0, window * dilation, dilation)]


def bordered(x: np.ndarray, low: Sequence[Any], high: Sequence[Any], value: Any = 0) -> np.ndarray:
    """x with a border of one number around its last axes, cut where a width is negative; x itself if all are 0."""
    widths = [(0, 0)] * (x.ndim - len(low)) + [(int(a), int(b)) for a, b in zip(low, high, strict=True)]
    if all(width == (0, 0) for width in widths):
        return x
    cropped = x[tuple(slice(max(0, -a), size - max(0, -b)) for size, (a, b) in zip(x.shape, widths, strict=True))]
    widths = [(max(0, a), max(0, b)) for a, b in widths]
    result = np.full([a + size + b for size, (a, b) in zip(cropped.shape, widths, strict=True)], value, x.dtype)
    result[tuple(slice(a, a + size) for size, (a, _) in zip(cropped.shape, widths, strict=True))] = cropped
    return result
