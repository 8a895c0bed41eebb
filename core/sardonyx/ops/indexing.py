"""Indexing: operators that read or write at places which other tensors name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Node, Value
from sardonyx.ops.lift import to_input, unset
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size


def from_front(indices: Array, size: Size) -> Array:
    """Indices into an axis of this size, the negative ones counted from its end."""
    if indices.value is not None and not (indices.value < 0).any():
        return indices
    return p.where(indices < 0, indices + size, indices)


def _lines(shape: Sequence[Size], rank: int, dtype: DType) -> list[Array]:
    """The place along each axis of a shape, as Arrays of this rank that broadcast to the shape and axes behind it."""
    sizes = [*shape, *[1] * (rank - len(shape))]
    return [p.iota([size if j == k else 1 for j, size in enumerate(sizes)], k, dtype) for k in range(len(shape))]


def _element_places(x: Array, indices: Array, axis: int) -> list[Array]:
    """Where each element of `indices` points: to itself along all axes of x but one, along which it is the place."""
    if indices.rank != x.rank:
        raise ValueError(f"data {p.show(x.shape)} and indices {p.show(indices.shape)} differ in rank")
    places = _lines(indices.shape, indices.rank, indices.dtype)
    places[axis] = from_front(indices, x.shape[axis])
    return places


def _tuple_places(x: Array, indices: Array, first: int) -> list[Array]:
    """The last axis of `indices` taken apart: places along the axes of x from `first` on."""
    count = int(indices.shape[-1])
    if first + count > x.rank:
        raise ValueError(f"indices {p.show(indices.shape)} name {count} axes, data {p.show(x.shape)} has fewer")
    parts = [p.squeeze(p.slice_axis(indices, -1, k, 1), [-1]) for k in range(count)]
    return [from_front(part, x.shape[first + k]) for k, part in enumerate(parts)]


def taken(x: Array, indices: Array, axis: int) -> Array:
    """Slices of x along an axis, at these indices, which count from the end if they are negative."""
    size = x.shape[axis]
    if all(isinstance(n, int) and n == 1 for n in indices.shape) and (
        indices.value is not None or indices.sizes is not None
    ):
        (place,) = known_sizes(indices)
        start = place + size if place < 0 else place
        if not (start >= 0 and start < size):
            raise ValueError(f"index {place} is out of range for axis {axis} of size {size}")
        return p.reshape(p.slice_axis(x, axis, start, 1), (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    return p.gather(x, [from_front(indices, size)], [axis], axis)


class Gather(Operator):
    """Slices of `data` along an axis, at these indices."""

    axis: int = 0

    def expand(self, x: Array, indices: Array) -> Array:
        return taken(x, indices, p.normalize_axis(self.axis, x.rank))

    samples = [
        sample((5, 3), np.array([0, 4, -1])),
        sample((5, 3), np.array([[0, 2], [1, 1]], np.int32), axis=1),
        sample((5, 3), np.array(-2)),
        sample((2, 5, 3), np.array([1]), axis=-2),
        sample((5, 3), np.zeros((0,), np.int64)),
        sample(np.array([7, 8, 9]), np.array([[2, 0]])),
    ]


class GatherElements(Operator, since=11):
    """The element of `data` at each index, which names a place along one axis; the others are the index's own."""

    axis: int = 0

    def expand(self, x: Array, indices: Array) -> Array:
        axis = p.normalize_axis(self.axis, x.rank)
        return p.gather(x, _element_places(x, indices, axis), range(x.rank))

    samples = [
        sample((3, 4), np.array([[0, 2, -1, 1]])),
        sample((3, 4), np.array([[0, 3], [1, -4]], np.int32), axis=1),
        sample((4,), np.array([3, 3, 0]), axis=-1),
        sample((2, 3, 2), np.zeros((2, 0, 2), np.int64), axis=1),
    ]


class GatherND(Operator, since=11):
    """Slices of `data` at index tuples, which are the last axis of `indices`; `batch_dims` leading axes are shared."""

    batch_dims: int = 0

    def expand(self, x: Array, indices: Array) -> Array:
        shared = self.batch_dims
        if not shared < min(x.rank, indices.rank):
            raise ValueError(f"batch_dims {shared} is no less than the ranks {x.rank} and {indices.rank}")
        named = _tuple_places(x, indices, shared)
        own = _lines(x.shape[:shared], indices.rank - 1, indices.dtype)
        return p.gather(x, own + named, range(shared + len(named)))

    samples = [
        sample((3, 4), np.array([[0, 1], [2, -1]])),
        sample((3, 4), np.array([[0], [-3]])),
        sample((2, 3, 4), np.array([[[1]], [[0]]]), batch_dims=1),
        sample((2, 2, 3), np.array([[[1], [0]], [[2], [-1]]]), batch_dims=2),
        sample((2, 3), np.zeros((0, 2), np.int64)),
    ]


class ScatterElements(Operator, since=11):
    """A copy of `data` in which each index (see GatherElements) is overwritten by its update, or combined with it."""

    axis: int = 0
    reduction: str = "none"

    def expand(self, x: Array, indices: Array, updates: Array) -> Array:
        axis = p.normalize_axis(self.axis, x.rank)
        return p.scatter(x, updates, _element_places(x, indices, axis), range(x.rank), self.reduction)

    samples = [
        sample((3, 4), np.array([[0, 2, -1, 1]]), (1, 4)),
        sample((3, 4), np.array([[0, -1], [2, 1]], np.int32), (2, 2), axis=1),
        sample((5,), np.array([1, 1, 3]), (3,), reduction="add"),
        sample((5,), np.array([1, 1, 3]), (3,), axis=-1, reduction="mul"),
        sample((5,), np.array([1, 1, 3]), (3,), reduction="max"),
        sample((5,), np.array([1, 1, 3]), (3,), reduction="min"),
        sample(np.arange(4), np.array([0, 0]), np.array([5, 6]), reduction="add"),
        sample((3,), np.zeros((0,), np.int64), (0,)),
    ]


