"""Inputs of a call like the one before it: they are compared, and copied to where they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sardonyx.common.strings import RunStrings


class Input(NamedTuple):
    """An array that was fed, but for its elements; and what copies others like it to the devices that need them."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    writes: Sequence[Callable[[np.ndarray], None]]


def take(inputs: Sequence[Input], feed: Mapping[str, Any], strings: RunStrings) -> bool:
    """Copy arrays by input name to the devices; False if they are not like those that were fed before."""
    if len(feed) != len(inputs):
        return False
    for name, dtype, shape, writes in inputs:
        array = feed.get(name)
        if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
            return False
        if dtype.hasobject:
            array = strings.encode(array)
        for write in writes:
            write(array)
    return True


def resized(inputs: Sequence[Input], feed: Mapping[str, Any]) -> list[tuple[int, ...]] | None:
    """The shapes of arrays by input name that are like those before but for them; None if they are not."""
    if len(feed) != len(inputs):
        return None
    shapes = []
    for name, dtype, _, _ in inputs:
        array = feed.get(name)
        if type(array) is not np.ndarray or array.dtype != dtype:
            return None
        shapes.append(array.shape)
    return shapes
