"""Tensors: from TensorProto's layouts to arrays at the moment they are asked for, and back to raw bytes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from sardonyx import errors
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.memory import AXES
from sardonyx.errors import InvalidProtobuf, NoSuchFile, SardonyxError
from sardonyx.model.ir.model import Tensor
from sardonyx.model.ir.types import TensorType
from sardonyx.model.serde import wire
from sardonyx.model.serde.schema import UNREAD
from sardonyx.model.serde.source import DataFiles
from sardonyx.model.serde.wire import Record

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
    """The tensor of a TensorProto: a view where the layout allows it, decoded by `array()` where it does not.

    Unaligned views are common, for protobuf aligns nothing. InvalidProtobuf where the bytes are too few or too many.
    """
    name = record.get("name", "")
    try:
        shape = tuple(record.get("dims", ()))
        if len(shape) > AXES:
            raise ValueError(f"rank {len(shape)} is above {AXES}")
        if shape and min(shape) < 0:
            raise ValueError(f"dimension {min(shape)} is negative")
        dtype = dtypes.by_number(record.get("data_type", 0))
        if dtype is None:
            raise errors.NotImplemented(f"Tensor '{name}': element type {record.get('data_type', 0)} is unknown")
        outside = record.get("data_location") == 1 and name in files.replaced
        flat = partial(_given_elsewhere, name) if outside else _flat(record, dtype, shape, files)
        load = partial(_load, name, shape, flat)
    except SardonyxError:
        raise
    except ValueError as error:
        raise InvalidProtobuf(f"Tensor '{name}': {error}") from None
    metadata, unread = pairs(record.get("metadata_props", ())), bytes(record.get(UNREAD, b""))
    return Tensor(dtype, shape, load, name, record.get("doc_string", ""), metadata, unread)


def _flat(record: Record, dtype: DType, shape: tuple[int, ...], files: DataFiles) -> Callable[[], np.ndarray]:
    """A function that makes the flat array, returned once the bytes are known to be there."""
    size = math.prod(shape)
    needed = (size * dtype.bits + 7) // 8
    field = _FIELDS.get(dtype, "int32_data")
    if record.get("data_location") == 1:
        where = pairs(record.get("external_data", ()))
        length = int(where.get("length", needed))
        field = f"external data in '{where.get('location', '')}'"
        content = files.view(where.get("location", ""), int(where.get("offset", 0)), length)
    elif record.get("raw_data") or field not in record:
        field, content = "raw_data", record.get("raw_data", memoryview(b""))
    elif dtype is dtypes.string:
        return partial(_strings, record[field], size)
    else:
        chunks = record[field]
        content = chunks[0] if len(chunks) == 1 else memoryview(b"".join(chunks))
        if field not in ("float_data", "double_data"):  # those hold the same bytes as raw_data
            if len(content) < (size * min(dtype.bits, 8) + 7) // 8:
                raise ValueError(f"{TensorType(dtype, shape)} has {size} elements, its {field} has fewer")
            return partial(_integers, content, dtype, size)
    if dtype is dtypes.string:
        if size:
            raise ValueError(f"strings belong into string_data, not into {field}")
        return partial(_strings, [], 0)
    if len(content) != needed:
        raise ValueError(f"{TensorType(dtype, shape)} needs {needed} bytes, its {field} has {len(content)}")
    return partial(_raw, content, dtype, size)


def _given_elsewhere(name: str) -> NoReturn:
    raise NoSuchFile(f"Tensor '{name}': its data were to be given instead of their file")


def _load(name: str, shape: tuple[int, ...], flat: Callable[[], np.ndarray]) -> np.ndarray:
    try:
        array = flat().reshape(shape)
    except ValueError as error:
        raise InvalidProtobuf(f"Tensor '{name}': {error}") from None
    array.flags.writeable = False
    return array


def _raw(content: memoryview, dtype: DType, size: int) -> np.ndarray:
    if not size:
        return np.empty(0, dtype.storage)
    if dtype.bits < 8:
        return unpack(np.frombuffer(content, np.uint8), dtype, size)
    if dtype is dtypes.bool_:
        return np.frombuffer(content, np.uint8).astype(bool)
    return np.frombuffer(content, dtype.storage.newbyteorder("<"))


def _integers(content: memoryview, dtype: DType, size: int) -> np.ndarray:
    """A typed field of varints: numbers that wrap, the bits of small floats, or bytes of packed elements."""
    if dtype is dtypes.bool_:
        words = wire.numbers("int", content) != 0
    else:
        words = wire.numbers("int", content, f"<u{dtype.itemsize}")
    together = dtype.bits in (2, 4)  # those of 6 bits stand alone
    needed = (size * dtype.bits + 7) // 8 if together else size
    if len(words) != needed:
        raise ValueError(f"{needed} numbers are needed for {size} elements of {dtype}, there are {len(words)}")
    return unpack(words, dtype, size) if together else words.view(dtype.storage)


def _strings(content: list[bytes], size: int) -> np.ndarray:
    if len(content) != size:
        raise ValueError(f"its shape has {size} elements, string_data has {len(content)}")
    flat = np.empty(size, object)
    flat[:] = [as_text(element) for element in content]
    return flat


def raw_bytes(tensor: Tensor) -> memoryview:
    """The bytes of `raw_data`, a view of the tensor's array where that is contiguous. Strings have none."""
    elements = tensor.load() if tensor._array is None else tensor._array  # what is decoded for this need not stay
    array = np.ascontiguousarray(elements).reshape(-1)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False).view(np.uint8)
    return (pack(array, tensor.dtype.bits) if tensor.dtype.bits < 8 else array).data


