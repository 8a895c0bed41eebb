"""From any picture of one digit to the input of `digits.onnx`; `sardonyx.demo.digits` does the work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sardonyx.demo import digits, pictures
from sardonyx.demo.digits import digit_from_gray

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["digit", "digit_from_gray"]


def digit(image: Image.Image | str | os.PathLike[str]) -> NDArray[np.float32]:
    """The model's input, float32 [1, 1, 28, 28] in 0..1, from a Pillow image or the path of one, in any mode and size.

    Transparent pixels become paper that contrasts with the rest; a photo is turned upright by its EXIF orientation.
    """
    if isinstance(image, (str, os.PathLike)):
        return digits.digit(pictures.read(image))
    return digits.digit(pictures.of_image(image))
