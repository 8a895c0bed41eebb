"""Values that are more than a tensor: sequences, optionals and maps, arranged out of the tensors in them.

A sequence is a tuple, an optional is its element or None, and a map is a `Map`: of Arrays while a model is traced, of
NumPy arrays where it is fed. So all that operators on them do is done by Python while the plan is made, and nothing of
it is left in the plan. What an arrangement is but for its tensors is its *form*: `"tensor"`, None, a list of forms,
`{"keys": [...]}`, or `{"cache": ...}`. Plans say which forms they take and give.

>>> pair = ("left", None, Map((1, 2), "right"))
>>> form(pair), list(leaves(pair))
(['tensor', None, {'keys': [1, 2]}], ['left', 'right'])
>>> fill(form(pair), iter([5, 7]))
(5, None, Map(keys=(1, 2), values=7))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument, InvalidValue, NotImplemented
from sardonyx.model.ir import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, ValueType

T = TypeVar("T")
TENSOR = "tensor"
Form: TypeAlias = Any
"""JSON; equal where two arrangements differ in nothing but their tensors."""
Nested: TypeAlias = "T | Map[T] | Cached[T] | Stack[T] | Ragged[T] | tuple[Nested[T], ...] | None"


@record(frozen=True)
class Map(Generic[T]):
    """A map with these keys, or a sequence of maps: `values` is a tensor [key] or [row, key]."""

    keys: tuple[int | str, ...]
    values: T


@record(frozen=True)
class Cached(Generic[T]):
    """A tensor that its caller keeps on a device, with room behind it along an axis: what `output` joins to it is
    stored there, and not given.

    Where a plan is made, and where a run is fed, its shape has one more size at the end: the room along the axis.
    """

    output: str
    axis: int
    tensor: T


@record(frozen=True)
class Stack(Generic[T]):
    """A sequence of as many tensors of one shape as `tensor` has slices along its first axis.

    How many there are, only the run may tell. It has no form: whatever is not made for it takes a tuple.
    """

    tensor: T


@record(frozen=True)
class Ragged(Generic[T]):
    """A sequence of tensors that differ in size along `axis` alone: `tensor` has them joined there.

    `lengths`, a vector of int64, has the size of each.
    """

    tensor: T
    axis: int
    lengths: T


# ---- forms


def form(item: Nested[Any]) -> Form:
    """The form of an arrangement: its structure without its tensors."""
    if isinstance(item, tuple):
        return list(map(form, item))
    if isinstance(item, Map):
        return {"keys": list(item.keys)}
    if isinstance(item, Cached):
        return {"cache": item.output, "axis": item.axis}
    return None if item is None else TENSOR


def is_cached(outline: Form) -> bool:
    """Whether a form is that of a tensor with room."""
    return isinstance(outline, dict) and "cache" in outline


def is_nested(outline: Form) -> bool:
    """Whether a form is that of anything but a tensor."""
    return bool(outline != TENSOR)


def leaves(item: Nested[Any]) -> Iterator[Any]:
    """The tensors of an arrangement, in order."""
    if isinstance(item, Ragged):
        item = item.tensor, item.lengths
    if isinstance(item, tuple):
        for each in item:
            yield from leaves(each)
    elif item is not None:
        yield item.values if isinstance(item, Map) else item.tensor if isinstance(item, (Cached, Stack)) else item


def fill(outline: Form, tensors: Iterator[Any]) -> Any:
    """The arrangement of this form with the next of these tensors."""
    if isinstance(outline, list):
        return tuple(fill(each, tensors) for each in outline)
    if is_cached(outline):
        return Cached(outline["cache"], outline["axis"], next(tensors))
    if isinstance(outline, dict):
        return Map(tuple(outline["keys"]), next(tensors))
    return None if outline is None else next(tensors)


def ports(name: str, kind: ValueType | None, outline: Form) -> Iterator[tuple[str, TensorType]]:
    """A name and the type for each tensor of an input or output of this type and form."""
    if isinstance(kind, OptionalType):
        kind = kind.element
    if isinstance(outline, list):
        element = _element(kind)
        for number, each in enumerate(outline):
            yield from ports(f"{name}[{number}]", element, each)
    elif isinstance(outline, dict) and "keys" in outline:
        yield name, _values(kind, len(outline["keys"]))
    elif outline is not None:
        yield name, kind if isinstance(kind, TensorType) else TensorType(None)


def _element(kind: ValueType | None) -> ValueType | None:
    """The type of a sequence's elements; tensors among them need not agree in shape, whatever the model declares."""
    element = kind.element if isinstance(kind, SequenceType) else None
    return TensorType(element.dtype) if isinstance(element, TensorType) else element


