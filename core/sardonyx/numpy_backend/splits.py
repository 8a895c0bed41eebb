"""Where routines can be divided among threads without a change of a bit.

Products of float32 are cut where `products.grain` says, and no part is a vector, or so small that BLAS has other code
for it. In float64 they are not cut. Convolutions are computed in ranges of places which depend on shapes alone
(`correlation.bands`); threads divide these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sardonyx.host.correlation import bands, rows_of_taps
from sardonyx.host.products import EXACT, LEAST, Grain, cost, cuts, grain, is_square, one_by_one
from sardonyx.numpy_backend.division import Access, access, even, ranges, sliced, smallest

Arrays: TypeAlias = Sequence[np.ndarray]

NARROW = 128
"""Rows of a part up to which it takes long to bring all columns in the order in which BLAS reads them."""
FEW_FILTERS = 16
"""Filters of a convolution that is not divided."""

Arguments: TypeAlias = tuple[Arrays, Arrays, Mapping[str, Any]]


class Split(NamedTuple):
    """The arguments of the calls of a routine for each thread, and what all of them touch."""

    parts: Sequence[Sequence[Arguments]]
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
        parts.append([(cut[: len(inputs)], cut[len(inputs) :], attributes)])
    return Split(parts, _accesses(inputs, outputs, axes, ends))


def _accesses(
    inputs: Arrays, outputs: Arrays, axes: Sequence[int | None], ends: Sequence[Sequence[int]]
) -> list[Access]:
    return [
        access(array, number >= len(inputs), axis, places)
        for number, (array, axis, places) in enumerate(zip([*inputs, *outputs], axes, ends, strict=True))
    ]


def _grain(dtype: np.dtype[Any]) -> Grain | None:
    """Where products of this type may be divided: integers are summed without rounding, float16 as float32."""
    if dtype.kind in "iub":
        return EXACT
    return grain() if dtype in (np.float16, np.float32) else None


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
        parts = [[(ins, outs, {**same, "groups": part.stop - part.start})] for [(ins, outs, same)], part in counted]
        return split._replace(parts=parts)
    known = _grain(x.dtype)
    if known is None or groups > 1 or filters < FEW_FILTERS or any(step != 1 for step in attributes["spread"]):
        return None
    if known.is_free:
        return _anywhere(inputs, outputs, attributes, count, known)
    if _is_plain(inputs, outputs, attributes):
        x, w, y = x.reshape(*x.shape[:2], -1), w.reshape(*w.shape[:2], 1), y.reshape(*y.shape[:2], -1)
        inputs, outputs = (x, w), (y,)
        attributes = {**attributes, **dict.fromkeys(("strides", "dilations", "spread"), (1,))}
        attributes |= dict.fromkeys(("low", "high"), (0,))
        across = cuts(y.shape[2], count, known.across(filters))
        if len(across) > 1 and cost(across) <= cost(cuts(filters, count, known.rows)):
            return _places(inputs, outputs, attributes, across)
        return _filters(inputs, outputs, attributes, count, known)
    itemsize = 4 if x.dtype == np.float16 else x.itemsize  # of the type in which it is summed
    number = bands(y.shape[2:], w.shape, attributes["strides"], 1, itemsize)
    share = -(-number // count) / number
    if number > 1 and share <= cost(cuts(filters, count, known.rows)):
        return _bands(inputs, outputs, {**attributes, "bands": 1}, 2, w.shape[2], even(y.shape[2], number), count)
    return _filters(inputs, outputs, {**attributes, "bands": number}, count, known)


def _anywhere(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], count: int, known: Grain) -> Split | None:
    """A convolution whose places have the same sums wherever they are divided."""
    (_, w), (y,) = inputs, outputs
    work = prod(w.shape[1:]) // w.shape[2]  # a product may have one row of taps alone
    if prod(y.shape[2:]) >= len(w) and y.shape[2] >= 2 * count:
        ends = even(y.shape[2], count)
        if smallest(ends) * (y.size // y.shape[2]) * work < LEAST:
            return None
        return _bands(inputs, outputs, attributes, 2, w.shape[2], ends, count)
    return _filters(inputs, outputs, attributes, count, known)


def _filters(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], count: int, known: Grain) -> Split | None:
    """Some filters for each thread, which makes the columns of all."""
    (_, w), (y,) = inputs, outputs
    ends = cuts(len(w), count, known.rows)
    work = prod(w.shape[1:]) // w.shape[2]
    ways = {rows_of_taps((size, *w.shape[1:]), attributes["strides"], 1) for size in (len(w), smallest(ends))}
    if cost(ends) >= 1 or len(ways) > 1 or smallest(ends) * (y.size // len(w)) * work < LEAST:
        return None
    return _split(inputs, outputs, attributes, (None, 0, 1), ((), ends, ends))


def _is_plain(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any]) -> bool:
    """Whether a convolution is a product of its operands as they lie."""
    (x, w), (y,) = inputs, outputs
    is_near = prod(w.shape[2:]) == 1 and all(step == 1 for step in attributes["strides"])
    return is_near and not any(attributes["low"]) and x.shape[2:] == y.shape[2:] and y.flags.c_contiguous


def _places(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], ends: Sequence[int]) -> Split | None:
    """Ranges of places of such a convolution with one spatial axis."""
    _, w = inputs
    if smallest(ends) * len(w) * w.shape[1] < LEAST:
        return None
    return _split(inputs, outputs, attributes, (2, None, 2), (ends, (), ends))


def reduce_window(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], count: int) -> Split | None:
    """Rows of places, or the axes before."""
    (y,) = outputs
    window = attributes["window"]
    outer = y.ndim - len(window)
    if y.shape[outer] >= 2 * count:
        return _bands(inputs, outputs, attributes, outer, window[0], even(y.shape[outer], count), count)
    axis = next((k for k in range(outer) if y.shape[k] >= count), None)
    if axis is None:
        return None
    ends = even(y.shape[axis], count)
    return _split(inputs, outputs, attributes, (axis, axis), (ends, ends))


def _bands(
    inputs: Arrays,
    outputs: Arrays,
    attributes: Mapping[str, Any],
    axis: int,
    taps: int,
    ends: Sequence[int],
    count: int,
) -> Split | None:
    """Ranges of places along the first spatial axis, a call for each, divided among so many threads.

    Each sees its rows of x, and as much of the border as it needs.
    """
    (x, *others), (y,) = inputs, outputs
    stride, low, high = attributes["strides"][0], attributes["low"], attributes["high"]
    reach = (taps - 1) * attributes["dilations"][0] + 1
    calls: list[Arguments] = []
    for part in ranges(ends):
        first, last = part.start * stride - low[0], (part.stop - 1) * stride + reach - low[0]
        above, below = max(0, first), min(x.shape[axis], last)
        if above >= below:
            return None
        border = {"low": (above - first, *low[1:]), "high": (last - below, *high[1:])}
        rows = sliced(x, axis, slice(above, below))
        calls.append(([rows, *others], [sliced(y, axis, part)], {**attributes, **border}))
    own = axis if reach == stride == 1 and x.shape[axis] == y.shape[axis] else None
    axes = (own, *(None for _ in others), axis)
    shared = even(len(ends), min(count, len(ends)))
    ends = [ends[number - 1] for number in shared]
    return Split([calls[part] for part in ranges(shared)], _accesses(inputs, outputs, axes, [ends] * len(axes)))


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
    depth, known = prod(a.shape[axis] for axis in ca), _grain(y.dtype)
    work = height * width * depth
    if ba or known is None or min(height, width) < 2 or is_square(a, b) or work < count * LEAST:
        return None
    axis = first - len(ba)
    each, parts = 1, cuts(width, count, known.across(height))
    axes: tuple[int | None, ...] = (None, columns[0], y.ndim - 1)
    if known is not EXACT and one_by_one(height, depth, width):
        if axis >= len(rows) or a.shape[rows[axis]] < height:
            return None
        parts, axes = even(height, min(count, height)), (rows[axis], None, first)
    elif axis < len(rows):
        many = height // a.shape[rows[axis]]
        down = cuts(a.shape[rows[axis]], count, known.rows // gcd(known.rows, many))
        is_long = height >= count * NARROW and len(down) > 1
        if is_long or len(columns) > 1 or cost(down, many) <= cost(parts):
            each, parts, axes = many, down, (rows[axis], None, first)
    if cost(parts, each) >= 1 or smallest(parts) * (work // parts[-1]) < LEAST:
        return None
    return _split(inputs, outputs, attributes, axes, tuple(() if axis is None else parts for axis in axes))


Splitter: TypeAlias = Callable[[Arrays, Arrays, Mapping[str, Any], int], "Split | None"]
SPLITS: dict[str, Splitter] = {
    "conv_general": conv_general,
    "reduce_window": reduce_window,
    "dot_general": dot_general,
}
