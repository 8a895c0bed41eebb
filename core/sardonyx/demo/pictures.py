"""Pictures as arrays: read by Pillow where it is installed, else as PNG; resized by area."""

from __future__ import annotations

import os
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sardonyx.common import extras
from sardonyx.demo import png
from sardonyx.errors import InvalidArgument, NoSuchFile

if TYPE_CHECKING:
    from PIL import Image

LUMA = np.array([19595, 38470, 7471])
"""Weights of red, green and blue in grey, of 65,536 (ITU-R BT.601), as Pillow has them."""


def read(path: str | os.PathLike[str] | Traversable) -> NDArray[np.uint8]:
    """A picture, uint8 [height, width, channels]: grey, grey and alpha, RGB or RGBA, upright.

    Without Pillow only PNG is read, and its EXIF orientation is not. Raises NoSuchFile, or InvalidArgument for what is
    no picture.
    """
    path = Path(path) if isinstance(path, (str, os.PathLike)) else path
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise NoSuchFile(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise NoSuchFile(f"{path} is a folder; name a picture in it") from error
    except OSError as error:
        raise NoSuchFile(f"{path} cannot be read: {error.strerror}") from error
    try:
        return decode(data)
    except (ValueError, OSError) as error:
        raise InvalidArgument(f"{path}: {error}") from error


class UnknownFormatError(ValueError):
    """Bytes are in no format of pictures."""


def decode(data: bytes) -> NDArray[np.uint8]:
    """What `read` gives, from a file's bytes; UnknownFormatError, ValueError or OSError where they are no picture."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return _without_pillow(data)
    try:
        with Image.open(BytesIO(data)) as image:
            return of_image(image)
    except UnidentifiedImageError:
        raise _unknown(data) from None
    except (SyntaxError, Image.DecompressionBombError) as error:  # what Pillow raises for some damaged files
        raise ValueError(str(error)) from error


def _without_pillow(data: bytes) -> NDArray[np.uint8]:
    if data.startswith(png.SIGNATURE):
        return png.decode(data)
    if (name := format_of(data)) is None:
        raise _unknown(data)
    raise ValueError(f"this is a picture in {name}; without Pillow only PNG is read: {extras.install('pillow')}")


def _unknown(data: bytes) -> UnknownFormatError:
    return UnknownFormatError("this is no picture" if data else "the file is empty")


_SIGNATURES = {
    (0, b"\xff\xd8\xff"): "JPEG",
    (0, b"GIF8"): "GIF",
    (0, b"BM"): "BMP",
    (0, b"II*\0"): "TIFF",
    (0, b"MM\0*"): "TIFF",
    (8, b"WEBP"): "WebP",
    (4, b"ftypavif"): "AVIF",
    (4, b"ftypheic"): "HEIC",
}


def format_of(data: bytes) -> str | None:
    """The format of a picture by how its file begins, None for what is none of those that people have.

    >>> format_of(b"GIF89a..."), format_of(b"text")
    ('GIF', None)
    """
    found = (name for (start, mark), name in _SIGNATURES.items() if data[start : start + len(mark)] == mark)
    return "PNG" if data.startswith(png.SIGNATURE) else next(found, None)


def of_image(image: Image.Image) -> NDArray[np.uint8]:
    """What `read` gives, from Pillow's image in any mode."""
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    modes = {"LA": "LA", "1": "L", "L": "L"}
    mode = "RGBA" if upright.has_transparency_data else "RGB"
    return np.atleast_3d(np.asarray(upright.convert(modes.get(upright.mode, mode))))


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
