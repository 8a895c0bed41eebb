"""Shapes: what asks for them, and what changes them without moving an element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.lift import to_input, unset
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size, poly, product, same


def known_axes(axes: Array) -> list[int]:
    """The elements of an `axes` input."""
    return [int(axis) for axis in known_sizes(axes)]


class Shape(Operator):
    """The sizes of axes `start` to `end`, int64."""

    start: int = 0
    end: int | None = None

    def expand(self, x: Array) -> Array:
        return p.sizes(x.shape[self.start : self.end])

    samples = [
        sample((3, 4, 5)),
        sample(()),
        sample((0, 2)),
        sample((3, 4, 5), start=1),
        sample((3, 4, 5), start=-2, end=-1),
        sample((3, 4, 5), start=2, end=1),
        sample((3, 4, 5), start=-9, end=9),
    ]


class Size_(Operator, name="Size"):
    """The number of elements, an int64 scalar."""

    def expand(self, x: Array) -> Array:
        return p.reshape(p.sizes([x.size]), ())

    samples = [sample((3, 4)), sample(()), sample((0, 2))]


class Reshape(Operator):
    """The same elements under another shape: 0 keeps a size (unless `allowzero`), -1 is whatever is left."""

    allowzero: int = 0

    def expand(self, x: Array, shape: Array) -> Array:
        wanted = known_sizes(shape)
        sizes = list(x.shape)
        result: list[Size] = []
        for axis, size in enumerate(wanted):
            if not self.allowzero and _keeps(size):
                if axis >= x.rank:
                    raise ValueError(f"shape {wanted} keeps size {axis} of {p.show(x.shape)}, which has no such axis")
                size = x.shape[axis]
            result.append(size)
        unknown = [axis for axis, size in enumerate(result) if size == -1]
        if len(unknown) > 1:
            raise ValueError(f"shape {wanted} has more than one -1")
        if unknown:
            result[unknown[0]] = _quotient(sizes, [size for axis, size in enumerate(result) if axis != unknown[0]])
        return p.reshape(x, result)

    upgrades = {5: to_input("shape", 1)}
    downgrades = {14: unset("allowzero", 0)}

    samples = [
        sample((3, 4), np.array([2, 6])),
        sample((3, 4), np.array([-1])),
        sample((2, 3, 4), np.array([0, -1])),
        sample((2, 3, 4), np.array([4, 0, -1])),
        sample((1, 1), np.array([], np.int64)),
        sample((0, 3, 4), np.array([0, 12])),
        sample((0, 3), np.array([3, 0, 0]), allowzero=1),
        sample(np.array([[True, False]]), np.array([2, 1])),
    ]


def _keeps(size: Size) -> bool:
    """Whether this is the 0 that keeps a size; an expression of other sizes is taken for a size, without a guard."""
    return (isinstance(size, int) or not poly(size).is_nonnegative()) and size == 0


def _quotient(sizes: Sequence[Size], divisors: Sequence[Size]) -> Size:
    """The product of sizes by that of divisors; what is in both cancels, so 0 and sums of symbols do no harm."""
    above, below = list(sizes), []
    for divisor in divisors:
        place = next((k for k, size in enumerate(above) if same(size, divisor)), None)
        if place is None:
            below.append(divisor)
        else:
            del above[place]
    total = product(below)
    if isinstance(total, int) and total == 0:
        raise ValueError(f"-1 is not determined when {p.show(tuple(sizes))} is reshaped beside a size of 0")
    return product(above) // total


class Flatten(Operator):
    """A matrix: the axes before `axis` become its rows, the others its columns."""

    axis: int = 1

    def expand(self, x: Array) -> Array:
        axis = self.axis if self.axis == x.rank else p.normalize_axis(self.axis, x.rank)
        return p.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))

    samples = [
        sample((2, 3, 4)),
        sample((2, 3, 4), axis=0),
        sample((2, 3, 4), axis=3),
        sample((2, 3, 4), axis=-1),
        sample((), axis=0),
        sample((0, 3)),
    ]


class Squeeze(Operator):
    """Drops axes of size 1: those named, or all of them."""

    def expand(self, x: Array, axes: Array | None = None) -> Array:
        if axes is None:
            return p.squeeze(x, [axis for axis, size in enumerate(x.shape) if size == 1])
        return p.squeeze(x, known_axes(axes))

    upgrades = {13: to_input("axes", 1)}

    samples = [
        sample((1, 3, 1), np.array([0])),
        sample((1, 3, 1), np.array([-1, 0])),
        sample((1, 3, 1)),
        sample((2, 3), np.array([], np.int64)),
    ]


class Unsqueeze(Operator):
    """Inserts axes of size 1 at these places of the result."""

    def expand(self, x: Array, axes: Array) -> Array:
        return p.unsqueeze(x, known_axes(axes))

    upgrades = {13: to_input("axes", 1)}

    samples = [
        sample((3, 4), np.array([0])),
        sample((3, 4), np.array([-1, 1])),
        sample((), np.array([0, 1])),
        sample((0,), np.array([1])),
    ]