class ScatterND(Operator, since=11):
    """A copy of `data` in which slices at index tuples are overwritten by, or combined with, those of `updates`."""

    reduction: str = "none"

    def expand(self, x: Array, indices: Array, updates: Array) -> Array:
        if indices.shape[-1] == 0:  # tuples without places name all of x
            whole = p.full(indices.shape[:-1], 0, indices.dtype)
            return p.squeeze(p.scatter(p.unsqueeze(x, [0]), updates, [whole], [0], self.reduction), [0])
        named = _tuple_places(x, indices, 0)
        return p.scatter(x, updates, named, range(len(named)), self.reduction)

    samples = [
        sample((5,), np.array([[1], [-1]]), (2,)),
        sample((3, 4), np.array([[0], [2]]), (2, 4)),
        sample((3, 4), np.array([[0, 1], [2, -1], [0, 1]]), (3,), reduction="add"),
        sample((3, 4), np.array([[[1]], [[1]]]), (2, 1, 4), reduction="max"),
        sample((3, 4), np.array([[1], [1]]), (2, 4), reduction="min"),
        sample((3, 4), np.array([[1], [0]]), (2, 4), reduction="mul"),
        sample((3, 4), np.zeros((0, 1), np.int64), (0, 4)),
        sample((0, 4), np.zeros((0, 1), np.int64), (0, 4)),
        sample((3, 4), np.zeros((2, 0), np.int64), (2, 3, 4), reduction="add"),
    ]


def _scatter_elements(node: Node, make: Rewriter) -> list[Value]:
    """Scatter(data, indices, updates) -> ScatterElements(data, indices, updates)."""
    return make.emit("ScatterElements", *node.inputs, axis=node.attribute("axis", 0))


class Scatter(Operator, since=9):
    """The old name of ScatterElements."""

    axis: int = 0

    upgrades = {11: _scatter_elements}


class NonZero(Operator, since=9):
    """int64 [rank, count]: where the elements are that are not zero, or not empty, in row-major order."""

    def expand(self, x: Array) -> Array:
        return p.nonzero(p.not_equal(x, constant("")) if x.dtype is dtypes.string else x)

    samples = [
        sample(np.array([[1.0, 0.0], [0.0, -2.0]], np.float32)),
        sample(np.array([False, True, True])),
        sample(np.zeros((2, 2), np.int32)),
        sample(np.array([[3, 0, 1]], np.uint8)),
        sample(np.array([["a", ""], ["", "b"]], object)),
        sample((0, 2)),
    ]


class Compress(Operator, since=9):
    """The slices along an axis (the elements, if there is no axis) for which the condition holds."""

    axis: int | None = None

    def expand(self, x: Array, condition: Array) -> Array:
        if self.axis is None:
            x = p.reshape(x, (x.size,))
        axis = p.normalize_axis(self.axis or 0, x.rank)
        indices = p.squeeze(p.nonzero(condition), [0])
        return p.gather(x, [indices], [axis], axis)

    samples = [
        sample((3, 2), np.array([False, True, True]), axis=0),
        sample((3, 2), np.array([False, True]), axis=-1),
        sample((3, 2), np.array([False, True, True, False, True])),
        sample((3, 2), np.array([False, False]), axis=0),
    ]


def _largest_sorted(node: Node) -> bool:
    return unset("largest", 1)(node) and unset("sorted", 1)(node)


class TopK(Operator):
    """The K largest (or smallest) elements along an axis, in order, and where they are; the first of equal ones."""

    axis: int = -1
    largest: int = 1
    sorted: int = 1

    def expand(self, x: Array, k: Array) -> tuple[Array, Array]:
        axis = p.normalize_axis(self.axis, x.rank)
        (count,) = known_sizes(k)
        if not (count >= 0 and count <= x.shape[axis]):
            raise ValueError(f"K {count} is out of range for axis {axis} of size {x.shape[axis]}")
        return p.top_k(x, count, axis, bool(self.largest))

    upgrades = {10: to_input("k", 1, single=True)}
    downgrades = {11: _largest_sorted}

    samples = [
        sample((3, 5), np.array([2]), outputs=2),
        sample((3, 5), np.array([3]), outputs=2, largest=0, axis=0),
        sample(np.array([1, 3, 3, 2, 3]), np.array([4]), outputs=2),
        sample(np.array([1, 3, 1, 2, 3], np.int32), np.array([4]), outputs=2, largest=0),
        sample((3, 5), np.array([0]), outputs=2),
        sample(np.array([5, 200, 7], np.uint8), np.array([2]), outputs=2),
    ]


class ReverseSequence(Operator, since=10):
    """The first `sequence_lens[b]` places of the time axis reversed, for each b of the batch axis."""

    batch_axis: int = 1
    time_axis: int = 0

    def expand(self, x: Array, lengths: Array) -> Array:
        if {self.batch_axis, self.time_axis} != {0, 1}:
            raise ValueError(f"batch_axis {self.batch_axis} and time_axis {self.time_axis} are not 0 and 1, or 1 and 0")
        places = _lines(x.shape[:2], 2, dtypes.int64)
        time = places[self.time_axis]
        length = p.unsqueeze(p.cast(lengths, dtypes.int64), [self.time_axis])
        places[self.time_axis] = p.where(time < length, length - 1 - time, time)
        return p.gather(x, places, [0, 1])

    samples = [
        sample((4, 3), np.array([4, 1, 2])),
        sample((3, 4, 2), np.array([0, 4, 3]), batch_axis=0, time_axis=1),
    ]
