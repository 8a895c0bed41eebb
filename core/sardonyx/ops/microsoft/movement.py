"""onnxruntime's own forms of operators that move elements or make them: those that ONNX has now, and a few more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.generation import Range, Trilu
from sardonyx.ops.indexing import GatherND
from sardonyx.ops.movement import Pad
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.unique import Unique
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.reading import known_sizes

MICROSOFT = "com.microsoft"


class SampleOp(Operator, domain=MICROSOFT):
    """x itself."""

    def expand(self, x: Array) -> Array:
        return x

    samples = [sample((2, 3))]


class ExpandDims(Operator, domain=MICROSOFT):
    """x with an axis of size 1 inserted at `axis` of the result."""

    def expand(self, x: Array, axis: Array) -> Array:
        (place,) = known_sizes(axis)
        return p.unsqueeze(x, [int(place)])


class MicrosoftGatherND(GatherND, domain=MICROSOFT, name="GatherND"):
    """Slices of `data` at index tuples, which are the last axis of `indices`."""

    batch_dims = 0
    upgrades = {}
    downgrades = {}

    samples = [
        sample((3, 4), np.array([[0, 1], [2, -1]])),
        sample((2, 3, 4), np.array([[[1]], [[0]]], np.int32)),
    ]


class MicrosoftPad(Pad, domain=MICROSOFT, name="Pad"):
    """A border of `pads` [2 * rank] or [1, 2 * rank] elements around all axes, as ONNX's Pad makes it."""

    def expand(self, x: Array, pads: Array, value: Array | None = None) -> Array:  # type: ignore[override]
        return super().expand(x, pads, value)

    upgrades = {}
    downgrades = {}
    samples = []


class MicrosoftRange(Range, domain=MICROSOFT, name="Range"):
    """start, start + delta, start + 2 delta, ... as far as `limit`, without it; delta is 1 unless it is given."""

    def expand(self, start: Array, limit: Array, delta: Array | None = None) -> Array:
        return super().expand(start, limit, constant(1, start.dtype) if delta is None else delta)

    upgrades = {}
    downgrades = {}

    samples = [
        sample(np.array(1, np.int16), np.array(5, np.int16)),
        sample(np.array([1.0], np.float32), np.array([5.0], np.float32), np.array([1.5], np.float32)),
    ]


class MicrosoftTrilu(Trilu, domain=MICROSOFT, name="Trilu"):
    """ONNX's Trilu."""

    upgrades = {}
    downgrades = {}

    samples = [sample((2, 3, 3), np.array(1)), sample((3, 4), upper=0)]


class MicrosoftUnique(Unique, domain=MICROSOFT, name="Unique"):
    """The different elements of x [count] in the order of their first occurrences, which one each element of x is, and
    how often there is each. A NaN equals nothing."""

    axis = None
    sorted = 0
    nan_equals_nan = False
    upgrades = {}
    downgrades = {}

    def expand(self, x: Array) -> Sequence[Array]:  # type: ignore[override]
        if x.rank != 1:
            raise ValueError(f"x {p.show(x.shape)} has {x.rank} axes; Unique of com.microsoft takes one")
        items, _, inverse, counts = super().expand(x)
        return items, inverse, counts

    samples = [sample(np.array([2, 1, 1, 3, 4, 3], np.float32), outputs=3)]


class UnfoldTensor(Operator, domain=MICROSOFT):
    """Slices of `size` elements along axis `dim`, one at every `step`-th place; they lie along a new last axis."""

    dim: int = -1
    size: int
    step: int = 1

    def expand(self, x: Array) -> Array:
        axis = p.normalize_axis(self.dim, x.rank)
        if self.size < 1 or self.step < 1:
            raise ValueError(f"size {self.size} and step {self.step} are not both positive")
        count = p.windows(x.shape[axis], self.size, self.step, 1, 0, 0)
        places = p.iota((count, 1), 0) * self.step + p.iota((1, self.size), 1)
        slices = p.gather(x, [places], [axis], axis)
        return p.transpose(slices, [k for k in range(x.rank + 1) if k != axis + 1] + [axis + 1])

    samples = [
        sample((2, 5), size=2, step=2),
        sample((2, 5, 3), dim=1, size=3),
        sample(np.arange(6), dim=0, size=6),
    ]
