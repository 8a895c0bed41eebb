"""Reductions along axes, extremes, running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws
from .elementwise import magnitude


@draws(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
def reduction(d: Draw) -> dict[str, Any]:
    dtype, shape = d.dtype("T"), d.shape(0, 5)
    x = d.values(shape, dtype) if d.name in ("ReduceMax", "ReduceMin") else d.finite(shape, dtype)
    axes = d.maybe(np.array(d.axes(len(shape)), np.int64))
    return {
        "inputs": [x, axes],
        "attributes": d.attributes(keepdims=(0, 1), noop_with_empty_axes=(0, 1)),
        "constant": d.settled(1),
        "magnitude": magnitude(x),
    }


@draws("ArgMax", "ArgMin")
def extreme(d: Draw) -> dict[str, Any]:
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    shape = tuple(max(size, int(k == axis % len(shape))) for k, size in enumerate(shape))
    x = d.dyadic(shape, d.dtype("T"))
    return {"inputs": [x], "attributes": {"axis": axis, **d.attributes(keepdims=(0, 1), select_last_index=(0, 1))}}


@draws("CumProd", "CumSum")
def running(d: Draw) -> dict[str, Any]:
    shape, dtype = d.shape(1, 4), d.dtype("T")
    axis = np.asarray(d.axis(len(shape)), d.dtype("T2"))
    x = d.finite(shape, dtype)
    return {
        "inputs": [x, axis],
        "attributes": d.attributes(exclusive=(0, 1), reverse=(0, 1)),
        "constant": d.settled(1),
        "magnitude": magnitude(x) * max(shape),
    }
