"""Pictures in files."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array

CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


class ImageDecoder(Operator, since=20):
    """The pixels [H, W, C] of the bytes of a file; [0, 0, C] if they are of no format that Pillow knows."""

    pixel_format: str = "RGB"

    def expand(self, encoded: Array) -> Array:
        channels = CHANNELS.get(self.pixel_format)
        if channels is None:
            raise ValueError(f"pixel_format {self.pixel_format!r} is none of {', '.join(CHANNELS)}")
        if encoded.dtype is not dtypes.uint8 or encoded.rank != 1:
            raise ValueError(f"the bytes of a file come as uint8[n], not {encoded.dtype}{p.show(encoded.shape)}")
        results = [(dtypes.uint8, (None, None, channels))]
        return p.host("image.decode", encoded, results=results, pixel_format=self.pixel_format)[0]
