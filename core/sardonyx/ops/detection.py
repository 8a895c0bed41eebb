"""Detection: boxes that overlap, and what lies in regions of interest."""

from __future__ import annotations

from functools import reduce

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.bilinear import neighbours
from sardonyx.ops.lift import defaulted
from sardonyx.ops.operator import Operator, sample, scattered
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size, minimum

BOXES = scattered(2, 7, 4)
SCORES = scattered(2, 3, 7, seed=1)
IMAGES = 4 * scattered(2, 3, 6, 7, seed=2) - 2
REGIONS = np.array([[0, 0, 5.5, 4], [1, 2.2, 3.7, 8], [-3, 4, 9, 4.5]], np.float32)
ROIS = np.array([[0, 0, 0, 5, 4], [1, 1, 2, 3, 5], [1, -2, 3, 9, 4], [0, 7, 7, 9, 9]], np.float32)

LOWEST = float("-inf")
"""The largest of no elements."""


class NonMaxSuppression(Operator, since=10):
    """int64 [count, 3] of image, class and box: again and again the best box is taken, and with it go those whose
    intersection with it is more than `iou_threshold` of their union. All images and classes take turns together."""

    center_point_box: int = 0

    def expand(
        self,
        boxes: Array,
        scores: Array,
        most: Array | None = None,
        iou_threshold: Array | None = None,
        score_threshold: Array | None = None,
    ) -> Array:
        (room,) = [scores.shape[2]] if most is None or most.value is None else known_sizes(most)
        if most is None or (isinstance(room, int) and room <= 0):
            return constant(np.zeros((0, 3), np.int64))
        overlap = constant(0.0, dtypes.float32) if iou_threshold is None else p.reshape(iou_threshold, ())
        least = constant(LOWEST, dtypes.float32) if score_threshold is None else p.reshape(score_threshold, ())
        count = p.cast(p.reshape(most, ()), dtypes.int64)
        chosen = p.suppression(self._sides(boxes), scores, count, overlap, least, minimum(room, scores.shape[2]))
        taken = p.nonzero(chosen >= 0)
        image, kind, turn = (p.squeeze(p.slice_axis(taken, 0, k, 1), [0]) for k in range(3))
        box = p.cast(p.gather(chosen, [image, kind, turn], [0, 1, 2]), dtypes.int64)
        return p.concat([p.unsqueeze(column, [1]) for column in (image, kind, box)], 1)

    def _sides(self, boxes: Array) -> Array:
        """Top, left, bottom and right side of every box: [images, 4, boxes]."""
        a, b, c, d = (p.slice_axis(p.transpose(boxes, [0, 2, 1]), 1, k, 1) for k in range(4))
        if self.center_point_box:
            return p.concat([b - d / 2.0, a - c / 2.0, b + d / 2.0, a + c / 2.0], 1)
        return p.concat([p.minimum(a, c), p.minimum(b, d), p.maximum(a, c), p.maximum(b, d)], 1)

    samples = [
        sample(BOXES, SCORES, np.array([3]), np.array([0.5], np.float32), np.array([0.0], np.float32)),
        sample(BOXES, SCORES, np.array([2]), np.array([0.5], np.float32)),
        sample(BOXES, SCORES, np.array(9), np.array(0.2, np.float32), np.array(0.8, np.float32)),
        sample(BOXES, SCORES, np.array([3])),
        sample(BOXES, SCORES, np.array([3]), np.array([0.5], np.float32), np.array([2.0], np.float32)),
        sample(np.abs(BOXES) + 0.5, SCORES, np.array([3]), np.array([0.5], np.float32), center_point_box=1),
    ]


