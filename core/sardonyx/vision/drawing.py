"""Pictures with what was found drawn into them: boxes, outlines and masks, a colour for each class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sardonyx.vision.detector import Found

COLORS = ((230, 57, 70), (29, 132, 181), (42, 157, 80), (244, 162, 30), (131, 56, 236), (0, 150, 136))
"""Of classes, by their numbers, again and again."""
VEIL = 0.5
"""How much of a mask's colour there is, and how little of the picture."""
SAMPLES = 4
"""Places along an axis of which a pixel of a smaller picture is a mean."""
FINEST = 300
"""The part of the longer side that a line is wide."""

Pixels = NDArray[np.uint8]


def color_of(number: int) -> tuple[int, int, int]:
    """The colour of a class."""
    return COLORS[number % len(COLORS)]


def boxed(pixels: Pixels, objects: Sequence[Found], scale: float = 1.0) -> Pixels:
    """A picture [height, width, 3] with the edges of boxes, surer ones on top; `scale` of its pixels are one of
    those that the boxes are told in."""
    whole = pixels.copy()
    height, width = whole.shape[:2]
    line = max(1, round(max(height, width) / FINEST))
    for each in reversed(objects):
        left, right = (min(max(round(scale * side), 0), width) for side in each.box[::2])
        top, bottom = (min(max(round(scale * side), 0), height) for side in each.box[1::2])
        color = color_of(each.number)
        whole[top : min(top + line, bottom), left:right] = color
        whole[max(bottom - line, top) : bottom, left:right] = color
        whole[top:bottom, left : min(left + line, right)] = color
        whole[top:bottom, max(right - line, left) : right] = color
    return whole


def outlined(pixels: Pixels, polygons: Iterable[Sequence[tuple[float, float]]]) -> Pixels:
    """A picture [height, width, 3] with the edges of polygons."""
    whole = pixels.copy()
    height, width = whole.shape[:2]
    line = max(1, round(max(height, width) / FINEST))
    for polygon in polygons:
        for start, end in zip(polygon, [*polygon[1:], polygon[0]]):
            count = 2 + int(2 * np.hypot(end[0] - start[0], end[1] - start[1]))
            x, y = (np.linspace(*ends, count).astype(np.int64) - line // 2 for ends in zip(start, end))
            for k in range(line * line):
                whole[(y + k // line).clip(0, height - 1), (x + k % line).clip(0, width - 1)] = COLORS[0]
    return whole


def veiled(pixels: Pixels, mask: Pixels) -> Pixels:
    """A picture [height, width, 3] under the colours of a mask [height, width]; class 0, the ground, has none."""
    table = np.array([color_of(number) for number in range(256)])
    colored = pixels + VEIL * (table[mask] - pixels.astype(np.float64))
    return np.where(mask[:, :, None] > 0, colored, pixels).astype(np.uint8)


def placed(pixels: Pixels, height: int, width: int) -> Pixels:
    """The pixels of a picture or a mask that lie in the middles of [height, width] parts."""
    rows, columns = (
        ((2 * np.arange(count) + 1) * size // (2 * count)).clip(0, size - 1)
        for count, size in zip((height, width), pixels.shape)
    )
    found: Pixels = pixels[rows[:, None], columns]
    return found


def resized(pixels: Pixels, height: int, width: int) -> Pixels:
    """A picture [height, width, 3] in another size, for eyes: where it shrinks, a pixel is a mean of up to 16."""
    if pixels.shape[:2] == (height, width):
        return pixels
    down, across = (min(SAMPLES, max(1, size // count)) for size, count in zip(pixels.shape, (height, width)))
    samples = placed(pixels, height * down, width * across)
    if down == across == 1:
        return samples
    parts = samples.reshape(height, down, width, across, -1)
    means: Pixels = parts.mean((1, 3), dtype=np.float32).astype(np.uint8)
    return means
