"""Primitives that only move elements: in compiled code they are index maps, folded into whatever reads the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.primitives.array import Array, Primitive, Scalar, Shape, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, cast, concrete, native, show
from sardonyx.sizes.symbolic import Dim, Size, product, same, tied


def normalize_axis(axis: int, rank: int) -> int:
    """The axis counted from the front.

    >>> normalize_axis(-1, 3)
    2
    """
    if not -rank <= axis < rank:
        legal = f"use {-rank}..{rank - 1}" if rank else "a scalar has no axis"
        raise ValueError(f"axis {axis} is out of range for rank {rank}; {legal}")
    return axis % rank


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the front, in ascending order; none may occur twice."""
    result = sorted(normalize_axis(axis, rank) for axis in axes)
    if len(set(result)) != len(result):
        raise ValueError(f"axes {list(axes)} name an axis twice")
    return tuple(result)


class Reshape(Primitive):
    name = "reshape"
    on_sizes = True
    on_strings = True

    def infer(self, x: Array, shape: Shape) -> Types:
        return [(x.dtype, shape)]

    def numpy(self, x: np.ndarray, shape: Shape) -> Values:
        return [x.reshape(concrete(shape))]


class Transpose(Primitive):
    name = "transpose"
    on_sizes = True
    on_strings = True

    def infer(self, x: Array, perm: tuple[int, ...]) -> Types:
        return [(x.dtype, tuple(x.shape[axis] for axis in perm))]

    def numpy(self, x: np.ndarray, perm: tuple[int, ...]) -> Values:
        return [x.transpose(perm)]


class Broadcast(Primitive):
    """`axes` says where the axes of the operand are in the result; sizes of 1 are stretched."""

    name = "broadcast"
    on_sizes = True
    on_strings = True

    def infer(self, x: Array, shape: Shape, axes: tuple[int, ...]) -> Types:
        return [(x.dtype, shape)]

    def numpy(self, x: np.ndarray, shape: Shape, axes: tuple[int, ...]) -> Values:
        spread: list[int] = [1] * len(shape)
        for axis, size in zip(axes, x.shape, strict=True):
            spread[axis] = size
        return [np.broadcast_to(x.reshape(spread), concrete(shape))]


class Slice(Primitive):
    """Element i along an axis is element start + i * step of the operand; `sizes` counts the elements."""

    name = "slice"
    on_sizes = True
    on_strings = True

    def infer(self, x: Array, starts: Shape, steps: tuple[int, ...], sizes: Shape) -> Types:
        return [(x.dtype, sizes)]

    def numpy(self, x: np.ndarray, starts: Shape, steps: tuple[int, ...], sizes: Shape) -> Values:
        index = []
        for start, step, size in zip(concrete(starts), steps, concrete(sizes), strict=True):
            stop = start + size * step
            index.append(slice(start, None if stop < 0 else stop, step) if size else slice(0))
        return [x[tuple(index)]]


class Pad(Primitive):
    """A border of one number; negative widths are not allowed (slice instead)."""

    name = "pad"
    on_strings = True

    def infer(self, x: Array, low: Shape, high: Shape, value: Scalar) -> Types:
        return [(x.dtype, tuple(a + size + b for a, size, b in zip(low, x.shape, high, strict=True)))]

    def numpy(self, x: np.ndarray, low: Shape, high: Shape, value: Scalar) -> Values:
        return [np.pad(x, list(zip(concrete(low), concrete(high), strict=True)), constant_values=value)]


class Concat(Primitive):
    name = "concat"
    on_sizes = True
    on_strings = True

    def infer(self, *inputs: Array, axis: int) -> Types:
        total: Size = 0
        for array in inputs:
            total = total + array.shape[axis]
        first = inputs[0].shape
        return [(inputs[0].dtype, (*first[:axis], total, *first[axis + 1 :]))]

    def numpy(self, *arrays: np.ndarray, axis: int) -> Values:
        return [np.concatenate(arrays, axis)]


RESHAPE = primitive(Reshape)
TRANSPOSE = primitive(Transpose)
BROADCAST = primitive(Broadcast)
SLICE = primitive(Slice)
PAD = primitive(Pad)
CONCAT = primitive(Concat)


