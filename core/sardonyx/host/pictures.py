"""Pictures as arrays: read by Pillow where it is installed, else as PNG."""

from __future__ import annotations

import os
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sardonyx.common import extras
from sardonyx.errors import InvalidArgument, NoSuchFile
from sardonyx.host import png

if TYPE_CHECKING:
    from PIL import Image


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


DEEP = ("I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's modes of grey in 16 bits, which its own conversion to 8 bits cuts off at 255."""


def of_image(image: Image.Image) -> NDArray[np.uint8]:
    """What `read` gives, from Pillow's image in any mode; of 16 bits the upper 8.

    Raises ValueError for wider levels, since nothing says which of them is white.
    """
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    if upright.mode in DEEP or (upright.mode == "I" and image.format == "PNG"):  # older ones of Pillow say so
        return np.atleast_3d((np.asarray(upright).astype(np.int64) >> 8).astype(np.uint8))
    if upright.mode in ("I", "F"):
        kind = "float32" if upright.mode == "F" else "int32"
        raise ValueError(f"the picture's levels are {kind}: scale them to 0..255, and give an array of uint8")
    modes = {"LA": "LA", "1": "L", "L": "L"}
    mode = "RGBA" if upright.has_transparency_data else "RGB"
    return np.atleast_3d(np.asarray(upright.convert(modes.get(upright.mode, mode))))
