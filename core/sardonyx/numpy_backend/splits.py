"""Where routines can be divided among threads without a change of a bit.

BLAS computes a number in the same way in whichever part of a product it is, if its type is float32, and the part no
vector and not so small that BLAS has other code for it. In float64 it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sardonyx.host.products import GRAIN, LEAST
from sardonyx.numpy_backend.division import Access, access, even, ranges, sliced, smallest

Arrays: TypeAlias = Sequence[np.ndarray]

NARROW = 128
"""Rows of a part up to which it takes long to bring all columns in the order in which BLAS reads them."""


class Split(NamedTuple):
    """The arguments of a routine for each thread, and what all of them touch."""

    parts: Sequence[tuple[Arrays, Arrays, Mapping[str, Any]]]
    accesses: Sequence[Access]


def _split(
    inputs: Arrays,
    outputs: Arrays,
    attributes: Mapping[str, Any],
    axes: Sequence[int | None],
    ends: Sequence[Sequence[int]],
) -> Split | None:
    """Each array is cut along its axis, at the ends given for it, or not at all, if that is None."""
    arrays = [*inputs, *outputs]
    if not all(smallest(places) > 0 for axis, places in zip(axes, ends, strict=True) if axis is not None):
        return None
    parts = []
    for k in range(max(map(len, ends))):
        cut = [
            array if axis is None else sliced(array, axis, ranges(places)[k])
            for array, axis, places in zip(arrays, axes, ends, strict=True)
        ]
        parts.append((cut[: len(inputs)], cut[len(inputs) :], attributes))
    return Split(parts, _accesses(inputs, outputs, axes, ends))


def _accesses(
    inputs: Arrays, outputs: Arrays, axes: Sequence[int | None], ends: Sequence[Sequence[int]]
) -> list[Access]:
    return [
        access(array, number >= len(inputs), axis, places)
        for number, (array, axis, places) in enumerate(zip([*inputs, *outputs], axes, ends, strict=True))
    ]


def _exact(dtype: np.dtype[Any]) -> bool:
    """Whether parts of products of this type have the bits of the whole: integers are summed without rounding."""
    return dtype.kind in "iub" or dtype in (np.float16, np.float32)


def conv_general(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], count: int) -> Split | None:
    """Whole images, groups, rows of places, or filters."""
    (x, w), (y,) = inputs, outputs
    groups, filters = attributes["groups"], len(w)
    if len(y) >= count:
        ends = even(len(y), count)
        return _split(inputs, outputs, attributes, (0, None, 0), (ends, (), ends))
    if groups >= count:
        ends = even(groups, count)
        of_x, of_w = ([end * (size // groups) for end in ends] for size in (x.shape[1], filters))
        split = _split(inputs, outputs, attributes, (1, 0, 1), (of_x, of_w, of_w))
        if split is None:
            return None
        counted = zip(split.parts, ranges(ends), strict=True)
        parts = [(ins, outs, {**same, "groups": part.stop - part.start}) for (ins, outs, same), part in counted]
        return split._replace(parts=parts)
    plain = groups == 1 and all(step == 1 for step in attributes["spread"]) and _exact(x.dtype)
    if not plain or filters < GRAIN:
        return None
    work = prod(w.shape[1:]) // w.shape[2]  # a product may have one row of taps alone
    if prod(y.shape[2:]) >= filters and y.shape[2] >= 2 * count:
        ends = even(y.shape[2], count)
        if smallest(ends) * (y.size // y.shape[2]) * work < LEAST:
            return None
        return _bands(inputs, outputs, attributes, 2, w.shape[2], ends)
    ends = even(filters, count, GRAIN)
    if smallest(ends) * (y.size // filters) * work < LEAST:
        return None
    return _split(inputs, outputs, attributes, (None, 0, 1), ((), ends, ends))


def reduce_window(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], count: int) -> Split | None:
    """Rows of places, or the axes before."""
    (y,) = outputs
    window = attributes["window"]
    outer = y.ndim - len(window)
    if y.shape[outer] >= 2 * count:
        return _bands(inputs, outputs, attributes, outer, window[0], even(y.shape[outer], count))
    axis = next((k for k in range(outer) if y.shape[k] >= count), None)
    if axis is None:
        return None
    ends = even(y.shape[axis], count)
    return _split(inputs, outputs, attributes, (axis, axis), (ends, ends))


def _bands(
    inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], axis: int, taps: int, ends: Sequence[int]
) -> Split | None:
    """Ranges of places along the first spatial axis: each sees its rows of x, and as much of the border as it needs."""
    (x, *others), (y,) = inputs, outputs
    stride, low, high = attributes["strides"][0], attributes["low"], attributes["high"]
    reach = (taps - 1) * attributes["dilations"][0] + 1
    parts = []
    for part in ranges(ends):
        first, last = part.start * stride - low[0], (part.stop - 1) * stride + reach - low[0]
        above, below = max(0, first), min(x.shape[axis], last)
        if above >= below:
            return None
        border = {"low": (above - first, *low[1:]), "high": (last - below, *high[1:])}
        rows = sliced(x, axis, slice(above, below))
        parts.append(([rows, *others], [sliced(y, axis, part)], {**attributes, **border}))
    own = axis if reach == stride == 1 and x.shape[axis] == y.shape[axis] else None
    axes = (own, *(None for _ in others), axis)
    return Split(parts, _accesses(inputs, outputs, axes, [ends] * len(axes)))


def dot_general(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], count: int) -> Split | None:
    """Whole products, rows, or columns."""
    (a, b), (y,) = inputs, outputs
    (ca, cb), (ba, bb) = attributes["contract"], attributes["batch"]
    rows = [axis for axis in range(a.ndim) if axis not in (*ca, *ba)]
    columns = [axis for axis in range(b.ndim) if axis not in (*cb, *bb)]
    # An axis behind others could not be joined with them.
    first = next((axis for axis, size in enumerate(y.shape) if size > 1), None)
    if first is None:
        return None
    if first < len(ba):
        if y.shape[first] < count:
            return None
        ends = even(y.shape[first], count)
        return _split(inputs, outputs, attributes, (ba[first], bb[first], first), (ends,) * 3)
    height, width = prod(a.shape[axis] for axis in rows), prod(b.shape[axis] for axis in columns)
    work = height * width * prod(a.shape[axis] for axis in ca)
    if ba or not _exact(y.dtype) or min(height, width) < 2 or work < count * LEAST:
        return None
    axis = first - len(ba)
    if axis < len(rows) and (height >= count * NARROW or len(columns) > 1):
        grain = GRAIN if a.shape[rows[axis]] == height else 1
        ends = even(a.shape[rows[axis]], count, grain)
        if smallest(ends) * height // a.shape[rows[axis]] < 2:
            return None
        return _split(inputs, outputs, attributes, (rows[axis], None, first), (ends, (), ends))
    if len(columns) > 1:
        return None
    ends = even(width, count, GRAIN)
    if smallest(ends) * count * 2 < width:
        return None
    return _split(inputs, outputs, attributes, (None, columns[0], y.ndim - 1), ((), ends, ends))


Splitter: TypeAlias = Callable[[Arrays, Arrays, Mapping[str, Any], int], "Split | None"]
SPLITS: dict[str, Splitter] = {
    "conv_general": conv_general,
    "reduce_window": reduce_window,
    "dot_general": dot_general,
}
