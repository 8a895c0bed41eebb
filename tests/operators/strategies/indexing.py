"""Gathering, scattering, selecting."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import SIZES, Draw, draws
from .movement import EXACT, number

NOT_EMPTY = (2, 1, 3, 5)


def indices(d: Draw, shape: Any, size: int, dtype: Any = np.int64) -> np.ndarray:
    """Places on an axis, counted from either end."""
    return np.asarray(d.rng.integers(-size, size, size=tuple(shape)) if size else np.zeros(shape)).astype(dtype)


@draws("Gather")
def gather(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(1), d.dtype("T"))
    axis = d.axis(x.ndim)
    shape = d.shape(0, 3) if x.shape[axis] else (*d.shape(0, 2), 0)
    return {"inputs": [x, indices(d, shape, x.shape[axis], d.dtype("Tind"))], "attributes": {"axis": axis}, **EXACT}


@draws("GatherElements", "Scatter", "ScatterElements")
def elements(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    x = d.values(d.shape(1), dtype)
    axis = d.axis(x.ndim)
    shape = [d.between(0, size) if d.flag() else size for size in x.shape]
    if d.name == "GatherElements" and x.shape[axis]:
        shape[axis] = d.of(*SIZES)
    attributes = {"axis": axis}
    if d.name == "ScatterElements":
        attributes["reduction"] = reduction(d, dtype)
    unique = attributes.get("reduction", "none") == "none" and d.name != "GatherElements"
    places = indices(d, shape, x.shape[axis], d.dtype("Tind"))
    if unique and places.size:
        order = np.argsort(d.rng.random(shape), axis=axis)
        places = (order - np.where(d.rng.random(shape) < 0.5, x.shape[axis], 0)).astype(places.dtype)
    if d.name == "GatherElements":
        return {"inputs": [x, places], "attributes": attributes, **EXACT}
    if not unique:
        x = d.dyadic(x.shape, dtype)
    updates = d.values(shape, dtype) if unique else d.dyadic(shape, dtype)
    return {"inputs": [x, places, updates], "attributes": attributes, **EXACT}


def reduction(d: Draw, dtype: np.dtype[Any]) -> str:
    if dtype.kind in "Obc":
        return "none"
    return str(d.of("none", "add", "mul", "max", "min"))


@draws("GatherND", "ScatterND")
def points(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    shape = d.shape(1, 4, NOT_EMPTY)
    gathers = d.name == "GatherND"
    batch = d.between(0, len(shape) - 1) if gathers else 0
    count = d.between(1, len(shape) - batch)
    outer = shape[:batch] + d.shape(0, 2)
    kind = "none" if gathers else reduction(d, dtype)
    x = d.values(shape, dtype) if kind == "none" else d.dyadic(shape, dtype)
    limits = shape[batch : batch + count]
    if gathers or kind != "none":
        places = np.stack([indices(d, outer, size) for size in limits], -1)
    else:
        room = int(np.prod(limits))
        flat = d.rng.permutation(room)[: d.between(0, room)]
        places = np.stack(np.unravel_index(flat, limits), -1)
        places = places - np.where(d.rng.random(places.shape) < 0.5, np.array(limits), 0)
        outer = (len(flat),)
    if gathers:
        return {"inputs": [x, number(places)], "attributes": {"batch_dims": batch}, **EXACT}
    updates = d.values((*outer, *shape[count:]), dtype, edges=False)
    if kind != "none":
        updates = d.dyadic(updates.shape, dtype)
    return {"inputs": [x, number(places), updates], "attributes": {"reduction": kind}, **EXACT}


@draws("OneHot")
def one_hot(d: Draw) -> dict[str, Any]:
    depth = d.of(3, 1, 5)
    x = d.rng.integers(-depth - 1, depth + 2, size=d.shape(0, 3))
    kinds = [d.dtype(variable, "bfloat16", "complex") for variable in ("T1", "T2")]
    x = np.abs(x) if kinds[0].kind == "u" else x
    values = d.values((2,), d.dtype("T3"), edges=False)
    return {
        "inputs": [np.asarray(x).astype(kinds[0]), np.asarray(depth, kinds[1]), values],
        "attributes": {"axis": d.between(-x.ndim - 1, x.ndim)} if d.flag() else {},
        "constant": d.settled(1),
        **EXACT,
    }


@draws("Compress")
def compress(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(1), d.dtype("T"))
    axis = d.maybe(d.axis(x.ndim))
    size = x.size if axis is None else x.shape[axis]
    condition = d.noise(d.between(0, min(size, 9)), dtype=bool)
    return {"inputs": [x, condition], "attributes": {} if axis is None else {"axis": axis}, **EXACT}


@draws("NonZero")
def nonzero(d: Draw) -> dict[str, Any]:
    return {"inputs": [d.dyadic(d.shape(0), d.dtype("T"))]}


@draws("TopK")
def top_k(d: Draw) -> dict[str, Any]:
    dtype, shape = d.dtype("T"), d.shape(1)
    axis = d.axis(len(shape))
    k = d.between(0, shape[axis])
    x = d.values(shape, dtype) if dtype.kind in "iu" else d.dyadic(shape, dtype)
    return {
        "inputs": [x, number([k])],
        "attributes": {"axis": axis, **d.attributes(largest=(0, 1))},
        "outputs": 2,
        "constant": d.settled(1),
        **EXACT,
    }


@draws("Unique")
def unique(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    x = d.dyadic(d.shape(1, 3), dtype) if dtype.kind not in "Oc" else d.values(d.shape(1, 3), dtype)
    axis = d.maybe(d.axis(x.ndim))
    attributes = {**({} if axis is None else {"axis": axis}), **d.attributes(sorted=(0, 1))}
    return {"inputs": [x], "attributes": attributes, "outputs": d.between(1, 4), **EXACT}


@draws("TensorScatter")
def tensor_scatter(d: Draw) -> dict[str, Any]:
    dtype, shape = d.dtype("T"), d.shape(2, 4, NOT_EMPTY)
    axis = d.between(1, len(shape) - 1)
    length = d.between(1, shape[axis])
    mode = d.of("linear", "circular")
    most = shape[axis] - (length if mode == "linear" else 1)
    updates = (*shape[:axis], length, *shape[axis + 1 :])
    starts = number([d.between(0, most) for _ in range(shape[0])])
    return {
        "inputs": [d.values(shape, dtype), d.values(updates, dtype), d.maybe(starts)],
        "attributes": {"axis": axis - (len(shape) if d.flag() else 0), "mode": mode},
        **EXACT,
    }
