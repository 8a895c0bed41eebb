"""Functions of the host that read pictures."""

from __future__ import annotations

import io

import numpy as np

from sardonyx.common import extras
from sardonyx.errors import NotImplemented
from sardonyx.host import host_function


@host_function("image.decode")
def decode(encoded: np.ndarray, *, pixel_format: str) -> np.ndarray:
    """The pixels uint8[H, W, C] of a file's bytes uint8[n], channels as in `pixel_format`; [0, 0, C] if unreadable."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError as error:
        raise NotImplemented(f"ImageDecoder reads pictures with Pillow; {extras.install('pillow')}") from error
    try:
        with Image.open(io.BytesIO(encoded.tobytes())) as file:
            picture = file.convert("L" if pixel_format == "Grayscale" else "RGB")
    except (UnidentifiedImageError, OSError, SyntaxError):
        return np.zeros((0, 0, 1 if pixel_format == "Grayscale" else 3), np.uint8)
    pixels = np.asarray(picture, np.uint8)
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return pixels[:, :, ::-1] if pixel_format == "BGR" else pixels
