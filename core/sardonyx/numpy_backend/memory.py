"""Buffers as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.providers.contract import Address


def view(address: Address, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray:
    """A buffer as an array of this shape."""
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, address.chunk, address.offset)


def strided(
    address: Address, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    """The elements `offset + sum(index * stride)` of a buffer, for all indices of a shape, as a view."""
    if 0 in shape:
        return np.empty(shape, dtype)
    width = dtype.itemsize
    steps = [stride * width for stride in strides]
    return np.ndarray(shape, dtype, address.chunk, address.offset + offset * width, steps)


def flat(address: Address, dtype: np.dtype[Any]) -> np.ndarray:
    """All that fits into a buffer, in one line."""
    whole = address.nbytes - address.nbytes % dtype.itemsize
    return np.asarray(address.chunk[address.offset : address.offset + whole].view(dtype))
