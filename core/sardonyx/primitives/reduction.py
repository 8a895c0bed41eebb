"""Primitives that combine many elements into one: reductions, running sums, sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.code.folds import UFUNC, identity
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, cast, elementwise, native, widen
from sardonyx.primitives.movement import flip, normalize_axes, normalize_axis, reshape
from sardonyx.sizes.symbolic import product


class Reduce(Primitive):
    """Combine along axes, which vanish. Sums of float16 are taken in float32."""

    name = "reduce"
    on_sizes = True

    def infer(self, x: Array, function: str, axes: tuple[int, ...]) -> Types:
        dtype = dtypes.int64 if function in ("argmax", "argmin") else x.dtype
        return [(dtype, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))]

    def numpy(self, x: np.ndarray, function: str, axes: tuple[int, ...]) -> Values:
        if function in ("argmax", "argmin"):
            if x.size == 0:
                return [np.zeros([size for axis, size in enumerate(x.shape) if axis not in axes], np.int64)]
            return [getattr(np, function)(x, axis=axes[0]).astype(np.int64)]
        if x.dtype == object:
            return [np.asarray(UFUNC[function].reduce(x, axis=axes))]
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        start = identity(function, dtypes.of(wide.dtype))
        with np.errstate(all="ignore"):
            result = UFUNC[function].reduce(wide, axis=axes, dtype=wide.dtype, initial=wide.dtype.type(start))
        return [np.asarray(result).astype(x.dtype)]


class Extremes(Primitive):
    """The lowest and the highest of all elements: infinities where there are none, NaN where one is."""

    name = "extremes"

    def infer(self, x: Array) -> Types:
        return [(x.dtype, ()), (x.dtype, ())]

    def numpy(self, x: np.ndarray) -> Values:
        axes = tuple(range(x.ndim))
        return [*REDUCE.numpy(x, function="min", axes=axes), *REDUCE.numpy(x, function="max", axes=axes)]

    def expand(self, x: Array) -> Sequence[Array]:
        """By rows: a GPU gives one thread to each result of a reduction."""
        return [reduce(reduce(x, function, [-1]) if x.rank > 1 else x, function) for function in ("min", "max")]


class Cumulative(Primitive):
    """Running `sum` or `prod` along an axis."""

    name = "cumulative"

    def infer(self, x: Array, function: str, axis: int, exclusive: bool, reverse: bool) -> Types:
        return [(x.dtype, x.shape)]

    def numpy(self, x: np.ndarray, function: str, axis: int, exclusive: bool, reverse: bool) -> Values:
        line = np.flip(x, axis) if reverse else x
        total = UFUNC[function].accumulate(line, axis=axis, dtype=x.dtype) if x.size else line
        if exclusive and x.shape[axis]:
            total = np.roll(total, 1, axis)
            index: list[Any] = [slice(None)] * x.ndim
            index[axis] = 0
            total[tuple(index)] = identity(function, dtypes.of(x.dtype))
        return [np.flip(total, axis) if reverse else total]


class Sort(Primitive):
    """Sorted values along an axis and where they came from (int64); equal elements keep their order."""

    name = "sort"

    def infer(self, x: Array, axis: int, descending: bool) -> Types:
        return [(x.dtype, x.shape), (dtypes.int64, x.shape)]

    def numpy(self, x: np.ndarray, axis: int, descending: bool) -> Values:
        if descending:
            backwards = np.flip(x, axis)
            order = x.shape[axis] - 1 - np.flip(np.argsort(backwards, axis=axis, kind="stable"), axis)
        else:
            order = np.argsort(x, axis=axis, kind="stable")
        return [np.take_along_axis(x, order, axis), order.astype(np.int64)]


REDUCE = primitive(Reduce)
EXTREMES = primitive(Extremes)
CUMULATIVE = primitive(Cumulative)
SORT = primitive(Sort)


def reduce(x: Array, function: str, axes: Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """Combine along axes (all if None) by `sum`, `prod`, `max`, `min`, `any`, `all`, `argmax` or `argmin`.

    >>> from sardonyx.primitives.binding import constant
    >>> reduce(constant([[1, 2], [3, 4]]), "sum", [1]).value
    array([3, 7])
    """
    gone = tuple(range(x.rank)) if axes is None else normalize_axes(axes, x.rank)
    if x.dtype is dtypes.bool_:
        function = {"max": "any", "min": "all"}.get(function, function)
    result = x
    if gone:
        result = bind(REDUCE, native(x), function=function, axes=gone)[0]
        result = result if function in ("argmax", "argmin") else cast(result, x.dtype)
    if keepdims:
        return reshape(result, [1 if axis in gone else size for axis, size in enumerate(x.shape)])
    return result


def sum_(x: Array, axes: Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """The sum along axes."""
    return reduce(x, "sum", axes, keepdims)


def max_(x: Array, axes: Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """The largest element along axes; NaN if one is there."""
    return reduce(x, "max", axes, keepdims)


def extremes(x: Array) -> tuple[Array, Array]:
    """The lowest and the highest of all elements of floats; NaN if one is there.

    >>> from sardonyx.primitives.binding import constant
    >>> [float(found.value) for found in extremes(constant([[0.5, -3.0], [4.0, 1.0]]))]
    [-3.0, 4.0]
    """
    low, high = bind(EXTREMES, native(x))
    return cast(low, x.dtype), cast(high, x.dtype)


def mean(x: Array, axes: Sequence[int] | None = None, keepdims: bool = False) -> Array:
    """The sum along axes divided by the number of elements; 16-bit floats are summed and divided in float32."""
    gone = tuple(range(x.rank)) if axes is None else normalize_axes(axes, x.rank)
    total = reduce(widen(x), "sum", gone, keepdims)
    return cast(total / product(x.shape[axis] for axis in gone), x.dtype)


def arg(x: Array, function: str, axis: int, keepdims: bool = False, last: bool = False) -> Array:
    """Where the largest (`argmax`) or smallest element is: the first such place, or the last."""
    axis = normalize_axis(axis, x.rank)
    if last:
        place = cast(reduce(flip(x, [axis]), function, [axis], keepdims), dtypes.int64)
        return elementwise("sub", x.shape[axis] - 1, place)
    return reduce(x, function, [axis], keepdims)


def cumulative(x: Array, function: str, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running `sum` or `prod` along an axis; `exclusive` leaves the element itself out."""
    axis = normalize_axis(axis, x.rank)
    operand = native(x)
    return cast(
        bind(CUMULATIVE, operand, function=function, axis=axis, exclusive=exclusive, reverse=reverse)[0], x.dtype
    )


def sort(x: Array, axis: int, descending: bool = False) -> tuple[Array, Array]:
    """Sorted values and their int64 indices along an axis, stable."""
    values, indices = bind(SORT, native(x), axis=normalize_axis(axis, x.rank), descending=descending)
    return cast(values, x.dtype), indices
