"""Turns a picture of one digit into the input of `digits.onnx`, as MNIST was made: box to size, mass to the centre."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sardonyx.demo.pictures import gray as to_gray
from sardonyx.demo.pictures import sampler

SIDE = 28
"""Width and height of the model's input, in pixels."""
BOX = 20
"""The longer side of the digit inside it, in pixels."""
DRIFT = 4
"""How far the centre of mass may push the digit's box off the middle, in pixels, so that nothing is cut off."""
FLOOR, CEILING = 0.25, 0.75
"""The part of the contrast that is kept: below is paper (its texture, its shadows), above is full ink."""
FAINTEST = 16
"""The least difference from the paper, of 255, that can be full ink: noise on an empty page stays paper."""
SPECK = 0.002
"""The share of the ink, at each of the four sides, that the box ignores."""


def digit(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The model's input, float32 [1, 1, 28, 28] in 0..1, from a picture as `pictures.read` gives it: uint8 [H, W, C].

    Transparent pixels become paper that contrasts with the rest.
    """
    gray = to_gray(pixels).astype(np.float64)
    if pixels.shape[2] in (2, 4):
        opacity = pixels[:, :, -1] / 255
        paper = 0.0 if (gray * opacity).sum() > 127.5 * opacity.sum() else 255.0
        gray = np.rint(paper + (gray - paper) * opacity)
    return digit_from_gray(gray.astype(np.uint8))


def digit_from_gray(gray: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The model's input, float32 [1, 1, 28, 28] in 0..1, from a uint8 image [H, W], dark on light or light on dark.

    An image of one colour gives zeros. Raises ValueError unless `gray` is two-dimensional, uint8 and not empty.

    >>> page = np.full((120, 90), 240, np.uint8)
    >>> page[30:70, 40:44] = 20  # a pen stroke, 40 by 4 pixels
    >>> x = digit_from_gray(page)
    >>> x.shape, np.argwhere(x[0, 0] == 1).min(axis=0).tolist(), np.argwhere(x[0, 0] == 1).max(axis=0).tolist()
    ((1, 1, 28, 28), [4, 13], [23, 14])
    """
    if gray.ndim != 2 or gray.dtype != np.uint8 or not gray.size:
        raise ValueError(f"digit_from_gray: got {gray.dtype} {list(gray.shape)}; pass one grey image, uint8 [H, W]")
    ink = _ink(gray)
    result = np.zeros((SIDE, SIDE))
    if ink.any():
        (top, bottom, middle), (left, right, centre) = _extent(ink.sum(axis=1)), _extent(ink.sum(axis=0))
        step = max(bottom - top, right - left) / BOX
        middle = _near(middle, (top + bottom) / 2, DRIFT * step)
        centre = _near(centre, (left + right) / 2, DRIFT * step)
        result = sampler(SIDE, len(ink), middle, step) @ ink @ sampler(SIDE, ink.shape[1], centre, step).T
        result /= result.max()
    return result.astype(np.float32)[None, None]


def _ink(gray: NDArray[np.uint8]) -> NDArray[np.float64]:
    """How much ink each pixel holds, 0..1: its distance from the paper, which is the median of the outermost pixels."""
    paper = np.median(np.concatenate([gray[0], gray[-1], gray[:, 0], gray[:, -1]]))
    difference = gray.astype(np.float64) - paper
    if -difference.min() > difference.max():  # dark on light
        difference = -difference
    contrast = difference / max(difference.max(), FAINTEST)
    ink: NDArray[np.float64] = np.clip((contrast - FLOOR) / (CEILING - FLOOR), 0, 1)
    return ink


def _extent(profile: NDArray[np.float64]) -> tuple[float, float, float]:
    """Start, stop and centre of mass of the ink along one axis, in pixels; `profile` sums each row or column."""
    total = np.cumsum(profile)
    start, stop = np.searchsorted(total, [SPECK * total[-1], (1 - SPECK) * total[-1]])
    return float(start), float(stop + 1), float(profile @ (np.arange(len(profile)) + 0.5) / total[-1])


def _near(value: float, middle: float, reach: float) -> float:
    return min(max(value, middle - reach), middle + reach)
