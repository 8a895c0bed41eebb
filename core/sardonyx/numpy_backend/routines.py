"""Primitives as NumPy functions on whole buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sardonyx.code.kernel import Routine
from sardonyx.common import dtypes
from sardonyx.host import products
from sardonyx.numpy_backend.division import Access, Bound, Cuts, Division, Run, access
from sardonyx.numpy_backend.lookup import Mapped, lookup
from sardonyx.numpy_backend.memory import view
from sardonyx.numpy_backend.room import Room
from sardonyx.providers.contract import Address

Arrays = Sequence[np.ndarray]
Arguments = tuple[Arrays, Arrays, Mapping[str, Any]]
Function = Callable[[Arrays, Arrays, Mapping[str, Any]], Callable[[], Any]]


class BoundRoutine:
    """A routine, decoded as far as it does not depend on sizes."""

    def __init__(self, code: Routine) -> None:
        self.dtypes = [dtypes.by_name(name).storage for name in (*code.reads, *code.writes)]
        self.shapes = [_sizes(shape) for shape in (*code.inputs, *code.outputs)]
        self.inputs = len(code.reads)
        self.primitive = code.primitive
        self.function = _function(code.primitive)
        self.attributes = code.attributes
        self.fixed = None if "'size'" in repr(code.attributes) else decode(code.attributes, ())

    def __call__(self, buffers: Sequence[Address], params: Sequence[int]) -> Bound:
        arrays = [
            view(address, dtype, shape if isinstance(shape, tuple) else [_number(size, params) for size in shape])
            for address, dtype, shape in zip(buffers, self.dtypes, self.shapes, strict=True)
        ]
        inputs, outputs = arrays[: self.inputs], arrays[self.inputs :]

        def accesses() -> list[Access]:
            return [access(array, number >= self.inputs) for number, array in enumerate(arrays)]

        if isinstance(buffers[0].chunk, Mapped):
            run = lookup(*arrays) if all(array.size for array in arrays) else _nothing
            return Bound(run, accesses, _whole)
        attributes = self.fixed if self.fixed is not None else decode(self.attributes, params)

        def divided(rooms: Sequence[Room], cuts: Cuts) -> Division | None:
            from sardonyx.numpy_backend.splits import SPLITS  # which one thread does without

            splits = SPLITS.get(self.primitive)
            split = splits(inputs, outputs, attributes, len(rooms)) if splits and outputs[0].size else None
            if split is None:
                return None
            parts = [
                _together([self._part(call, room) for call in part])
                for part, room in zip(split.parts, rooms, strict=False)
            ]
            return Division(parts, split.accesses)

        return Bound(self.function(inputs, outputs, attributes), accesses, divided)

    def _part(self, call: Arguments, room: Room) -> Run:
        """What a thread does."""
        if self.primitive != "conv_general":
            return self.function(*call)
        from sardonyx.numpy_backend.convolution import in_steps

        return in_steps(*call, room)


def _together(calls: Sequence[Run]) -> Run:
    """One call of all."""
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run


def _nothing() -> None:
    """There are no elements."""


def _whole(rooms: Sequence[Room], cuts: Cuts) -> None:
    """It cannot be divided."""


def _sizes(shape: Sequence[int | str]) -> Sequence[int | str] | tuple[int, ...]:
    """A tuple where all sizes are known, else a list."""
    known = [size for size in shape if isinstance(size, int)]
    return tuple(known) if len(known) == len(shape) else list(shape)


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


def _function(name: str) -> Function:
    """What a primitive is as a function on buffers; few models need those that are imported here."""
    if name == "conv_general":
        from sardonyx.numpy_backend.convolution import conv_general

        return conv_general
    if name == "recurrent":
        from sardonyx.host.recurrent import prepare

        return prepare
    if name == "reduce_window":
        from sardonyx.host.windows import fold

        return _ruled(lambda *inputs, **attributes: [fold(*inputs, **attributes)])
    return FUNCTIONS.get(name) or _generic(name)


def _generic(name: str) -> Function:
    """The primitive's own NumPy rule."""
    from sardonyx.primitives import find  # which most networks do without

    return _ruled(find(name).numpy)


def _ruled(rule: Callable[..., Sequence[np.ndarray]]) -> Function:
    """A rule whose results are copied to the buffers."""

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
    if not ba and cb == (b.ndim - 1,):
        b, cb, columns = b.reshape(math.prod(b.shape[:-1]), b.shape[-1]), (1,), [0]
    if not plain or len(ca) != 1 or len(columns) != 1:
        return _generic("dot_general")(inputs, outputs, attributes)
    left = a.transpose([*ba, *rows, *ca])
    right = b.transpose([*bb, *cb, *columns])
    if not ba and ca == (a.ndim - 1,):
        left = left.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    elif len(rows) != 1:
        # Other rows cannot be joined without a copy, which would hold the values of one run.
        return _generic("dot_general")(inputs, outputs, attributes)
    if not ba:
        y = y.reshape(len(left), right.shape[-1])

    def run() -> None:
        products.matmul(left, right, y)

    return run


def _gather(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any]) -> Callable[[], Any]:
    """What is taken along one axis goes straight to its buffer."""
    (x, *indices), (y,) = inputs, outputs
    (axis, *others), place = attributes["axes"], attributes["place"]
    if others or place != axis or not x.shape[axis]:
        return _generic("gather")(inputs, outputs, attributes)
    if not np.can_cast(indices[0].dtype, np.intp):  # int64 where addresses have 32 bits
        return lambda: np.take(x, indices[0].astype(np.intp), axis=axis, out=y, mode="clip")
    return partial(np.take, x, indices[0], axis=axis, out=y, mode="clip")


def _nonzero(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any]) -> Callable[[], None]:
    """The second output is the room for all elements; what is found fills its beginning."""
    (x,), (count, room) = inputs, outputs

    def run() -> None:
        places = np.nonzero(x) if x.ndim else ()
        count[0] = len(places[0]) if places else int(x.item() != 0)
        for axis, line in enumerate(places):
            room[axis * len(line) : (axis + 1) * len(line)] = line

    return run


FUNCTIONS: dict[str, Function] = {
    "pad": _pad,
    "dot_general": _dot_general,
    "gather": _gather,
    "nonzero": _nonzero,
}
