"""Operators that move elements, or tell of shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import SIZES, Draw, draws

EXACT: dict[str, Any] = {"wide": False}


def of_any(d: Draw, low: int = 0, high: int = 4, variable: str = "T") -> np.ndarray:
    return d.values(d.shape(low, high), d.dtype(variable))


def number(array: Any) -> np.ndarray:
    return np.asarray(array, np.int64)


@draws("Shape")
def shape(d: Draw) -> dict[str, Any]:
    return {"inputs": [of_any(d)], "attributes": d.attributes(start=(0, 1, -1, -9, 9), end=(0, 1, 2, -1, -9, 9))}


@draws("Size")
def size(d: Draw) -> dict[str, Any]:
    return {"inputs": [of_any(d)]}


@draws("Concat")
def concat(d: Draw) -> dict[str, Any]:
    whole, dtype = d.shape(1, 4), d.dtype("T")
    axis = d.axis(len(whole))
    inputs = []
    for _ in range(d.between(1, 4)):
        part = list(whole)
        part[axis] = d.of(*SIZES)
        inputs.append(d.values(part, dtype))
    return {"inputs": inputs, "attributes": {"axis": axis}, **EXACT}


@draws("DepthToSpace", "SpaceToDepth")
def depth(d: Draw) -> dict[str, Any]:
    n, c, h, w = (d.of(*SIZES) for _ in range(4))
    block = d.of(2, 1, 3)
    deep = d.name == "DepthToSpace"
    x = (n, c * block * block, h, w) if deep else (n, c, h * block, w * block)
    attributes = {"blocksize": block, **(d.attributes(mode=("DCR", "CRD")) if deep else {})}
    return {"inputs": [d.values(x, d.dtype("T"))], "attributes": attributes, **EXACT}


@draws("Expand")
def expand(d: Draw) -> dict[str, Any]:
    one, other = d.broadcast(2)
    return {"inputs": [d.values(one, d.dtype("T")), number(other)], "constant": d.settled(1), **EXACT}


@draws("Flatten")
def flatten(d: Draw) -> dict[str, Any]:
    x = of_any(d)
    return {"inputs": [x], "attributes": {"axis": d.between(-x.ndim, x.ndim)}, **EXACT}


@draws("Pad")
def pad(d: Draw) -> dict[str, Any]:
    mode = d.of("constant", "reflect", "edge", "wrap")
    sizes = SIZES if mode == "constant" else (2, 1, 3, 5)
    shape, dtype = d.shape(1, 4, sizes), d.dtype("T")
    rank = len(shape)
    axes = d.axes(rank, 1) if d.flag() else None
    chosen = list(range(rank)) if axes is None else axes
    pads = []
    for end in range(2):
        for axis in chosen:
            most = {"constant": 3, "edge": 3, "wrap": shape[axis], "reflect": shape[axis] - 1}[mode]
            pads.append(d.between(0, most))
            if mode == "constant" and end and d.between(0, 3) == 0:
                pads[-1] = -d.between(0, min(2, shape[axis]))
    value = d.maybe(d.values((), dtype)) if mode == "constant" else None
    return {
        "inputs": [
            d.values(shape, dtype),
            number(pads),
            value,
            None if axes is None else np.array(axes, d.dtype("Tind")),
        ],
        "attributes": {"mode": mode},
        "constant": d.settled(1, 2, 3),
        **EXACT,
    }


@draws("Reshape")
def reshape(d: Draw) -> dict[str, Any]:
    x = of_any(d)
    zero = d.flag() and 0 not in x.shape
    target = list(d.permuted(x.shape))
    if len(target) > 1 and d.flag():
        k = d.between(0, len(target) - 2)
        target[k : k + 2] = [target[k] * target[k + 1]]
    for _ in range(d.between(0, 2)):
        target.insert(d.between(0, len(target)), 1)
    if zero:
        for k, size in enumerate(target):
            if k < x.ndim and x.shape[k] == size and d.flag():
                target[k] = 0
    rest = [k for k, size in enumerate(target) if size or not x.size]
    if rest and x.size and d.flag():
        target[d.of(*rest)] = -1
    allow = int(0 in x.shape)
    return {
        "inputs": [x, number(target)],
        "attributes": {"allowzero": allow} if allow or d.flag() else {},
        "constant": d.settled(1),
        **EXACT,
    }


@draws("Slice")
def slices(d: Draw) -> dict[str, Any]:
    x = of_any(d, 1)
    axes = d.axes(x.ndim, 1) if d.flag() else None
    count = d.between(1, x.ndim) if axes is None else len(axes)
    dtype = d.dtype("Tind")
    ends = number((-(2**31), 2**31 - 1) if dtype == np.int32 else (-(2**63), 2**63 - 1))
    steps = [d.of(1, 2, -1, -2, 3, -9, 9) for _ in range(count)]
    limits = [[int(d.of(0, 1, -1, 2, -2, 5, -6, 100, -100, *ends)) for _ in range(count)] for _ in range(2)]
    parts = [np.array(limit, dtype) for limit in limits]
    parts.append(None if axes is None else np.array(axes, dtype))
    parts.append(np.array(steps, dtype) if d.flag() else None)
    return {"inputs": [x, *parts], "constant": d.settled(1, 2, 3, 4), **EXACT}


@draws("Split")
def split(d: Draw) -> dict[str, Any]:
    x = of_any(d, 1)
    axis = d.axis(x.ndim)
    total = x.shape[axis]
    if d.flag():
        cuts = sorted(d.between(0, total) for _ in range(d.between(0, 3)))
        sizes = np.diff([0, *cuts, total])
        return {
            "inputs": [x, number(sizes)],
            "attributes": {"axis": axis},
            "outputs": len(sizes),
            "constant": frozenset({1}),
            **EXACT,
        }
    count = d.between(1, max(total, 1))
    if count > 1 and -(-total // count) * (count - 1) >= total:
        count = 1
    return {"inputs": [x], "attributes": {"axis": axis, "num_outputs": count}, "outputs": count, **EXACT}


@draws("Squeeze")
def squeeze(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(0, 5, (1, 2, 1, 3, 0)), d.dtype("T"))
    ones = [k for k, size in enumerate(x.shape) if size == 1]
    chosen = [k - x.ndim if d.flag() else k for k in ones if d.flag()]
    return {"inputs": [x, d.maybe(number(chosen)) if chosen else None], "constant": d.settled(1), **EXACT}


@draws("Unsqueeze")
def unsqueeze(d: Draw) -> dict[str, Any]:
    x = of_any(d, 0, 3)
    count = d.between(1, 3)
    axes = d.permuted(range(x.ndim + count))[:count]
    chosen = [k - x.ndim - count if d.flag() else k for k in axes]
    return {"inputs": [x, number(chosen)], "constant": d.settled(1), **EXACT}


@draws("Tile")
def tile(d: Draw) -> dict[str, Any]:
    x = of_any(d, 0, 3)
    return {"inputs": [x, number([d.of(1, 2, 0, 3) for _ in x.shape])], "constant": d.settled(1), **EXACT}


@draws("Transpose")
def transpose(d: Draw) -> dict[str, Any]:
    x = of_any(d, 0, 5)
    perm = list(d.permuted(range(x.ndim)))
    return {"inputs": [x], "attributes": {"perm": perm} if perm and d.flag() else {}, **EXACT}


@draws("Trilu")
def trilu(d: Draw) -> dict[str, Any]:
    k = d.maybe(number(d.of(0, 1, -1, 2, -3, 9, -9)))
    return {"inputs": [of_any(d, 2), k], "attributes": d.attributes(upper=(0, 1)), "constant": d.settled(1), **EXACT}


@draws("ConstantOfShape")
def constant_of_shape(d: Draw) -> dict[str, Any]:
    value = d.maybe(d.values((1,), d.dtype("T2", "str", "object")))
    attributes = {} if value is None else {"value": value}
    return {"inputs": [number(d.shape(0, 4))], "attributes": attributes, "constant": d.settled(0), **EXACT}


@draws("Constant")
def constant(d: Draw) -> dict[str, Any]:
    kind = d.of("value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")
    value = {
        "value": of_any(d),
        "value_float": 1.5,
        "value_floats": [1.5, -2.0, float("inf")],
        "value_int": -(2**63),
        "value_ints": [1, 2**40],
        "value_string": "ünï",
        "value_strings": ["a", ""],
    }[kind]
    return {"inputs": [], "attributes": {kind: value}, **EXACT}


@draws("EyeLike")
def eye_like(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(2, 2), d.dtype("T1"))
    attributes = d.attributes(k=(0, 1, -1, 9, -9), dtype=(1, 6, 7, 9, 11, 10))
    if x.dtype == bool:
        attributes.setdefault("dtype", 7)
    return {"inputs": [x], "attributes": attributes, **EXACT}


@draws("Range")
def ranges(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    start, limit = (d.of(0, 1, 5, -3, 20) for _ in range(2))
    delta = d.of(1, 2, -1, -3, 7)
    if dtype.kind == "f" and d.flag():
        delta = delta / 4
    return {"inputs": [np.asarray(x, dtype) for x in (start, limit, delta)], "constant": d.settled(0, 1, 2)}


@draws("CenterCropPad")
def center(d: Draw) -> dict[str, Any]:
    x = of_any(d, 1)
    axes = d.axes(x.ndim, 1) if d.flag() else None
    count = x.ndim if axes is None else len(axes)
    sizes = np.array([d.of(*SIZES) for _ in range(count)], d.dtype("Tind"))
    attributes = {} if axes is None else {"axes": axes}
    return {"inputs": [x, sizes], "attributes": attributes, "constant": d.settled(1), **EXACT}


@draws("ReverseSequence")
def reverse(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(2, 4, (2, 1, 3, 5)), d.dtype("T"))
    time = d.between(0, 1)
    lengths = number([d.between(1, x.shape[time]) for _ in range(x.shape[1 - time])])
    return {"inputs": [x, lengths], "attributes": {"time_axis": time, "batch_axis": 1 - time}, **EXACT}
