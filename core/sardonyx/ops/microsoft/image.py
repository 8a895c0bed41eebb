"""Windows and crops of images, as onnxruntime had them before ONNX, or beside it."""

from __future__ import annotations

from functools import reduce
from itertools import product as taps

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.bilinear import neighbours
from sardonyx.ops.convolution import ConvTranspose
from sardonyx.ops.grid_sample import MODES, GridSample
from sardonyx.ops.operator import Operator, sample, scattered
from sardonyx.ops.pooling import Pool
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size, product

MICROSOFT = "com.microsoft"
MASK = (3 * scattered(1, 1, 4, 4)).astype(np.int32)
LOWEST = float(np.finfo(np.float32).min)


class ConvTransposeWithDynamicPads(ConvTranspose, domain=MICROSOFT):
    """ConvTranspose, its pads an input between weights and bias."""

    def expand(self, x: Array, w: Array, pads: Array, b: Array | None = None) -> Array:  # type: ignore[override]
        self.pads = tuple(int(width) for width in known_sizes(pads))
        return super().expand(x, w, b)

    upgrades = {}
    downgrades = {}
    samples = []


class MicrosoftGridSample(GridSample, domain=MICROSOFT, name="GridSample"):
    """ONNX's GridSample under the names that modes had first: bilinear, nearest, bicubic."""

    mode: str = "bilinear"

    def expand(self, x: Array, grid: Array) -> Array:
        self.mode = MODES.get(self.mode, self.mode)
        return super().expand(x, grid)

    upgrades = {}
    downgrades = {}

    samples = [
        sample((1, 2, 3, 4), (1, 2, 5, 2)),
        sample((1, 1, 4, 4), (1, 2, 3, 2), mode="bicubic", padding_mode="border"),
        sample((1, 1, 4, 4), (1, 2, 3, 2), mode="nearest", align_corners=1),
    ]


class CropAndResize(Operator, domain=MICROSOFT):
    """Boxes [count, 4] (top, left, bottom, right, from 0 to 1) of the images x [N, C, H, W] that `batch_indices` names,
    sampled on a grid of `crop_size` (height, width) whose corners are theirs: [count, C, height, width].

    A grid of one place is in the middle. Places outside the image give `extrapolation_value`.
    """

    extrapolation_value: float = 0.0
    mode: str = "bilinear"

    def expand(self, x: Array, rois: Array, batch_indices: Array, crop_size: Array) -> Array:
        if self.mode not in ("bilinear", "nearest"):
            raise ValueError(f"mode {self.mode!r} is unknown; use bilinear or nearest")
        height, width = known_sizes(crop_size)
        wide = p.widen(x)
        top, left, bottom, right = (p.slice_axis(p.cast(rois, wide.dtype), 1, k, 1) for k in range(4))
        rows = p.unsqueeze(_places(top, bottom, height, x.shape[2]), [2])
        columns = p.unsqueeze(_places(left, right, width, x.shape[3]), [1])
        image = p.reshape(batch_indices, (rois.shape[0], 1, 1))
        if self.mode == "nearest":
            nearest = [p.cast(_rounded(place), dtypes.int32) for place in (rows, columns)]
            crops = p.gather(wide, [image, *nearest], [0, 2, 3])
        else:
            crops = reduce(Array.__add__, neighbours(wide, image, [rows, columns]))
        inside = _inside(rows, x.shape[2]) & _inside(columns, x.shape[3])
        crops = p.where(p.unsqueeze(inside, [3]), crops, self.extrapolation_value)
        return p.cast(p.transpose(crops, [0, 3, 1, 2]), x.dtype)


def _places(start: Array, end: Array, count: Size, size: Size) -> Array:
    """Where samples [boxes, count] are on an axis of an image; the middle if it is one."""
    if count == 1:
        return (start + end) * 0.5 * (size - 1)
    step = (end - start) * (size - 1) / (count - 1)
    return start * (size - 1) + p.iota((1, count), 1, start.dtype) * step


def _inside(place: Array, size: Size) -> Array:
    return (place >= 0) & (place <= size - 1)


def _rounded(x: Array) -> Array:
    """The nearest integer, halves up."""
    whole = p.floor(x)
    return p.where(x - whole >= 0.5, whole + 1, whole)


class MaxpoolWithMask(Pool, domain=MICROSOFT):
    """The largest element under each window of x [N, C, *spatial], of those that no masked one comes before, or is, in
    the same row of the window; the lowest float where there is none.

    The mask int32 [n, c, *spatial] is 0 for masked elements; the images of x take those of the mask in turn. The first
    element of an image counts always, unless there is but one spatial axis.
    """

    storage_order: int = 0

    def expand(self, x: Array, mask: Array) -> Array:
        if mask.rank != x.rank or not all(a == b for a, b in zip(mask.shape[2:], x.shape[2:], strict=True)):
            raise ValueError(f"mask {p.show(mask.shape)} and x {p.show(x.shape)} differ in their spatial axes")
        windows, spatial, count = self.windows(x), x.shape[2:], product(x.shape[:2])
        unmasked = p.reshape(p.not_equal(mask, 0), (product(mask.shape[:2]), *spatial))
        if len(spatial) > 1:
            unmasked = unmasked | p.equal(p.reshape(p.iota((product(spatial),), 0), (1, *spatial)), 0)
        images = p.gather(unmasked, [p.iota((count,), 0) % unmasked.shape[0]], [0])
        low, high = [0, *windows["low"]], [0, *windows["high"]]
        lines = p.pad(p.reshape(x, (count, *spatial)), low, high, LOWEST)
        marks = p.pad(p.cast(images, dtypes.uint8), low, high, 1)
        sizes = [count, *(p.windows(size, *axis) for size, *axis in zip(spatial, *windows.values(), strict=True))]
        best = p.full(sizes, LOWEST, x.dtype)
        for row in taps(*map(range, self.kernel_shape[:-1])):
            seen: Array | None = None
            for column in range(self.kernel_shape[-1]):
                starts = [k * step for k, step in zip((*row, column), windows["dilations"], strict=True)]
                value, mark = (p.slice_(each, [0, *starts], sizes, [1, *windows["strides"]]) for each in (lines, marks))
                seen = p.equal(mark, 1) if seen is None else seen & p.equal(mark, 1)
                best = p.where(seen & (value > best), value, best)
        return p.reshape(best, (*x.shape[:2], *sizes[1:]))

    samples = [
        sample((1, 2, 4, 4), MASK, kernel_shape=[2, 2]),
        sample((2, 1, 4, 4), MASK, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
        sample((1, 1, 6), np.array([[[0, 1, 1, 0, 1, 1]]], np.int32), kernel_shape=[3]),
    ]
