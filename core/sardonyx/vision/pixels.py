"""Pictures in whatever form people have them, as bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sardonyx.errors import InvalidArgument
from sardonyx.host import pictures

if TYPE_CHECKING:
    from PIL.Image import Image

PictureLike: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | NDArray[Any] | Image"
"""A file's path or bytes, Pillow's image, or an array [height, width] or [height, width, 1 to 4]."""
ORDERS = {"rgb": slice(None), "bgr": slice(None, None, -1)}


def pixels_of(picture: PictureLike, order: str = "rgb", channels: int = 3) -> NDArray[np.uint8]:
    """A picture as uint8 [height, width, channels], 3 or 4 of them: red, green, blue, and opacity that nobody reads.

    Arrays are of uint8, grey, grey and opacity, or with 3 or 4 channels in this `order`, "rgb" or, as OpenCV has it,
    "bgr". Raises InvalidArgument for what is no picture or has no pixels, NoSuchFile for a path to none.

    >>> pixels_of(np.array([[7]], np.uint8)).tolist()
    [[[7, 7, 7]]]
    """
    if order not in ORDERS:
        raise InvalidArgument(f"order={order!r}: write {' or '.join(ORDERS)}")
    found = _array(picture)
    if found.shape[2] < 3:
        found = found[:, :, :1].repeat(3, 2)
    colors = found[:, :, :3][:, :, ORDERS[order] if isinstance(picture, np.ndarray) else ORDERS["rgb"]]
    if channels == 3:
        return np.ascontiguousarray(colors)
    whole = np.full((*colors.shape[:2], channels), 255, np.uint8)
    whole[:, :, :3] = colors
    return whole


def _array(picture: PictureLike) -> NDArray[np.uint8]:
    """[height, width, 1 to 4]."""
    if isinstance(picture, (bytes, bytearray, memoryview)):
        try:
            return pictures.decode(bytes(picture))
        except (ValueError, OSError) as error:
            raise InvalidArgument(f"the picture's {len(picture)} bytes: {error}") from error
    if isinstance(picture, (str, os.PathLike)):
        return pictures.read(picture)
    if not isinstance(picture, np.ndarray):
        if not hasattr(picture, "convert"):
            raise InvalidArgument(
                f"a {type(picture).__name__} is no picture: give a path, bytes, an image of Pillow or an array"
            )
        try:
            return pictures.of_image(picture)
        except (ValueError, OSError) as error:
            raise InvalidArgument(str(error)) from error
    if picture.dtype != np.uint8:
        hint = "; multiply by 255 and cast what lies in 0..1" if picture.dtype.kind == "f" else ""
        raise InvalidArgument(f"the picture's array is {picture.dtype}, and levels are uint8{hint}")
    found = picture[:, :, None] if picture.ndim == 2 else picture
    if found.ndim != 3 or not 1 <= found.shape[2] <= 4:
        raise InvalidArgument(f"the picture's array is {list(picture.shape)}: give [height, width, 1 to 4]")
    if not found.size:
        raise InvalidArgument(f"the picture's array is {list(picture.shape)}, which has no pixels")
    return found
