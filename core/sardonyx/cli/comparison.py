"""How far two values are from each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""What one unit in the last place of a narrow float is worth: results that are rounded differ by that."""
HUGE = float("inf")


def error(found: Any, expected: Any) -> float:
    """The largest difference between two outputs, relative to the largest finite value that is expected.

    inf where shapes, types or keys differ, where only one of two values is finite, and where integers, booleans or
    texts do. The expected values are first rounded to the type found, so that the best answer has no error.

    >>> error(np.float32([1, 2]), np.array([1, 2.002])) < 0.0011, error(np.array([1]), np.array([2]))
    (True, inf)
    """
    pairs = list(_pairs(found, expected))
    return max((HUGE if pair is None else _error(*pair) for pair in pairs), default=0.0)


def _pairs(found: Any, expected: Any) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
    """The arrays in two arrangements; None for what has no counterpart."""
    if isinstance(found, dict) and isinstance(expected, dict):
        same = found.keys() == expected.keys()
        yield (np.asarray(list(found.values())), np.asarray([expected[key] for key in found])) if same else None
    elif isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(found) != len(expected):
            yield None
        for one, other in zip(found, expected):
            yield from _pairs(one, other)
    elif found is None or expected is None:
        yield from [] if found is expected else [None]
    else:
        yield np.asarray(found), np.asarray(expected)


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    if found.shape != expected.shape:
        return HUGE
    if is_exact(found) or is_exact(expected):
        return 0.0 if np.array_equal(found, expected) else HUGE
    if found.dtype.kind == "c":
        return max(_error(found.real, expected.real), _error(found.imag, expected.imag))
    with np.errstate(all="ignore"):
        wanted = expected.astype(found.dtype).astype(np.float64)
        values = found.astype(np.float64)
        same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
        finite = np.isfinite(wanted)
        largest = np.abs(wanted[finite]).max(initial=0)
        errors = np.where(same, 0, np.abs(values - wanted) / largest)
        return float(np.where(np.isnan(errors), HUGE, errors).max(initial=0))


def is_exact(array: np.ndarray) -> bool:
    """Whether values of this type are equal or not, and nothing between."""
    return array.dtype.kind in "biuOUSm"


def worst(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest `error` of several outputs."""
    return max((error(one, other) for one, other in zip(found, expected, strict=True)), default=0.0)
