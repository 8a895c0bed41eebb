"""Small pictures in a terminal: a character of braille is two dots wide and four high."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.demo.pictures import resize

WIDTH, HEIGHT = 8, 4
"""Size of a picture, in characters."""
MARGIN = 2
"""What is cut off at each side of the model's input: it is nearly always empty."""
INK = 0.45
"""How dark a dot must be to be drawn."""
DOTS = np.array([[1, 8], [2, 16], [4, 32], [64, 128]])
"""The bits of a character's dots, from U+2800 on."""


def draw(image: np.ndarray) -> list[str]:
    """A square picture [side, side] in 0..1 as lines of characters.

    >>> draw(np.eye(20, dtype=np.float32))
    ['⠑⢄⠀⠀⠀⠀⠀⠀', '⠀⠀⠑⢄⠀⠀⠀⠀', '⠀⠀⠀⠀⠑⢄⠀⠀', '⠀⠀⠀⠀⠀⠀⠑⢄']
    """
    inner = np.rint(image[MARGIN:-MARGIN, MARGIN:-MARGIN, None] * 255).astype(np.uint8)
    dots = resize(inner, 4 * HEIGHT, 2 * WIDTH)[:, :, 0] > INK * 255
    codes = (dots.reshape(HEIGHT, 4, WIDTH, 2).transpose(0, 2, 1, 3) * DOTS).sum(axis=(2, 3))
    return ["".join(chr(0x2800 + code) for code in row) for row in codes.tolist()]


def gallery(images: Sequence[np.ndarray], captions: Sequence[str], width: int) -> list[str]:
    """Lines of pictures side by side in this many columns, with a caption under each."""
    most = max(width // WIDTH, 1)
    lines = []
    for start in range(0, len(images), most):
        drawn = [draw(image) for image in images[start : start + most]]
        lines += ["".join(row) for row in zip(*drawn, strict=True)]
        lines += ["".join(caption.center(WIDTH) for caption in captions[start : start + most]), ""]
    return lines
