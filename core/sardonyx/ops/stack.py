"""Sequences whose length only the run tells: tensors of one shape, which lie in one Array along a first axis.

What a Loop appends to a sequence, once in every turn, is such a one, and so are the slices of a tensor. Tensors that
differ along one axis lie in one Array along that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.model.structure import Ragged, Stack
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size


def sliced(x: Array, axis: int, keepdims: bool) -> Stack[Array]:
    """The slices of x along an axis, in which it is 1, or is missing."""
    order = [axis, *(k for k in range(x.rank) if k != axis)]
    slices = p.transpose(x, order)
    return Stack(p.unsqueeze(slices, [axis + 1]) if keepdims else slices)


def length(items: Stack[Array] | Ragged[Array]) -> Size:
    """How many elements there are."""
    slices = items.lengths if isinstance(items, Ragged) else items.tensor
    count: Size = slices.shape[0]
    return count


def element(items: Stack[Array] | Ragged[Array], position: Array) -> Array:
    """The element at a position, which counts from the end if it is negative."""
    from sardonyx.ops.indexing import taken  # which brings the operators

    position = p.reshape(position, ())
    if isinstance(items, Stack):
        return taken(items.tensor, position, 0)
    ends = p.cumulative(items.lengths, "sum", 0)
    end, size = known_sizes(p.concat([p.unsqueeze(taken(x, position, 0), [0]) for x in (ends, items.lengths)], 0))
    return p.slice_axis(items.tensor, items.axis, end - size, size)


def joined(items: Stack[Array], axis: int, is_new: bool) -> Array:
    """The elements joined along an axis, which is new to them if `is_new`."""
    x = items.tensor
    axis = p.normalize_axis(axis, x.rank - (not is_new))
    others = list(range(1, x.rank))
    y = p.transpose(x, [*others[:axis], 0, *others[axis:]])
    if is_new:
        return y
    shape = y.shape
    return p.reshape(y, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def unstacked(item: Any) -> Any:
    """The elements as a tuple, which ties the plan to their number; what is of no open length stays as it is."""
    if isinstance(item, Ragged):
        return tuple(element(item, p.constant(np.int64(k))) for k in range(int(length(item))))
    if not isinstance(item, Stack):
        return item
    x = item.tensor
    return tuple(p.squeeze(p.slice_axis(x, 0, k, 1), [0]) for k in range(int(x.shape[0])))
