"""Primitives that read or write at computed places: gather, scatter, nonzero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, broadcast_shapes, cast, native, show
from sardonyx.primitives.movement import broadcast_to, normalize_axes
from sardonyx.primitives.trace import active_trace
from sardonyx.sizes.symbolic import Size, hint, product, same


class Gather(Primitive):
    """x[..., i0[k], ..., i1[k], ...]: the axes in `axes` are replaced by the axes of the index Arrays, at `place`."""

    name = "gather"
    on_sizes = True
    on_strings = True

    def infer(self, x: Array, *indices: Array, axes: tuple[int, ...], place: int) -> Types:
        sizes = [size for axis, size in enumerate(x.shape) if axis not in axes]
        return [(x.dtype, (*sizes[:place], *indices[0].shape, *sizes[place:]))]

    def numpy(self, x: np.ndarray, *indices: np.ndarray, axes: tuple[int, ...], place: int) -> Values:
        order = [*axes, *(axis for axis in range(x.ndim) if axis not in axes)]
        limited = []
        for axis, index in zip(axes, indices, strict=True):
            plain = index.astype(np.int64)
            limited.append(np.clip(plain, 0, max(x.shape[axis] - 1, 0)))
        rank = indices[0].ndim
        if any(x.shape[axis] == 0 for axis in axes):
            shape = (*limited[0].shape, *(x.shape[axis] for axis in order[len(axes) :]))
            taken = np.zeros(shape, x.dtype)
        else:
            taken = x.transpose(order)[tuple(limited)]
        return [np.moveaxis(taken, range(rank), range(place, place + rank))]


class Scatter(Primitive):
    """A copy of x in which the places that the indices name are overwritten, or combined, in order of the updates.

    The indices have one shape I; the updates have I followed by the axes of x that are not indexed. `reduction` is
    `none`, `add`, `mul`, `min` or `max`. Updates out of range are dropped.
    """

    name = "scatter"
    on_strings = True

    def infer(self, x: Array, updates: Array, *indices: Array, axes: tuple[int, ...], reduction: str) -> Types:
        return [(x.dtype, x.shape)]

    def numpy(
        self, x: np.ndarray, updates: np.ndarray, *indices: np.ndarray, axes: tuple[int, ...], reduction: str
    ) -> Values:
        order = [*axes, *(axis for axis in range(x.ndim) if axis not in axes)]
        result = x.transpose(order).copy()
        inside = np.ones(indices[0].shape, bool)
        for axis, index in zip(axes, indices, strict=True):
            inside &= (index >= 0) & (index < x.shape[axis])
        where = tuple(index[inside] for index in indices)
        with np.errstate(all="ignore"):
            if reduction == "none":
                result[where] = updates[inside]
            else:
                _COMBINE[reduction].at(result, where, updates[inside])
        return [result.transpose(np.argsort(order))]


_COMBINE: dict[str, Any] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


class NonZero(Primitive):
    """The indices of the elements that are not zero, in row-major order: count [1] and indices [rank, count]."""

    name = "nonzero"

    def infer(self, x: Array) -> Types:
        count = 0 if x.value is None else int(np.count_nonzero(x.value))
        return [(dtypes.int64, (1,)), (dtypes.int64, (x.rank, count))]

    def numpy(self, x: np.ndarray) -> Values:
        indices = np.stack(np.nonzero(x)) if x.ndim else np.zeros((0, int(x != 0)), np.int64)
        return [np.array([indices.shape[1]], np.int64), indices.astype(np.int64)]

    def room(self, k: int, x: Array, *others: Array) -> Size:
        return product(x.shape) * x.rank if k else 1


class Read(Primitive):
    """Gives the elements of a small integer Array to the symbols in `symbols`: the run continues on the host."""

    name = "read"
    pure = False

    def infer(self, x: Array, symbols: tuple[str, ...]) -> Types:
        return []

    def numpy(self, x: np.ndarray, symbols: tuple[str, ...]) -> Values:
        return []


GATHER = primitive(Gather)
SCATTER = primitive(Scatter)
NONZERO = primitive(NonZero)
READ = primitive(Read)


def _aligned(indices: Sequence[Array]) -> list[Array]:
    shape = broadcast_shapes(*(index.shape for index in indices))
    return [broadcast_to(index, shape) for index in indices]


def gather(x: Array, indices: Sequence[Array], axes: Sequence[int], place: int = 0) -> Array:
    """The elements (or slices) of `x` at indices along `axes`; negative indices must have been resolved.

    The index Arrays broadcast against one another; their axes come at `place` among the axes of `x` that are left.
    """
    taken = tuple(axes)
    if normalize_axes(taken, x.rank) != tuple(sorted(taken)):
        raise ValueError(f"gather takes axes counted from the front, not {list(axes)}")
    if len(indices) != len(taken):
        raise ValueError(f"gather takes one index for each of the axes {list(axes)}, not {len(indices)}")
    return bind(GATHER, x, *_aligned(indices), axes=taken, place=place)[0]


REDUCTIONS = ("none", "add", "mul", "min", "max")
"""What scatter may do with an element and its update."""


def scatter(x: Array, updates: Array, indices: Sequence[Array], axes: Sequence[int], reduction: str = "none") -> Array:
    """`x` with the elements (or slices) at indices along `axes` replaced by, or combined with, the updates."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r} is unknown; use one of {', '.join(REDUCTIONS)}")
    aligned = _aligned(indices)
    sizes = [size for axis, size in enumerate(x.shape) if axis not in axes]
    want = (*aligned[0].shape, *sizes)
    if len(want) != updates.rank or not all(a == b for a, b in zip(want, updates.shape, strict=True)):
        raise ValueError(f"scatter takes updates of shape {show(want)}, not {show(updates.shape)}")
    if reduction != "none":
        if x.dtype is dtypes.string:
            raise TypeError(f"strings cannot be combined by {reduction}; use the reduction none")
        result = bind(SCATTER, native(x), native(updates), *aligned, axes=tuple(axes), reduction=reduction)[0]
        return cast(result, x.dtype)
    return bind(SCATTER, x, updates, *aligned, axes=tuple(axes), reduction=reduction)[0]


def counts_along(index: Array) -> int | None:
    """The axis along which an Array counts 0, 1, 2, ... and is constant along the others; None if there is none."""
    axes, equation = tuple(range(index.rank)), index.equation
    if equation is not None and equation.primitive.name == "broadcast":
        axes, equation = equation.params["axes"], equation.inputs[0].equation
    if equation is None or equation.primitive.name != "iota":
        return None
    axis: int = axes[equation.params["axis"]]
    return axis if same(equation.params["shape"][equation.params["axis"]], index.shape[axis]) else None


def nonzero(x: Array) -> Array:
    """int64 [rank, count]: the indices of the elements that are not zero; the run tells the count."""
    trace = active_trace()
    if x.value is not None or trace is None:
        return bind(NONZERO, x)[1]
    x = trace.materialise(x)
    now = trace.value_in_this_call(x)
    most = hint(product(x.shape))
    likely = max(2, most // 2) if most else 0
    count = trace.fresh_symbol(likely if now is None else int(np.count_nonzero(now)))
    outputs = trace.append(NONZERO, (x,), {}, [(dtypes.int64, (1,)), (dtypes.int64, (x.rank, count))])
    trace.append(READ, (outputs[0],), {"symbols": (str(count),)}, [])
    return outputs[1]
