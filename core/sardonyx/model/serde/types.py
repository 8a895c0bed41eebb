"""Types: from TypeProto to `ir.types` and back."""

from __future__ import annotations

from sardonyx import errors
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidGraph
from sardonyx.model.ir.types import (
    DimLike,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
)
from sardonyx.model.serde.wire import Record


def read_type(record: Record) -> ValueType | None:
    """The type in a TypeProto; None where it says nothing."""
    said = record.get("denotation", "")
    for field, content in record.items():
        if field in ("tensor_type", "sparse_tensor_type"):
            make = TensorType if field == "tensor_type" else SparseTensorType
            dims = content["shape"].get("dim", ()) if "shape" in content else ()
            shape = tuple(map(_size, dims)) if "shape" in content else None
            denotations = tuple(dim.get("denotation", "") for dim in dims)
            return make(
                _element(content.get("elem_type", 0)), shape, denotations if any(denotations) else (), denotation=said
            )
        if field == "map_type":
            key = _element(content.get("key_type", 0))
            if key is None:
                raise InvalidGraph("a map has keys of no type")
            return MapType(key, read_type(content.get("value_type", {})), denotation=said)
        if field in ("sequence_type", "optional_type"):
            container = SequenceType if field == "sequence_type" else OptionalType
            return container(read_type(content.get("elem_type", {})), denotation=said)
        if field == "opaque_type":
            return OpaqueType(content.get("domain", ""), content.get("name", ""), denotation=said)
    return None


def type_record(kind: ValueType) -> Record:
    """The TypeProto of a type."""
    field, content = _content(kind)
    return {field: content, "denotation": kind.denotation or None}


def _content(kind: ValueType) -> tuple[str, Record]:
    if isinstance(kind, MapType):
        return "map_type", {"key_type": kind.key.number, "value_type": kind.value}
    if isinstance(kind, SequenceType):
        return "sequence_type", {"elem_type": kind.element}
    if isinstance(kind, OptionalType):
        return "optional_type", {"elem_type": kind.element}
    if isinstance(kind, OpaqueType):
        return "opaque_type", {"domain": kind.domain or None, "name": kind.name or None}
    record: Record = {"elem_type": kind.dtype.number if kind.dtype else 0, "shape": None}
    if kind.shape is not None:
        said = kind.dim_denotations or ("",) * len(kind.shape)
        record["shape"] = {"dim": [_dim(size) | {"denotation": text or None} for size, text in zip(kind.shape, said)]}
    return "sparse_tensor_type" if isinstance(kind, SparseTensorType) else "tensor_type", record


def _element(number: int) -> DType | None:
    dtype = dtypes.by_number(number)
    if number and dtype is None:
        raise errors.NotImplemented(f"element type {number} is unknown; {dtypes.ALL[-1].number} is the last one known")
    return dtype


def _size(record: Record) -> DimLike:
    size: int = record.get("dim_value", -1)
    return size if size >= 0 else record.get("dim_param") or None


def _dim(dim: DimLike) -> Record:
    return {} if dim is None else {"dim_param" if isinstance(dim, str) else "dim_value": dim}
