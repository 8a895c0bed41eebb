"""Pictures as arrays: brightness, resizing by area, and what `sardonyx.host.pictures` reads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sardonyx.host.pictures import UnknownFormatError, decode, format_of, of_image, read

__all__ = ["UnknownFormatError", "decode", "format_of", "gray", "of_image", "on_white", "read", "resize", "sampler"]

LUMA = np.array([19595, 38470, 7471])
"""Weights of red, green and blue in grey, of 65,536 (ITU-R BT.601), as Pillow has them."""


def gray(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The brightness of each pixel, uint8 [height, width], from any of the forms that `read` gives; no alpha."""
    if pixels.shape[2] < 3:
        return pixels[:, :, 0]
    shade: NDArray[np.uint8] = ((pixels[:, :, :3] @ LUMA + 0x8000) >> 16).astype(np.uint8)
    return shade


def sampler(count: int, size: int, centre: float, step: float) -> NDArray[np.float64]:
    """The matrix [count, size] that resizes one axis: `step` source pixels to a pixel, `centre` goes to the middle.

    A row averages the stretch of `max(step, 1)` source pixels around its centre: resizing by area when the picture
    shrinks, linear interpolation when it grows. Outside the picture everything is 0.
    """
    width = max(step, 1.0)
    start = centre + (np.arange(count) + 0.5 - count / 2)[:, None] * step - width / 2
    pixel = np.arange(size)
    overlap: NDArray[np.float64] = np.minimum(start + width, pixel + 1) - np.maximum(start, pixel)
    return overlap.clip(0) / width


def resize(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.float64]:
    """A picture [H, W, channels] stretched to [height, width, channels], float64 in 0..255.

    >>> resize(np.array([[[0], [100]], [[100], [200]]], np.uint8), 1, 1).tolist()
    [[[100.0]]]
    """
    result = pixels.astype(np.float64)
    for axis, count in enumerate((height, width)):
        size = pixels.shape[axis]
        matrix = sampler(count, size, size / 2, size / count)
        matrix /= matrix.sum(axis=1, keepdims=True)
        result = np.moveaxis(np.tensordot(matrix, result, (1, axis)), 0, axis)
    return result


def on_white(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A picture without its alpha channel, where it has one: what is transparent shows white."""
    if pixels.shape[2] in (1, 3):
        return pixels
    color, opacity = pixels[:, :, :-1].astype(np.float64), pixels[:, :, -1:] / 255
    return np.rint(255 + (color - 255) * opacity).astype(np.uint8)
