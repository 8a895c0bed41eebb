"""Primitives as NumPy functions on whole buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import dtypes
from sardonyx.array import PRIMITIVES
from sardonyx.compiler.kernel import Routine
from sardonyx.device import Address
from sardonyx.numpy_backend.memory import view

Arrays = Sequence[np.ndarray]
Function = Callable[[Arrays, Arrays, Mapping[str, Any]], Callable[[], None]]


def bind_routine(code: Routine, buffers: Sequence[Address], params: Sequence[int]) -> Callable[[], None]:
    """The call of a routine on these buffers."""
    shapes = [[_number(size, params) for size in shape] for shape in (*code.inputs, *code.outputs)]
    names = (*code.reads, *code.writes)
    arrays = [
        view(address, dtypes.by_name(name).storage, shape)
        for address, name, shape in zip(buffers, names, shapes, strict=True)
    ]
    inputs, outputs = arrays[: len(code.reads)], arrays[len(code.reads) :]
    return FUNCTIONS.get(code.primitive, _generic(code.primitive))(inputs, outputs, decode(code.attributes, params))


def _number(size: int | str, params: Sequence[int]) -> int:
    return params[int(size[1:])] if isinstance(size, str) else size


def decode(value: Any, params: Sequence[int]) -> Any:
    """A primitive's parameters from a plan's JSON."""
    if isinstance(value, dict):
        if "size" in value and len(value) == 1:
            return _number(value["size"], params)
        if "dtype" in value and len(value) == 1 and isinstance(value["dtype"], str):
            return dtypes.by_name(value["dtype"])
        if "float" in value and len(value) == 1:
            return float(value["float"])
        return {name: decode(item, params) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(decode(item, params) for item in value)
    return value


def _generic(name: str) -> Function:
    """The primitive's own NumPy rule, its result copied to the buffers."""
    rule = PRIMITIVES[name].numpy

    def bind(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any]) -> Callable[[], None]:
        def run() -> None:
            for target, result in zip(outputs, rule(*inputs, **attributes), strict=True):
                np.copyto(target, result)

        return run

    return bind


def _pad(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any]) -> Callable[[], None]:
    (x,), (y,) = inputs, outputs
    inside = y[tuple(slice(low, low + size) for low, size in zip(attributes["low"], x.shape, strict=True))]
    value = attributes["value"]

    def run() -> None:
        y.fill(value)
        inside[...] = x

    return run


def _dot_general(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any]) -> Callable[[], None]:
    """A product that is one matmul of views writes straight to its buffer."""
    (a, b), (y,) = inputs, outputs
    (ca, cb), (ba, bb) = attributes["contract"], attributes["batch"]
    plain = a.dtype == b.dtype == y.dtype and a.dtype.kind == "f" and a.itemsize >= 4
    rows = [axis for axis in range(a.ndim) if axis not in (*ca, *ba)]
    columns = [axis for axis in range(b.ndim) if axis not in (*cb, *bb)]
    if not plain or len(ca) != 1 or len(columns) != 1:
        return _generic("dot_general")(inputs, outputs, attributes)
    left = a.transpose([*ba, *rows, *ca])
    right = b.transpose([*bb, *cb, *columns])
    if not ba:
        left, y = left.reshape(-1, left.shape[-1]), y.reshape(-1, y.shape[-1])
    elif len(rows) != 1:
        return _generic("dot_general")(inputs, outputs, attributes)

    def run() -> None:
        np.matmul(left, right, out=y)

    return run


def _nonzero(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any]) -> Callable[[], None]:
    """The second output is the room for all elements; what is found fills its beginning."""
    (x,), (count, room) = inputs, outputs

    def run() -> None:
        places = np.nonzero(x) if x.ndim else ()
        count[0] = len(places[0]) if places else int(x.item() != 0)
        for axis, line in enumerate(places):
            room[axis * len(line) : (axis + 1) * len(line)] = line

    return run


FUNCTIONS: dict[str, Function] = {"pad": _pad, "dot_general": _dot_general, "nonzero": _nonzero}
