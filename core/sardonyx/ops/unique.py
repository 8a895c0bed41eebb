"""Elements, or slices, that differ from one another."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.control import loop
from sardonyx.sizes.symbolic import Size, product

SLICES = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [1, 0, -1]], np.float32)


class Unique(Operator, since=11):
    """The different elements of x, or its slices along an axis, ascending or in order of their first occurrences; where
    these are, which one each element of x is, and how often there is each. NaN equals NaN."""

    axis: int | None = None
    sorted: int = 1

    nan_equals_nan = True

    def expand(self, x: Array) -> tuple[Array, Array, Array, Array]:
        items = p.reshape(x, (x.size,)) if self.axis is None else x
        axis = 0 if self.axis is None else p.normalize_axis(self.axis, x.rank)
        count, others = items.shape[axis], [k for k in range(items.rank) if k != axis]
        rows = p.reshape(p.transpose(items, [axis, *others]), (count, product(items.shape[k] for k in others)))
        if x.dtype is dtypes.bool_:
            rows = p.cast(rows, dtypes.uint8)
        elif x.dtype is dtypes.string:
            rows = p.host("text.rank", rows, results=[(dtypes.int64, rows.shape)])[0]
        ranked = _ranked(rows)
        starts, run = _runs(p.gather(rows, [ranked], [0]), self.nan_equals_nan)
        firsts = p.gather(ranked, [starts], [0])
        inverse = p.scatter(_zeros(count), run, [ranked], [0])
        counts = p.scatter(_zeros(firsts.size), p.full((count,), 1, dtypes.int64), [run], [0], "add")
        if not self.sorted:
            firsts, order = p.sort(firsts, 0)
            counts = p.gather(counts, [order], [0])
            inverse = p.gather(p.scatter(_zeros(firsts.size), p.iota(firsts.shape, 0), [order], [0]), [inverse], [0])
        return p.gather(items, [firsts], [axis], axis), firsts, inverse, counts

    samples = [
        sample(np.array([2, 1, 1, 3, 4, 3], np.float32), outputs=4),
        sample(np.array([2, 1, 1, 3, 4, 3], np.int32), outputs=4, sorted=0),
        sample(np.array([[1, 3], [2, 3]], np.int64), outputs=4),
        sample(SLICES, outputs=4, axis=0),
        sample(SLICES, outputs=4, axis=0, sorted=0),
        sample(SLICES, outputs=3, axis=-1),
        sample(np.stack([SLICES, SLICES + 1]), outputs=4, axis=1),
        sample(np.array([True, False, True]), outputs=2),
        sample(np.array([np.nan, 1, np.nan, -np.inf], np.float32), outputs=4),
        sample(np.array(5.0, np.float32), outputs=4),
        sample(np.array([["b", "a"], ["ä", "a"]], object), outputs=4),
    ]


def _ranked(rows: Array) -> Array:
    """int64: where rows stand in ascending order, equal ones in the order in which they come."""
    count, width = rows.shape
    if width == 1:
        return p.sort(p.reshape(rows, (count,)), 0)[1]

    def refine(k: Array, going: Array, order: Array) -> list[Array]:
        _, finer = p.sort(p.gather(rows, [order, -k + (width - 1)], [0, 1]), 0)
        return [constant(True), p.gather(order, [finer], [0])]

    return loop(p.literal(width, dtypes.int64), None, [p.iota((count,), 0)], refine)[0]


def _runs(rows: Array, nan_equals_nan: bool) -> tuple[Array, Array]:
    """Where runs of equal rows start, and of each row which run it is in."""
    places = p.iota(rows.shape[:1], 0)
    before = p.gather(rows, [p.maximum(places - 1, 0)], [0])
    differ = p.not_equal(rows, before)
    if rows.dtype.is_float and nan_equals_nan:
        differ = differ & ~(p.isnan(rows) & p.isnan(before))
    starts = p.reduce(differ, "any", [1]) | p.equal(places, 0)
    return p.squeeze(p.nonzero(starts), [0]), p.cumulative(p.cast(starts, dtypes.int64), "sum", 0) - 1


def _zeros(count: Size) -> Array:
    return p.full((count,), 0, dtypes.int64)
