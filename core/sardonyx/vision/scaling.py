"""Pictures in another size or cut out turned, where that depends on what was found, so that no plan can have it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def scaled(pixels: NDArray[np.uint8] | Floats, height: int, width: int) -> Floats:
    """A picture [H, W, channels] stretched to float32 [height, width, channels]: bilinear with antialiasing, as
    `sardonyx.passes.picture` has it.

    >>> scaled(np.array([[[0], [100]], [[100], [200]]], np.uint8), 1, 1).tolist()
    [[[100.0]]]
    """
    return _along(_along(pixels, height, 0), width, 1)


def _along(pixels: NDArray[np.uint8] | Floats, count: int, axis: int) -> Floats:
    size = pixels.shape[axis]
    if size == count:
        return pixels.astype(np.float32)
    step = size / count
    reach = max(step, 1.0)
    places = (np.arange(count) + 0.5) * step - 0.5
    first = np.floor(places - reach).astype(np.int64) + 1
    shape = [-1 if k == axis else 1 for k in range(3)]
    total = np.zeros(count)
    result = np.zeros([count if k == axis else side for k, side in enumerate(pixels.shape)], np.float32)
    for tap in range(int(2 * reach) + 1):
        index = first + tap
        weights = (1 - np.abs(index - places) / reach).clip(0) * ((index >= 0) & (index < size))
        if weights.any():
            total += weights
            taken = pixels.take(index.clip(0, size - 1), axis)
            result += taken * weights.astype(np.float32).reshape(shape)
    result /= total.astype(np.float32).reshape(shape)
    return result


def cut(pixels: NDArray[np.uint8], corners: NDArray[np.float64], height: int, width: int) -> Floats:
    """The part of a picture [H, W, channels] within a parallelogram, as float32 [height, width, channels].

    `corners` [4, 2], x before y, are those of the part's first row, then of its last one from right to left; pixels
    lie at 0.5, 1.5 ... In between it is bilinear, and beyond the picture its edge goes on.
    """
    origin, right, down = corners[0], corners[1] - corners[0], corners[3] - corners[0]
    u, v = ((np.arange(count) + 0.5) / count for count in (width, height))
    x, y = (origin[k] + v[:, None] * down[k] + u * right[k] - 0.5 for k in (0, 1))
    x, y = x.clip(0, pixels.shape[1] - 1), y.clip(0, pixels.shape[0] - 1)
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    part_x, part_y = (x - left)[..., None].astype(np.float32), (y - top)[..., None].astype(np.float32)
    next_x, next_y = (left + 1).clip(max=pixels.shape[1] - 1), (top + 1).clip(max=pixels.shape[0] - 1)
    upper = pixels[top, left] * (1 - part_x) + pixels[top, next_x] * part_x
    lower = pixels[next_y, left] * (1 - part_x) + pixels[next_y, next_x] * part_x
    result: Floats = upper * (1 - part_y) + lower * part_y
    return result