class RoiAlign(Operator, since=10):
    """Regions rois [count, 4] (left, top, right, bottom) of the images x [N, C, H, W] that `batch_indices` names, each
    cut into bins: [count, C, output_height, output_width]. A bin is the mean, or the largest, of samples on a grid,
    interpolated (He et al., 2017)."""

    coordinate_transformation_mode: str = "half_pixel"
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0

    def expand(self, x: Array, rois: Array, batch_indices: Array) -> Array:
        if self.mode not in ("avg", "max"):
            raise ValueError(f"mode {self.mode!r} is unknown; use avg or max")
        wide = p.widen(x)
        sides = p.cast(rois, wide.dtype) * self.spatial_scale
        if self.coordinate_transformation_mode == "half_pixel":
            sides = sides - 0.5
        left, top, right, bottom = (p.unsqueeze(p.slice_axis(sides, 1, k, 1), [2]) for k in range(4))
        # Axes: region, row of bins, row of samples, column of bins, column of samples, channel
        rows = [p.unsqueeze(item, [3, 4]) for item in self._grid(top, bottom, self.output_height, x.shape[2])]
        columns = [p.unsqueeze(item, [1, 2]) for item in self._grid(left, right, self.output_width, x.shape[3])]
        image = p.reshape(batch_indices, (rois.shape[0], 1, 1, 1, 1))
        parts = neighbours(wide, image, [rows[0], columns[0]])
        inside, drawn = (p.unsqueeze(rows[k] & columns[k], [5]) for k in (1, 2))
        count = p.reshape(rows[3] * columns[3], (rois.shape[0], 1, 1, 1))
        if self.mode == "avg":
            total = p.sum_(p.where(inside & drawn, reduce(Array.__add__, parts), 0), [2, 4])
            pooled = total / p.maximum(count, 1)
        else:
            largest = p.where(inside, reduce(p.maximum, parts), 0)
            pooled = p.where(count > 0, p.max_(p.where(drawn, largest, LOWEST), [2, 4]), 0)
        return p.cast(p.transpose(pooled, [0, 3, 1, 2]), x.dtype)

    def _grid(self, start: Array, end: Array, bins: int, size: Size) -> tuple[Array, Array, Array, Array]:
        """Samples along an axis [regions, bins, samples]: where they are, whether that is inside the image, whether the
        region has so many, and [regions, 1, 1] how many it has."""
        length = end - start
        if self.coordinate_transformation_mode != "half_pixel":
            length = p.maximum(length, 1)
        step = length / bins
        if self.sampling_ratio > 0:
            most: Size = self.sampling_ratio
            count = p.full(step.shape, self.sampling_ratio, step.dtype)
        else:
            count = p.maximum(p.ceil(step), 0)
            (most,) = known_sizes(p.cast(p.maximum(p.max_(count), 0), dtypes.int64))
        number = p.iota((1, 1, most), 2, start.dtype)
        place = start + (p.iota((1, bins, 1), 1, start.dtype) + (number + 0.5) / p.maximum(count, 1)) * step
        inside = (place >= -1) & (place <= size)
        return p.minimum(p.maximum(place, 0), size - 1), inside, number < count, count

    upgrades = {16: defaulted("coordinate_transformation_mode", "output_half_pixel")}
    samples = [
        sample(IMAGES, REGIONS, np.array([0, 1, 1]), output_height=2, output_width=3, sampling_ratio=2),
        sample(IMAGES, REGIONS, np.array([0, 1, 1]), output_height=3, output_width=2),
        sample(IMAGES, REGIONS, np.array([1, 0, 0]), output_height=2, output_width=2, spatial_scale=0.5, mode="max"),
        sample(
            IMAGES,
            REGIONS,
            np.array([1, 0, 0]),
            output_height=2,
            output_width=2,
            spatial_scale=1.5,
            coordinate_transformation_mode="output_half_pixel",
        ),
    ]


class MaxRoiPool(Operator):
    """The largest element in each bin of regions rois [count, 5] (image, left, top, right, bottom, rounded) of
    x [N, C, H, W]: [count, C, *pooled_shape]."""

    pooled_shape: tuple[int, ...]
    spatial_scale: float = 1.0

    def expand(self, x: Array, rois: Array) -> Array:
        image, left, top, right, bottom = (p.unsqueeze(p.slice_axis(p.widen(rois), 1, k, 1), [2]) for k in range(5))
        rows = [p.unsqueeze(item, [3, 4]) for item in self._bins(top, bottom, self.pooled_shape[0], x.shape[2])]
        columns = [p.unsqueeze(item, [1, 2]) for item in self._bins(left, right, self.pooled_shape[1], x.shape[3])]
        images = p.cast(p.unsqueeze(image, [3, 4]), dtypes.int32)
        elements = p.gather(x, [images, rows[0], columns[0]], [0, 2, 3])
        inside = p.unsqueeze(rows[1] & columns[1], [5])
        largest = p.max_(p.where(inside, elements, p.identity("max", x.dtype)), [2, 4])
        pooled = p.where(p.reduce(inside, "any", [2, 4]), largest, 0)
        return p.transpose(pooled, [0, 3, 1, 2])

    def _bins(self, start: Array, end: Array, bins: int, size: Size) -> tuple[Array, Array]:
        """int32 [regions, bins, most]: elements along an axis, and whether they are in the bin."""
        start, end = (_rounded(side * self.spatial_scale) for side in (start, end))
        step = p.maximum(end - start + 1, 1) / bins
        number = p.iota((1, bins, 1), 1, start.dtype)
        first, last = p.floor(number * step) + start, p.ceil((number + 1) * step) + start
        first, last = (p.cast(p.minimum(p.maximum(side, 0), size), dtypes.int32) for side in (first, last))
        (most,) = known_sizes(p.cast(p.maximum(p.max_(p.ceil(step)), 1), dtypes.int64))
        places = first + p.iota((1, 1, minimum(most + 1, size)), 2, dtypes.int32)
        return places, places < last

    samples = [
        sample(IMAGES, ROIS, pooled_shape=[2, 3]),
        sample(IMAGES, ROIS, pooled_shape=[3, 2], spatial_scale=0.5),
    ]


def _rounded(x: Array) -> Array:
    """The nearest integer, halves away from 0."""
    return p.trunc(x + p.sign(x) * 0.5)