def _same_shape(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def reshape(x: Array, shape: Sequence[Size]) -> Array:
    """The same elements in row-major order under another shape."""
    shape = tuple(shape)
    if _same_shape(x.shape, shape):
        return x
    if product(shape) != product(x.shape):
        raise ValueError(f"cannot reshape {show(x.shape)} to {show(shape)}: the number of elements differs")
    return bind(RESHAPE, x, shape=shape)[0]


def transpose(x: Array, perm: Sequence[int] | None = None) -> Array:
    """Axis k of the result is axis `perm[k]` of the operand; without `perm` the axes are reversed."""
    order = tuple(range(x.rank))[::-1] if perm is None else tuple(normalize_axis(axis, x.rank) for axis in perm)
    if sorted(order) != list(range(x.rank)):
        raise ValueError(f"perm {list(order)} is no permutation of the {x.rank} axes")
    return x if order == tuple(range(x.rank)) else bind(TRANSPOSE, x, perm=order)[0]


def broadcast_to(x: Array, shape: Sequence[Size]) -> Array:
    """Stretch axes of size 1, and prepend axes, until the shape is reached."""
    shape = tuple(shape)
    offset = len(shape) - x.rank
    if offset < 0:
        raise ValueError(f"cannot broadcast {show(x.shape)} to {show(shape)}: the rank is lower")
    for size, target in zip(x.shape, shape[offset:], strict=True):
        if not (same(size, target) or tied(size, target) or size == 1 or size == target):
            raise ValueError(f"cannot broadcast {show(x.shape)} to {show(shape)}")
    if _same_shape(x.shape, shape):
        return x
    return bind(BROADCAST, x, shape=shape, axes=tuple(range(offset, len(shape))))[0]


def slice_(x: Array, starts: Sequence[Size], sizes: Sequence[Size], steps: Sequence[int] | None = None) -> Array:
    """`sizes[k]` elements along axis k, from `starts[k]` on, every `steps[k]`-th (which may be negative)."""
    starts, sizes, steps = tuple(starts), tuple(sizes), tuple(steps or [1] * x.rank)
    if _same_shape(sizes, x.shape) and all(step == 1 for step in steps):
        return x
    return bind(SLICE, x, starts=starts, steps=steps, sizes=sizes)[0]


def slice_axis(x: Array, axis: int, start: Size, size: Size, step: int = 1) -> Array:
    """`slice_` along one axis."""
    axis = normalize_axis(axis, x.rank)
    starts: list[Size] = [0] * x.rank
    sizes, steps = list(x.shape), [1] * x.rank
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return slice_(x, starts, sizes, steps)


def flip(x: Array, axes: Sequence[int]) -> Array:
    """Reverse the order of elements along axes."""
    for axis in normalize_axes(axes, x.rank):
        x = slice_axis(x, axis, x.shape[axis] - 1, x.shape[axis], -1)
    return x


def pad(x: Array, low: Sequence[Size], high: Sequence[Size], value: Scalar = 0) -> Array:
    """Put `low[k]` elements of a number before axis k, and `high[k]` behind it."""
    low, high = tuple(low), tuple(high)
    if all(not isinstance(width, Dim) and width == 0 for width in low + high):
        return x
    if any(isinstance(width, int) and width < 0 for width in low + high):
        raise ValueError(f"pads {show(low)} before and {show(high)} behind {show(x.shape)}: a width is negative")
    operand = native(x) if value else x
    return cast(bind(PAD, operand, low=low, high=high, value=value)[0], x.dtype)


def concat(arrays: Sequence[Array], axis: int) -> Array:
    """Join Arrays along an axis; all other sizes agree."""
    axis = normalize_axis(axis, arrays[0].rank)
    first = arrays[0]
    for other in arrays[1:]:
        if other.dtype is not first.dtype:
            raise TypeError(f"concat takes one dtype, not {first.dtype} and {other.dtype}")
        if other.rank != first.rank or any(
            k != axis and not a == b for k, (a, b) in enumerate(zip(first.shape, other.shape, strict=True))
        ):
            raise ValueError(f"shapes {show(first.shape)} and {show(other.shape)} do not join at axis {axis}")
    return first if len(arrays) == 1 else bind(CONCAT, *arrays, axis=axis)[0]


def squeeze(x: Array, axes: Sequence[int]) -> Array:
    """Drop axes of size 1."""
    dropped = normalize_axes(axes, x.rank)
    for axis in dropped:
        if x.shape[axis] != 1:
            raise ValueError(f"axis {axis} of {show(x.shape)} cannot be squeezed: its size is not 1")
    return reshape(x, [size for axis, size in enumerate(x.shape) if axis not in dropped])


def unsqueeze(x: Array, axes: Sequence[int]) -> Array:
    """Insert axes of size 1 at these places of the result."""
    rank = x.rank + len(axes)
    places = normalize_axes(axes, rank)
    rest = iter(x.shape)
    return reshape(x, [1 if axis in places else next(rest) for axis in range(rank)])
