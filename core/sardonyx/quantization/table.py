"""Tables of rows as integers of 4 bits in blocks along any axis, as onnxruntime's tool makes them for Gather."""

from __future__ import annotations

import numpy as np


def quantize_table(
    table: np.ndarray, axis: int, block_size: int, symmetric: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integers of the table's shape, one a byte, and scales and zero points with an element for each block on `axis`.

    Symmetric integers are int8 from -8 to 7, and their zero points are 0; others are uint8 from 0 to 15. All is
    computed in the table's own type, and halves are rounded to even.

    >>> integers, scales, zeros = quantize_table(np.array([[-1.0, 0.0, 2.0]], np.float32), 1, 16, symmetric=False)
    >>> integers.tolist(), zeros.tolist()
    ([[0, 5, 15]], [[5]])
    """
    size, count = table.shape[axis], -(-table.shape[axis] // block_size)
    integers = np.empty(table.shape, np.int8 if symmetric else np.uint8)
    shape = (*table.shape[:axis], count, *table.shape[axis + 1 :])
    scales, zero_points = np.empty(shape, table.dtype), np.zeros(shape, integers.dtype)
    for number in range(count):
        part = (slice(None),) * axis + (slice(number * block_size, min(size, (number + 1) * block_size)),)
        one = (slice(None),) * axis + (slice(number, number + 1),)
        quantize = _symmetric if symmetric else _asymmetric
        with np.errstate(all="ignore"):  # blocks of zeros
            integers[part], scales[one], zero_points[one] = quantize(table[part], axis)
    return integers, scales, zero_points


def _symmetric(block: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    most, least = block.max(axis, keepdims=True), block.min(axis, keepdims=True)
    scale = np.where(np.abs(most) > np.abs(least), most, least) / -8.0
    integers = np.where(scale == 0, 0, block / scale).round().clip(-8, 7)
    return integers.astype(np.int8), scale, np.zeros(scale.shape, np.int8)


def _asymmetric(block: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    least, most = np.minimum(block.min(axis, keepdims=True), 0), np.maximum(block.max(axis, keepdims=True), 0)
    scale = (most - least) / 15.0
    zero_point = np.where(scale == 0, 8, -least / scale).round().clip(0, 15).astype(np.uint8)
    integers = np.where(scale == 0, 8, block / scale + zero_point).round().clip(0, 15)
    return integers.astype(np.uint8), scale, zero_point
