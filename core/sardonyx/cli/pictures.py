"""Pictures as inputs, and outputs as pictures."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sardonyx.cli.normalization import Normalization
from sardonyx.common import extras
from sardonyx.common.dtypes import DType
from sardonyx.demo import pictures
from sardonyx.errors import InvalidArgument
from sardonyx.host import png
from sardonyx.model.ir.types import DimLike

GREY, RGB, RGBA = 0, 2, 6
COLORS = {1: GREY, 3: RGB, 4: RGBA}
"""PNG's colour types by the number of channels."""
UNIT = 2.0
"""Floats up to here are taken as 0..1, as those of pictures are, with some overshoot; larger ones as 0..255."""


def as_input(
    pixels: NDArray[np.uint8],
    name: str,
    dtype: DType,
    shape: Sequence[DimLike],
    normalization: Normalization | None = None,
) -> np.ndarray:
    """A picture [H, W, C] as an input: resized, its channels where the shape has 1 or 3, floats in 0..1 or normalized.

    NCHW, NHWC, CHW, HWC and HW are told apart by where the shape has 1 or 3 channels, the first that fits in this
    order; sizes that the model leaves open are the picture's own. Transparent pixels are laid on white.
    """
    layout = _layout(shape)
    if layout is None:
        raise InvalidArgument(
            f"input {name!r} [{', '.join('?' if size is None else str(size) for size in shape)}] is not shaped like a "
            "picture (NCHW, NHWC, CHW, HWC or HW with 1 or 3 channels); give a .npy file"
        )
    if dtype.name not in ("float16", "float32", "float64", "uint8"):
        raise InvalidArgument(f"input {name!r} is {dtype.name}; pictures become floats or uint8, give a .npy file")
    wanted = dict(zip(layout, shape, strict=True))
    if isinstance(batch := wanted.get("N"), int) and batch != 1:
        raise InvalidArgument(f"input {name!r} wants {batch} pictures at once; give a .npy file")
    opaque = pictures.on_white(pixels)
    if wanted.get("C", 1) == 1:
        opaque = pictures.gray(opaque)[:, :, None]
    elif opaque.shape[2] == 1:
        opaque = opaque.repeat(3, axis=2)
    height, width = (size if isinstance(size := wanted[axis], int) else pixels.shape[k] for k, axis in enumerate("HW"))
    picture = pictures.resize(opaque, height, width)
    if dtype.name == "uint8":
        if normalization is not None:
            raise InvalidArgument(f"{normalization.option}: input {name!r} is uint8, and takes pixels as they are")
        picture = np.rint(picture)
    else:
        picture = picture / 255 if normalization is None else normalization(picture, name)
    places = {"H": 0, "W": 1, "C": 2}
    picture = picture if "C" in layout else picture[:, :, 0]
    picture = picture.transpose([places[axis] for axis in layout if axis != "N"])
    return (picture[None] if "N" in layout else picture).astype(dtype.storage)


def _layout(shape: Sequence[DimLike]) -> str | None:
    """What the axes of a picture's shape are, or None: a channel axis that is named counts as three channels."""
    for layout in ("NCHW", "NHWC", "CHW", "HWC", "HW"):
        channels = shape[layout.find("C")] if "C" in layout and len(layout) == len(shape) else 1
        if len(layout) == len(shape) and channels in (1, 3):
            return layout
    return {4: "NCHW", 3: "CHW"}.get(len(shape)) if not all(isinstance(size, int) for size in shape) else None


def of_output(name: str, array: np.ndarray) -> NDArray[np.uint8]:
    """An output as a picture [H, W, C]: HW, CHW or HWC with 1, 3 or 4 channels, or one of these in a batch of one."""
    inner = array
    while inner.ndim > 2 and inner.shape[0] == 1:
        inner = inner[0]
    if inner.ndim == 2:
        inner = inner[:, :, None]
    elif inner.ndim == 3 and inner.shape[0] in COLORS:
        inner = inner.transpose(1, 2, 0)
    if inner.ndim != 3 or inner.shape[2] not in COLORS or not inner.size or inner.dtype.kind not in "fiub":
        raise InvalidArgument(f"output {name!r} {list(array.shape)} is not shaped like a picture; write a .npy file")
    values = np.nan_to_num(inner.astype(np.float64))
    if array.dtype.kind == "b" or (array.dtype.kind == "f" and values.max() <= UNIT):
        values = values * 255
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)


def refuse_several(option: str, path: Path | None, pictures: Sequence[str]) -> None:
    """InvalidArgument where an option names one picture to write, and several are given."""
    if path is not None and len(pictures) > 1:
        raise InvalidArgument(f"{option} {path} draws one picture, and {len(pictures)} are given")


def encode(pixels: NDArray[np.uint8], suffix: str) -> bytes:
    """The file of a picture [H, W, C]; for anything but .png Pillow is needed."""
    if suffix == ".png":
        return _png(pixels)
    try:
        from PIL import Image
    except ImportError:
        raise InvalidArgument(f"without Pillow pictures are written as .png; {extras.install('pillow')}") from None
    stream = io.BytesIO()
    Image.fromarray(pictures.on_white(pixels).squeeze()).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def _png(pixels: NDArray[np.uint8]) -> bytes:
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLORS[channels], 0, 0, 0)
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each starts with the filter 0
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    parts = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return png.SIGNATURE + b"".join(parts)