def _values(kind: ValueType | None, count: int) -> TensorType:
    value = kind.value if isinstance(kind, MapType) else None
    return TensorType(value.dtype if isinstance(value, TensorType) else None, (count,))


# ---- what callers see


def type_name(kind: ValueType | None) -> str:
    """A type as onnxruntime writes it.

    >>> type_name(SequenceType(MapType(dtypes.int64, TensorType(dtypes.float32))))
    'seq(map(int64,tensor(float)))'
    """
    if isinstance(kind, (TensorType, SparseTensorType)):
        family = "tensor" if isinstance(kind, TensorType) else "sparse_tensor"
        return f"{family}({kind.dtype.onnx_name if kind.dtype else '?'})"
    if isinstance(kind, SequenceType):
        return f"seq({type_name(kind.element)})"
    if isinstance(kind, OptionalType):
        return f"optional({type_name(kind.element)})"
    if isinstance(kind, MapType):
        return f"map({kind.key.onnx_name},{type_name(kind.value)})"
    return "?" if kind is None else str(kind)


def arrange(name: str, kind: ValueType | None, value: Any, tensor: Callable[[str, TensorType, Any], T]) -> Nested[T]:
    """Arrange a caller's value for an input: a list for a sequence, a dict for a map, None for an empty optional.

    `tensor(name, type, array)` checks each tensor. InvalidArgument tells what is wanted.
    """
    if isinstance(kind, OptionalType):
        return None if value is None else arrange(name, kind.element, value, tensor)
    if isinstance(kind, SequenceType):
        if not isinstance(value, (list, tuple)):
            raise InvalidArgument(f"input {name!r} is a {type_name(kind)}: give a list, not {_kind_of(value)}")
        element = _element(kind)
        return tuple(arrange(f"{name}[{k}]", element, each, tensor) for k, each in enumerate(value))
    if isinstance(kind, MapType):
        return _arrange_map(name, kind, value, tensor)
    if kind is not None and not isinstance(kind, TensorType):
        raise NotImplemented(f"input {name!r} is a {type_name(kind)}, which cannot be fed here")
    if value is None or isinstance(value, Mapping):
        raise InvalidArgument(f"input {name!r} is a {type_name(kind)}: give an array, not {_kind_of(value)}")
    return tensor(name, kind or TensorType(None), value)


def _arrange_map(name: str, kind: MapType, mapping: Any, tensor: Callable[[str, TensorType, Any], T]) -> Map[T]:
    if not isinstance(mapping, Mapping):
        raise InvalidArgument(f"input {name!r} is a {type_name(kind)}: give a dict, not {_kind_of(mapping)}")
    wanted, plain = ((str,), str) if kind.key is dtypes.string else ((int, np.integer), int)
    stranger = next((key for key in mapping if not isinstance(key, wanted) or isinstance(key, bool)), None)
    if stranger is not None:
        linked = "std::string" if kind.key is dtypes.string else f"{kind.key.onnx_name}_t"
        raise InvalidValue(
            f"input {name!r} is a {type_name(kind)}: the key {stranger!r} is no {kind.key.onnx_name}. "
            f"Unexpected key type  {type(stranger)}, it cannot be linked to C type {linked}"
        )
    pairs = sorted((plain(key), value) for key, value in mapping.items())
    values = _values(kind, len(pairs))
    array = np.empty(len(pairs), dtype=object)
    array[:] = [value for _, value in pairs]
    dtype = values.dtype
    native = dtype is not None and dtype is not dtypes.string
    try:
        array = array.astype(dtype.storage) if dtype is not None and native else array
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"input {name!r} is a {type_name(kind)}: {error}") from error
    return Map(tuple(key for key, _ in pairs), tensor(name, values, array))


def _kind_of(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def present(item: Nested[np.ndarray]) -> Any:
    """An output as callers get it: sequences as lists, maps as dicts of Python's numbers."""
    if isinstance(item, tuple):
        return list(map(present, item))
    if isinstance(item, Map):
        rows = item.values.tolist()
        return [dict(zip(item.keys, row)) for row in rows] if item.values.ndim == 2 else dict(zip(item.keys, rows))
    return item