def typed_field(tensor: Tensor) -> tuple[str, array[Any]]:
    """The field of a TensorProto that holds numbers of this type, and what stands in it: floats or integers."""
    field = _FIELDS.get(tensor.dtype, "int32_data")
    if field in ("float_data", "double_data"):
        return field, array("f" if field == "float_data" else "d", bytes(raw_bytes(tensor)))
    elements = np.ascontiguousarray(tensor.array()).reshape(-1)
    if tensor.dtype.bits < 8:
        elements = pack(elements.view(np.uint8), tensor.dtype.bits)
    elif tensor.dtype.is_float:
        elements = elements.view(f"u{tensor.dtype.itemsize}")
    return field, array("q", elements.astype(np.int64).tobytes())


def unpack(packed: np.ndarray, dtype: DType, size: int) -> np.ndarray:
    """One element a byte, from elements of 2, 4 or 6 bits that fill the bytes from their low ends: [n] to [size].

    >>> unpack(np.array([0x2F], np.uint8), dtypes.int4, 2)
    array([-1,  2], dtype=int8)
    """
    if dtype.bits == 6:
        bits = np.unpackbits(packed, bitorder="little")[: size * 6].reshape(size, 6)
        return np.packbits(bits, axis=1, bitorder="little").reshape(-1).view(dtype.storage)
    together = 8 // dtype.bits
    values = np.empty(len(packed) * together, np.uint8)
    for place in range(together):
        values[place::together] = packed >> np.uint8(place * dtype.bits) & np.uint8((1 << dtype.bits) - 1)
    values = values[:size]
    if dtype.kind == "int":
        sign = np.uint8(1 << dtype.bits - 1)
        values = (values ^ sign) - sign
    return values.view(dtype.storage)


def pack(values: np.ndarray, bits: int) -> np.ndarray:
    """The inverse of `unpack`: uint8 [size] to [n], the last byte filled up with zeros.

    >>> pack(np.array([0xFF, 0x02], np.uint8), 4)
    array([47], dtype=uint8)
    """
    if bits == 6:
        return np.packbits(np.unpackbits(values[:, None], axis=1, bitorder="little")[:, :6], bitorder="little")
    each = 8 // bits
    rows = np.zeros((-(-len(values) // each), each), np.uint8)
    rows.reshape(-1)[: len(values)] = values & np.uint8((1 << bits) - 1)
    packed: np.ndarray = np.bitwise_or.reduce(rows << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    return packed


def as_text(data: bytes) -> str | bytes:
    """A string as `str` where it is UTF-8, and as it is where it is not."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def pairs(entries: Any) -> dict[str, str]:
    """A list of StringStringEntryProtos as the dictionary that it stands for."""
    return {entry.get("key", ""): entry.get("value", "") for entry in entries}
