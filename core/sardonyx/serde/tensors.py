"""Tensors: from TensorProto's many layouts to arrays when they are asked for, and back to raw bytes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from sardonyx import dtypes
from sardonyx.dtypes import DType
from sardonyx.errors import InvalidProtobuf, NotImplemented
from sardonyx.ir.model import Tensor
from sardonyx.ir.types import TensorType
from sardonyx.serde import wire
from sardonyx.serde.source import DataFiles
from sardonyx.serde.wire import Record

MAX_RANK = 64

_FIELDS = {
    dtypes.float32: "float_data",
    dtypes.complex64: "float_data",
    dtypes.float64: "double_data",
    dtypes.complex128: "double_data",
    dtypes.int64: "int64_data",
    dtypes.uint32: "uint64_data",
    dtypes.uint64: "uint64_data",
    dtypes.string: "string_data",
}


def read_tensor(record: Record, files: DataFiles) -> Tensor:
    """The tensor of a TensorProto. Its numbers stay where they are until `array()`; that there are enough is checked."""
    name = record.get("name", "")
    try:
        shape = tuple(record.get("dims", ()))
        if len(shape) > MAX_RANK:
            raise ValueError(f"rank {len(shape)} is above {MAX_RANK}")
        if shape and min(shape) < 0:
            raise ValueError(f"dimension {min(shape)} is negative")
        number = record.get("data_type", 0)
        dtype = dtypes.by_number(number)
        if dtype is None:
            raise NotImplemented(f"Tensor '{name}': element type {number} is unknown")
        load = partial(_load, name, dtype, shape, _content(record, dtype, shape, files))
    except ValueError as error:
        if isinstance(error, wire.InvalidProtobuf):
            raise
        raise InvalidProtobuf(f"Tensor '{name}': {error}") from None
    metadata = {entry.get("key", ""): entry.get("value", "") for entry in record.get("metadata_props", ())}
    return Tensor(dtype, shape, load, name, record.get("doc_string", ""), metadata)


def _content(record: Record, dtype: DType, shape: tuple[int, ...], files: DataFiles) -> Any:
    """What `_load` makes the array of: raw bytes, or a list from a typed field."""
    size = math.prod(shape)
    needed = (size * dtype.bits + 7) // 8
    field = _FIELDS.get(dtype, "int32_data")
    if record.get("data_location") == 1:
        where = {entry.get("key", ""): entry.get("value", "") for entry in record.get("external_data", ())}
        length = int(where.get("length", needed))
        source = f"external data in '{where.get('location', '')}'"
        content: memoryview | list[Any] = files.view(where.get("location", ""), int(where.get("offset", 0)), length)
    elif "raw_data" in record and not (record.get(field) and not record["raw_data"]):
        source, content = "raw_data", record["raw_data"]
    else:
        source, content = field, record.get(field, [])
    if isinstance(content, memoryview):
        if dtype is dtypes.string:
            raise ValueError(f"strings cannot stand in {source}; ONNX puts them into string_data")
        if len(content) != needed:
            raise ValueError(f"{TensorType(dtype, shape)} needs {needed} bytes, its {source} has {len(content)}")
        return content
    present = len(content) if dtype is dtypes.string else sum(map(len, content))
    # A number takes at least a byte; how many there are is known only once they are decoded.
    least = needed if dtype.is_float and field != "int32_data" else min(size, needed)
    if present < (size if dtype is dtypes.string else least):
        raise ValueError(f"{TensorType(dtype, shape)} has {size} elements, its {source} is shorter")
    return content


def _load(name: str, dtype: DType, shape: tuple[int, ...], content: Any) -> np.ndarray:
    try:
        flat = _raw(content, dtype, shape) if isinstance(content, memoryview) else _typed(content, dtype, shape)
        array = flat.reshape(shape)
    except ValueError as error:
        raise InvalidProtobuf(f"Tensor '{name}': {error}") from None
    array.flags.writeable = False
    return array


def _raw(content: memoryview, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    if not len(content):
        return np.empty(0, dtype.storage)
    if dtype.bits < 8:
        return unpack(np.frombuffer(content, np.uint8), dtype, math.prod(shape))
    if dtype is dtypes.bool_:
        return np.frombuffer(content, np.uint8) != 0
    return np.frombuffer(content, dtype.storage.newbyteorder("<"))


def _typed(content: list[Any], dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    size = math.prod(shape)
    if dtype is dtypes.string:
        flat = np.empty(len(content), object)
        flat[:] = [as_text(element) for element in content]
    else:
        field = _FIELDS.get(dtype, "int32_data")
        kind = {"float_data": "float", "double_data": "double"}.get(field, "int")
        packed = content[0] if len(content) == 1 else memoryview(b"".join(content))
        storage = dtype.storage.str if dtype.is_int and dtype.bits >= 8 else "<i8"
        found = wire.numbers(kind, packed, storage)
        if dtype.bits < 8 and dtype.kind != "string":
            flat = unpack(found.astype(np.uint8), dtype, size) if len(found) * dtype.bits >= 0 else found
        elif dtype.kind == "complex":
            flat = found[: len(found) // 2 * 2].view(dtype.storage)
        elif dtype is dtypes.bool_:
            flat = found != 0
        elif field == "int32_data" and dtype.is_float:
            flat = found.astype(f"u{dtype.itemsize}").view(dtype.storage)
        else:
            flat = found
    if len(flat) != size:
        raise ValueError(f"{TensorType(dtype, shape)} has {size} elements, its data has {len(flat)}")
    return flat


def as_text(data: bytes) -> str | bytes:
    """A string as `str` where it is UTF-8, and as it is where it is not."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
