"""Buffers as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.device import Address


def view(address: Address, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray:
    """A buffer as an array of this shape."""
    count = int(np.prod(shape))
    data = address.chunk[address.offset : address.offset + count * dtype.itemsize]
    return np.asarray(data.view(dtype).reshape(shape))


def strided(
    address: Address, dtype: np.dtype[Any], offset: int, shape: Sequence[int], strides: Sequence[int]
) -> np.ndarray:
    """The elements `offset + sum(index * stride)` of a buffer, for all indices of a shape, as a view."""
    if 0 in shape:
        return np.empty(shape, dtype)
    width = dtype.itemsize
    start = address.offset + offset * width
    first = address.chunk[start : start + width].view(dtype)
    return np.lib.stride_tricks.as_strided(first, shape, [stride * width for stride in strides])


def flat(address: Address, dtype: np.dtype[Any]) -> np.ndarray:
    """All that fits into a buffer, in one line."""
    whole = address.nbytes - address.nbytes % dtype.itemsize
    return np.asarray(address.chunk[address.offset : address.offset + whole].view(dtype))
