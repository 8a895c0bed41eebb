"""Resize: images (of any rank) sampled anew, one axis after the other."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.memory import EAGER
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import attribute
from sardonyx.ops.lift import defaulted, to_input
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.evaluation import evaluate
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size, same


class Line(NamedTuple):
    """How one axis is resized: from `size` to `target` places, by the factor `up` / `down`.

    The factor is a ratio of sizes, so that coordinates which are whole numbers come out whole; where only the run
    tells it, `up` is an Array. `crop` is the start and the end of the region of interest, from 0 to 1.
    """

    size: Size
    target: Size
    up: Size | Array
    down: Size
    crop: tuple[Array, Array] | None = None

    @property
    def keeps(self) -> bool:
        """Whether nothing changes along this axis."""
        if self.crop is not None or isinstance(self.up, Array):
            return False
        return self.target == self.size and (same(self.up, self.down) or self.up == self.down)

    def places(self) -> Array:
        """0, 1, ... in the type of coordinates: float64 if they are computed while tracing, else float32."""
        is_static = isinstance(self.target, int) and isinstance(self.size, int) and not isinstance(self.up, Array)
        if self.crop is not None and any(side.value is None for side in self.crop):
            is_static = False
        return _counted(self.target, dtypes.float64 if is_static else dtypes.float32)

    def reach(self, support: int) -> Size:
        """How far a filter reaches that is widened by the factor of shrinking, if there is one."""
        if isinstance(self.up, Array):
            wide = p.maximum(self.down / self.up, 1.0) * support
            return known_sizes(p.cast(p.ceil(wide), dtypes.int64))[0]
        return support if self.up >= self.down else (support * self.down + self.up - 1) // self.up

    def shrunk(self, distance: Array) -> Array:
        """A distance divided by the factor of shrinking, if there is one."""
        if isinstance(self.up, Array):
            return distance * p.minimum(self.up / self.down, 1.0)
        return distance if self.up >= self.down else distance * self.up / self.down


def _half_pixel(place: Array, line: Line) -> Array:
    return ((place * 2 + 1) * line.down / line.up - 1) / 2


def _half_pixel_symmetric(place: Array, line: Line) -> Array:
    return ((place * 2 + (1 - line.target)) * line.down / line.up + (line.size - 1)) / 2


def _pytorch_half_pixel(place: Array, line: Line) -> Array:
    return place if line.target == 1 else _half_pixel(place, line)


def _align_corners(place: Array, line: Line) -> Array:
    if line.target == 1:
        return place
    return place * ((line.size - 1) * line.down) / (line.up * line.size - line.down)


def _cropped(line: Line, start: Array, end: Array, is_outer: bool) -> Line:
    """A line with its region of interest; batch and channels of images stay whole, as in onnxruntime, if they keep."""
    if is_outer and line.keeps:
        return line
    if is_outer and isinstance(line.up, Array):
        keeps = p.equal(line.up, line.down)
        start, end = p.where(keeps, 0.0, start), p.where(keeps, 1.0, end)
    return line._replace(crop=(start, end))


def _crop(place: Array, line: Line) -> Array:
    assert line.crop is not None
    start, end = (p.cast(side, place.dtype) for side in line.crop)
    if line.target == 1:
        return place + (start + end) * (line.size - 1) / 2
    return place * (end - start) * (line.size - 1) / (line.target - 1) + start * (line.size - 1)


COORDINATES: dict[str, Callable[[Array, Line], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": lambda place, line: place * line.down / line.up,
    "tf_half_pixel_for_nn": lambda place, line: (place * 2 + 1) * line.down / line.up / 2,
    "tf_crop_and_resize": _crop,
}
"""Where each place of the result lies in the operand."""

NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: p.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: p.floor(x + 0.5),
    "floor": p.floor,
    "ceil": p.ceil,
}

SUPPORT = {"linear": 1, "cubic": 2}
"""How far the filters reach."""


def _has_region(node: Node) -> bool:
    """The input `roi` could not be left out."""
    return len(node.inputs) > 1 and node.inputs[1] is not None


def _asymmetric(node: Node, make: Rewriter) -> None:
    """Resize(x, scales) -> Resize(x, None, scales) with the only coordinates there were: shrinking rounded them up."""
    scales = node.inputs[1]
    node.inputs.insert(1, None)
    shrinks = scales is not None and scales.constant is not None and bool((scales.constant.array() <= 1).all())
    defaulted("coordinate_transformation_mode", "asymmetric")(node, make)
    defaulted("nearest_mode", "ceil" if shrinks else "floor")(node, make)


class Resize(Operator, since=10):
    """The operand at other sizes, interpolated; either `scales` or `sizes` says which."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    antialias: int = 0
    axes: tuple[int, ...] | None = None
    keep_aspect_ratio_policy: str = "stretch"

    def expand(
        self, x: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None
    ) -> Array:
        for name, value, choices in (
            ("mode", self.mode, ("nearest", *SUPPORT)),
            ("nearest_mode", self.nearest_mode, NEAREST),
            ("coordinate_transformation_mode", self.coordinate_transformation_mode, COORDINATES),
        ):
            if value not in choices:
                raise ValueError(f"{name} {value!r} is unknown; use {', '.join(choices)}")
        axes = [p.normalize_axis(axis, x.rank) for axis in (range(x.rank) if self.axes is None else self.axes)]
        lines = self._lines([x.shape[axis] for axis in axes], scales, sizes)
        if self.coordinate_transformation_mode == "tf_crop_and_resize":
            if roi is None:
                raise ValueError("tf_crop_and_resize needs the input roi")
            sides = [p.reshape(p.slice_axis(roi, 0, k, 1), ()) for k in range(2 * len(axes))]
            lines = [
                _cropped(line, sides[k], sides[len(axes) + k], is_outer=x.rank > 3 and axes[k] < 2)
                for k, line in enumerate(lines)
            ]
        result = x
        for axis, line in zip(axes, lines, strict=True):
            if not line.keeps:
                result = self._resized(result, axis, line)
        if result.dtype is not x.dtype and not x.dtype.is_float:
            result = p.round_even(result)
        return p.cast(result, x.dtype)

    def _lines(self, old: list[Size], scales: Array | None, sizes: Array | None) -> list[Line]:
        """What happens along each of the axes that are resized."""
        if sizes is not None and sizes.shape != (0,):
            _check_count("sizes", sizes, old)
            wanted = known_sizes(sizes)
            if self.keep_aspect_ratio_policy == "stretch":
                return [Line(size, target, target, size) for size, target in zip(old, wanted, strict=True)]
            up, down = self._common_factor(old, wanted)
            return [Line(size, (2 * up * size + down) // (2 * down), up, down) for size in old]
        if scales is None or scales.shape == (0,):
            raise ValueError("neither scales nor sizes are given; one of the two must have elements")
        _check_count("scales", scales, old)
        values = evaluate(scales)
        if values is not None:
            factors = [fraction(float(scale)) for scale in values.reshape(-1)]
            ratios = [(factor.numerator, factor.denominator) for factor in factors]
            return [Line(size, size * up // down, up, down) for size, (up, down) in zip(old, ratios, strict=True)]
        targets = known_sizes(p.cast(p.floor(scales * p.cast(p.sizes(old), scales.dtype)), dtypes.int64))
        ups = [p.cast(p.reshape(p.slice_axis(scales, 0, k, 1), ()), dtypes.float32) for k in range(len(old))]
        return [Line(size, target, up, 1) for size, target, up in zip(old, targets, ups, strict=True)]

    def _common_factor(self, old: list[Size], wanted: list[Size]) -> tuple[Size, Size]:
        """The smallest (largest) of the axes' factors, so that no axis is larger (smaller) than wanted."""
        policy = self.keep_aspect_ratio_policy
        if policy not in ("not_larger", "not_smaller"):
            raise ValueError(f"keep_aspect_ratio_policy {policy!r} is unknown; use stretch, not_larger or not_smaller")
        up, down = wanted[0], old[0]
        for target, size in zip(wanted[1:], old[1:], strict=True):
            if (target * down < up * size) == (policy == "not_larger"):
                up, down = target, size
        return up, down

    def _resized(self, x: Array, axis: int, line: Line) -> Array:
        """x resized along one axis; what is interpolated comes in a type that can hold it."""
        place = COORDINATES[self.coordinate_transformation_mode](line.places(), line)
        if self.mode == "nearest":
            index = p.cast(NEAREST[self.nearest_mode](place), dtypes.int64)
            result = p.gather(x, [_limited(index, line.size)], [axis], axis)
        else:
            result = self._interpolated(_floats(x), axis, line, place)
        if line.crop is None:
            return result
        outside = _along((place < 0) | (place > line.size - 1), axis, x.rank)
        return p.where(outside, self.extrapolation_value, result)

    def _interpolated(self, x: Array, axis: int, line: Line, place: Array) -> Array:
        """The sum of the filter's taps. A tap beyond the border reads the border, or counts for nothing."""
        index, weights = self._taps(line, place)
        if self.exclude_outside:
            weights = p.where((index >= 0) & (index < line.size), weights, 0)
        if self.exclude_outside or self.antialias:
            total = p.sum_(weights, [1], keepdims=True)
            weights = weights / p.where(p.equal(total, 0), 1, total)
        index, weights = _limited(index, line.size), p.cast(weights, x.dtype)
        taps = weights.shape[1]
        if not (isinstance(taps, int) and taps <= 4):
            parts = p.gather(x, [index], [axis], axis) * _along(weights, axis, x.rank + 1)
            return p.sum_(parts, [axis + 1])
        columns = [[p.squeeze(p.slice_axis(array, 1, k, 1), [1]) for array in (index, weights)] for k in range(taps)]
        total, *others = (p.gather(x, [i], [axis], axis) * _along(w, axis, x.rank) for i, w in columns)
        for other in others:
            total = total + other
        return total

    def _taps(self, line: Line, place: Array) -> tuple[Array, Array]:
        """Which places [target, taps] each result reads, and how much they count."""
        half = line.reach(SUPPORT[self.mode]) if self.antialias else SUPPORT[self.mode]
        base = p.unsqueeze(p.floor(place), [1])
        offset = p.unsqueeze(_counted(2 * half, place.dtype), [0]) + (1 - half)
        distance = p.absolute(base + offset - p.unsqueeze(place, [1]))
        if self.antialias:
            distance = line.shrunk(distance)
        return p.cast(base + offset, dtypes.int64), self._filter(distance)

    def _filter(self, distance: Array) -> Array:
        """How much a tap at this distance counts (cubic: Keys, 1981, equation 4)."""
        if self.mode == "linear":
            return p.maximum(-distance + 1.0, 0.0)
        a = self.cubic_coeff_a
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        return p.where(distance <= 1, near, p.where(distance < 2, far, 0.0))

    upgrades = {11: _asymmetric}
    downgrades = {13: _has_region}

    samples = [
        sample((1, 1, 2, 3), None, np.array([1, 1, 2, 3], np.float32)),
        sample((1, 1, 4, 4), None, np.array([1, 1, 0.6, 0.6], np.float32), mode="linear"),
        sample((1, 1, 4, 3), None, None, np.array([1, 1, 7, 8]), mode="cubic"),
        sample((1, 2, 4, 4), None, None, np.array([3, 9]), axes=[2, 3], mode="linear"),
        sample((1, 2, 5), None, None, np.array([1, 2, 3]), mode="linear", antialias=1),
        sample((1, 1, 6, 6), None, np.array([0.6, 0.4], np.float32), axes=[3, 2], mode="cubic", antialias=1),
        sample(
            (1, 1, 4, 4),
            None,
            np.array([1, 1, 0.8, 2], np.float32),
            mode="cubic",
            cubic_coeff_a=-0.5,
            exclude_outside=1,
        ),
        sample(
            (1, 1, 3, 4),
            None,
            None,
            np.array([1, 1, 6, 2]),
            nearest_mode="ceil",
            coordinate_transformation_mode="asymmetric",
        ),
        sample(
            (1, 1, 3, 4),
            None,
            None,
            np.array([1, 1, 5, 7]),
            mode="linear",
            coordinate_transformation_mode="align_corners",
        ),
        sample((1, 4), None, None, np.array([1, 1]), mode="linear", coordinate_transformation_mode="align_corners"),
        sample((4,), None, None, np.array([1]), mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
        sample(
            (5,),
            None,
            np.array([0.7], np.float32),
            mode="linear",
            coordinate_transformation_mode="half_pixel_symmetric",
        ),
        sample(
            (1, 1, 4, 4),
            np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], np.float32),
            None,
            np.array([1, 1, 3, 3]),
            mode="linear",
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=10.0,
        ),
        sample((3, 5), None, None, np.array([7, 8]), keep_aspect_ratio_policy="not_larger"),
        sample((3, 5), None, None, np.array([7, 8]), keep_aspect_ratio_policy="not_smaller", mode="linear"),
        sample(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40, None, np.array([2, 2], np.float32), mode="linear"),
    ]


def fraction(scale: float) -> Fraction:
    """The simplest fraction that is this number in float32.

    >>> fraction(float(np.float32(1 / 3)))
    Fraction(1, 3)
    """
    exact = Fraction(scale)
    simple = (exact.limit_denominator(limit) for limit in (10, 1000, 100_000))
    return next((ratio for ratio in simple if np.float32(float(ratio)) == np.float32(scale)), exact)


def _counted(count: Size, dtype: DType) -> Array:
    """0, 1, ... as a constant where possible, so that what follows from it is computed once."""
    if isinstance(count, int) and count * np.dtype(np.intp).itemsize <= EAGER:
        return constant(np.arange(count), dtype)
    return p.iota((count,), 0, dtype)


def _floats(x: Array) -> Array:
    """The elements in a type for weighted sums."""
    exact = x.dtype.bits <= 16 or x.dtype is dtypes.float32
    return p.cast(x, dtypes.float32 if exact else dtypes.float64)


def _limited(index: Array, size: Size) -> Array:
    return p.minimum(p.maximum(index, 0), size - 1)


def _along(x: Array, axis: int, rank: int) -> Array:
    """x as an operand that broadcasts: its first axis is this axis of the rank."""
    return p.reshape(x, (*[1] * axis, *x.shape, *[1] * (rank - axis - x.rank)))


def _check_count(name: str, operand: Array, axes: list[Size]) -> None:
    if operand.size != len(axes):
        raise ValueError(f"{name} has {operand.size} elements; give one for each of {len(axes)} axes")


def _scales_attribute(node: Node, make: Rewriter) -> None:
    """Upsample(x, width_scale=w, height_scale=h) -> Upsample(x, scales=[1, 1, h, w])."""
    factors = [node.attributes.pop(name).value for name in ("height_scale", "width_scale")]
    node.attributes["scales"] = attribute("scales", [1.0, 1.0, *factors])
    if node.attribute("mode") == "bilinear":
        node.attributes["mode"] = attribute("mode", "linear")


def _upsample_to_resize(node: Node, make: Rewriter) -> list[Value]:
    """Upsample(x, scales) -> Resize(x, None, scales) as Upsample computes."""
    x, scales = node.inputs
    return make.emit(
        "Resize",
        x,
        None,
        scales,
        mode=node.attribute("mode", "nearest"),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


class Upsample(Operator):
    """What Resize was before operator set 10; exporters wrote it in that one, too."""

    mode: str = "nearest"

    upgrades = {7: _scales_attribute, 9: to_input("scales", 1, np.float32), 11: _upsample_to_resize}
