"""What is fed to a model, checked against the types that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx.api.options import NodeArg
from sardonyx.common import dtypes, memory
from sardonyx.common.convert import inward
from sardonyx.common.dtypes import DType
from sardonyx.common.record import replace
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.model.ir import OptionalType, SparseTensorType, TensorType, Value
from sardonyx.model.structure import Cached, Nested, arrange, type_name
from sardonyx.runtime.handles import Feed, Handle

OWN = np.dtype(np.int_)
"""NumPy's own integer, which has 32 bits in Pyodide and on boards of 32 bits: there `np.array([1, 2])` is no int64, so
what was written for 64 bits feeds it where int64 is wanted."""


def fed_to(inputs: Sequence[Value], feed: Mapping[str, Any]) -> list[Nested[Feed]]:
    """What is fed to each input, checked against its declared type."""
    return [_fed_to(value, feed) for value in inputs if value.name in feed or _may_miss(value, inputs, feed)]


def _fed_to(value: Value, feed: Mapping[str, Any]) -> Nested[Feed]:
    kind, given = value.type, feed.get(value.name)
    if type(given) is np.ndarray and type(kind) is TensorType:  # the usual case
        return _tensor(value.name, kind, given)
    if isinstance(given, Cached) and isinstance(kind, TensorType):
        _tensor(value.name, kind, replace(given.tensor, shape=given.tensor.shape[:-1]))
        return given
    if isinstance(kind, SparseTensorType):
        return _tensor(value.name, TensorType(kind.dtype, kind.shape), _filled(value, given))
    if given is None and isinstance(kind, TensorType):
        raise Fail(f"Missing Input: {value.name}; None is fed for what the model declares as {kind}, no optional")
    return arrange(value.name, kind, given, _tensor)


def _filled(value: Value, given: Any) -> np.ndarray:
    """What is fed to a sparse input, with its zeros: runs know no other tensors."""
    from sardonyx.api.sparse import SparseTensor  # which few models need

    if isinstance(given, SparseTensor):
        return given.dense()
    if isinstance(given, np.ndarray):
        return given
    raise InvalidArgument(f"input {value.name!r} is {value.type}: give a SparseTensor, not a {type(given).__name__}")


def _may_miss(value: Value, inputs: Sequence[Value], feed: Mapping[str, Any]) -> bool:
    """True for an optional input, which need not be fed; InvalidArgument, in onnxruntime's words, for others."""
    if not isinstance(value.type, OptionalType):
        missing = [each for each in inputs if each.name not in feed and not isinstance(each.type, OptionalType)]
        names = [each.name for each in missing]
        wanted = ", ".join(f"input {each.name!r} is {each.type}" for each in missing)
        raise InvalidArgument(f"Required inputs ({names}) are missing from input feed ({list(feed)}); {wanted}")
    return True


def _tensor(name: str, kind: TensorType, given: Any) -> Feed:
    """The array that is given for a tensor of this type, or the tensor itself that is on a device."""
    want = kind.dtype
    if isinstance(given, Handle):
        if want not in (None, given.element):
            raise InvalidArgument(f"input {name!r} wants {kind}, not {given.element.onnx_name}")
        _check_shape(name, kind, given.shape)
        return given
    try:
        array = np.asarray(given)
    except Exception as error:  # what is given is foreign code
        what = type(given).__name__
        raise InvalidArgument(f"input {name!r} is given a {what}, of which no array can be made: {error}") from error
    if want is not None and not want.is_native:
        array = inward(array, want)
    elif want is not None and isinstance(given, (list, tuple, int, float)):
        array = _numbers(name, array, want)
    elif want is dtypes.int64 and array.dtype == OWN:
        array = array.astype(np.int64)
    stored = object if want is dtypes.string else want.storage if want else None
    if want is not None and array.dtype != stored:
        raise InvalidArgument(f"input {name!r} wants {want.onnx_name}, not NumPy's {array.dtype}; use astype")
    if kind.shape == () and array.size == 1:  # as onnxruntime, which takes an element in any rank for a scalar
        array = array.reshape(())
    _check_shape(name, kind, array.shape)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _check_shape(name: str, kind: TensorType, found: tuple[int, ...]) -> None:
    if (shape := kind.shape) is None:
        return
    if len(shape) != len(found):
        raise InvalidArgument(f"input {name!r} wants rank {len(shape)} ({kind}), not {list(found)}")
    for axis, (want, size) in enumerate(zip(shape, found, strict=True)):
        if isinstance(want, int) and want != size:
            raise InvalidArgument(f"input {name!r} wants {kind}, but axis {axis} is {size}, not {want}")


def _numbers(name: str, array: np.ndarray, want: DType) -> np.ndarray:
    """Python's numbers, which have no size of their own, as elements of this type."""
    if array.size and want.storage.kind not in _TAKES.get(array.dtype.kind, ""):
        return array
    with np.errstate(all="ignore"):
        converted = array.astype(want.storage)
    if want.is_int and (converted != array).any():
        raise InvalidArgument(f"input {name!r} wants {want.onnx_name}, which does not hold all of these numbers")
    return converted


_TAKES = {"b": "biuf", "i": "biuf", "u": "biuf", "f": "bf"}
"""What kinds of elements Python's truth values, integers and floats can become without a loss that would surprise."""


def blank(inputs: Sequence[Value], shapes: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
    """Zeros, or empty strings, for every input. Shapes may be left out where the model tells them.

    Raises InvalidArgument where there is no input of a name, and where a size is not told.
    """
    if unknown := shapes.keys() - {value.name for value in inputs}:
        names = ", ".join(repr(value.name) for value in inputs)
        raise InvalidArgument(f"the model has no input {min(unknown)!r}; it has {names}")
    feeds: dict[str, np.ndarray] = {}
    for value in inputs:
        told = shapes.get(value.name, value.shape)
        shape = [size for size in told or () if isinstance(size, int)]
        if told is None or len(shape) < len(told):
            raise InvalidArgument(f"the model leaves the sizes of input {value.name!r} open; give its shape")
        dtype = value.dtype or dtypes.float32
        memory.refuse(f"input {value.name!r}", prod(shape) * dtype.itemsize)
        feeds[value.name] = np.zeros(shape, "U1" if dtype is dtypes.string else dtype.storage)
    return feeds


def node_arg(value: Value) -> NodeArg:
    """What a session tells of an input or an output."""
    kind = value.type
    holder = kind.element if isinstance(kind, OptionalType) else kind
    shape = holder.shape if isinstance(holder, (TensorType, SparseTensorType)) else None
    return NodeArg(value.name, type_name(kind), list(shape or ()))
