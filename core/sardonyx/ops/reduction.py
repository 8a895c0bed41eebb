"""Reductions along axes, the search for extremes, and running sums."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Node
from sardonyx.ops.lift import constant_array, to_input
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.shape import known_axes
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes


class _Axes(to_input):
    """Axes as an attribute, which reduce along all axes where there are none."""

    def lower(self, node: Node) -> bool:
        noop = node.attributes.pop("noop_with_empty_axes", None)
        axes = constant_array(node.inputs[1]) if len(node.inputs) > 1 else np.empty(0)
        if axes is None or (axes.size == 0 and noop is not None and noop.value):
            return False
        if axes.size == 0:
            node.inputs = node.inputs[:1]
        return super().lower(node)


AXES = _Axes("axes", 1)
SAMPLES = [
    sample((2, 3, 4), np.array([1])),
    sample((2, 3, 4), np.array([-1, 0]), keepdims=0),
    sample((2, 3, 4)),
    sample((2, 3), np.array([], np.int64), noop_with_empty_axes=1),
    sample((2, 3), None, noop_with_empty_axes=1, keepdims=0),
    sample(np.array([[1.5, 2, 4]]), np.array([1])),
    sample(()),
]
INTEGER = sample(np.array([[3, 4], [-5, 12]], np.int32), np.array([1]))
NOTHING = sample((2, 0, 3), np.array([1]))


class Reduction(Operator, abstract=True):
    """A reduction along the axes that are given; along all if none is, unless `noop_with_empty_axes` is 1."""

    keepdims: int = 1
    noop_with_empty_axes: int = 0

    def expand(self, x: Array, axes: Array | None = None) -> Array:
        chosen = [] if axes is None else known_axes(axes)
        return self.reduce(x, chosen if chosen or self.noop_with_empty_axes else list(range(x.rank)))

    def reduce(self, x: Array, axes: list[int]) -> Array:
        raise NotImplementedError

    def along(self, x: Array, function: str, axes: list[int]) -> Array:
        return p.reduce(x, function, axes, bool(self.keepdims))


def real(x: Array) -> Array:
    """The elements in a type that has roots and logarithms, wide enough for sums of them."""
    return p.widen(x) if x.dtype.is_float else p.cast(x, dtypes.float64)


class ReduceSum(Reduction):
    """The sum."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        return self.along(x, "sum", axes)

    upgrades = {13: AXES}
    samples = [*SAMPLES, INTEGER, NOTHING]


class ReduceMean(Reduction):
    """The arithmetic mean."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        return p.mean(x, axes, bool(self.keepdims))

    upgrades = {18: AXES}
    samples = [*SAMPLES, INTEGER, sample(np.full((300,), 300, np.float16), tolerance=1e-3)]


class ReduceMax(Reduction):
    """The largest element."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        return self.along(x, "any" if x.dtype is dtypes.bool_ else "max", axes)

    upgrades = {18: AXES}
    samples = [
        *SAMPLES,
        INTEGER,
        NOTHING,
        sample(np.array([[True, False], [False, False]]), np.array([1])),
        sample(np.array([[3, 250]], np.uint8)),
    ]


class ReduceMin(Reduction):
    """The smallest element."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        return self.along(x, "all" if x.dtype is dtypes.bool_ else "min", axes)

    upgrades = {18: AXES}
    samples = [
        *SAMPLES,
        INTEGER,
        NOTHING,
        sample(np.array([[True, False], [True, True]]), np.array([1])),
        sample(np.array([[3, -128]], np.int8)),
    ]


class ReduceProd(Reduction):
    """The product."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        return self.along(x, "prod", axes)

    upgrades = {18: AXES}
    samples = [*SAMPLES, INTEGER, NOTHING]


class ReduceL1(Reduction):
    """The sum of magnitudes."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        return self.along(p.absolute(x), "sum", axes)

    upgrades = {18: AXES}
    samples = [*SAMPLES, INTEGER, NOTHING]


class ReduceL2(Reduction):
    """The square root of the sum of squares."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        wide = real(x)
        return p.cast(p.sqrt(self.along(wide * wide, "sum", axes)), x.dtype)

    upgrades = {18: AXES}
    samples = [*SAMPLES, INTEGER, NOTHING, sample(np.full((4,), 300, np.float16), tolerance=1e-3)]


class ReduceSumSquare(Reduction):
    """The sum of squares."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        wide = p.widen(x)
        return p.cast(self.along(wide * wide, "sum", axes), x.dtype)

    upgrades = {18: AXES}
    samples = [*SAMPLES, INTEGER, NOTHING]


class ReduceLogSum(Reduction):
    """The logarithm of the sum."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        return p.cast(p.log(self.along(real(x), "sum", axes)), x.dtype)

    upgrades = {18: AXES}
    samples = [*SAMPLES, NOTHING]


class ReduceLogSumExp(Reduction):
    """The logarithm of the sum of exponentials, with the maximum taken out first."""

    def reduce(self, x: Array, axes: list[int]) -> Array:
        wide = real(x)
        top = p.max_(wide, axes, keepdims=True)
        top = p.where(p.isinf(top), 0.0, top)
        total = p.log(p.sum_(p.exp(wide - top), axes, keepdims=True)) + top
        return p.cast(total if self.keepdims else p.squeeze(total, axes), x.dtype)

    upgrades = {18: AXES}
    samples = [*SAMPLES, NOTHING, sample(np.array([1000, 1000.5, -np.inf], np.float32))]


class Extreme(Operator, abstract=True):
    """Where the first, or the last, of the extreme elements along an axis is: int64."""

    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0

    def find(self, x: Array, function: str) -> Array:
        return p.arg(x, function, self.axis, bool(self.keepdims), bool(self.select_last_index))


TIES = np.array([[2, 3, 3], [1, 1, 0]], np.int32)
PLACES = [
    sample((2, 3, 4)),
    sample((2, 3, 4), axis=-1, keepdims=0),
    sample(TIES, axis=1),
    sample(TIES, axis=1, select_last_index=1),
    sample((3, 4), axis=0, select_last_index=1, keepdims=0),
]


class ArgMax(Extreme):
    """Where the largest element along an axis is."""

    def expand(self, x: Array) -> Array:
        return self.find(x, "argmax")

    samples = PLACES


class ArgMin(Extreme):
    """Where the smallest element along an axis is."""

    def expand(self, x: Array) -> Array:
        return self.find(x, "argmin")

    samples = PLACES


class Running(Operator, abstract=True):
    """A reduction of all elements along an axis up to each one, which `exclusive` leaves out."""

    exclusive: int = 0
    reverse: int = 0

    def run(self, x: Array, function: str, axis: Array) -> Array:
        (place,) = known_sizes(axis)
        return p.cumulative(x, function, int(place), bool(self.exclusive), bool(self.reverse))


RUNS = [
    sample((3, 4), np.array(1)),
    sample((3, 4), np.array(-2, np.int32), exclusive=1),
    sample((2, 3, 2), np.array(1), reverse=1),
    sample((5,), np.array(0), exclusive=1, reverse=1),
    sample(np.array([1, 2, 3], np.int64), np.array(0)),
]


class CumSum(Running, since=11):
    """Running sums."""

    def expand(self, x: Array, axis: Array) -> Array:
        return self.run(x, "sum", axis)

    samples = RUNS


class CumProd(Running, since=26):
    """Running products."""

    def expand(self, x: Array, axis: Array) -> Array:
        return self.run(x, "prod", axis)

    samples = RUNS
