"""onnxruntime's format of LoRA adapters (.onnx_adapter): tensors by name, as its `adapter_schema.fbs` has them."""

from __future__ import annotations

import struct

import numpy as np

from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.errors import InvalidProtobuf, NotImplemented
from sardonyx.model.ir import Tensor
from sardonyx.model.serde.flatbuffer import decode, parse
from sardonyx.model.serde.source import BytesLike, DataFiles
from sardonyx.model.serde.tensors import raw_bytes, read_tensor

MAGIC = b"TORT"
VERSION = 1
_TABLES = parse("""
table Adapter
  int32 format_version
  int32 adapter_version
  int32 model_version
  [Parameter] parameters

table Parameter
  string name
  [int64] dims
  int32 data_type
  bytes raw_data
""")


@record(frozen=True)
class Adapter:
    """What is in a file: versions that its maker gave, and tensors with their element types."""

    adapter_version: int
    model_version: int
    parameters: dict[str, tuple[DType, np.ndarray]]


def read_adapter(data: BytesLike) -> Adapter:
    """The adapter in these bytes, of which its tensors are views; InvalidProtobuf where they make no sense."""
    if bytes(data[4:8]) != MAGIC:
        raise InvalidProtobuf("this is no adapter in onnxruntime's format (.onnx_adapter)")
    record = decode(data, _TABLES, "Adapter", "adapter in onnxruntime's format")
    version = record.get("format_version", 0)
    if version != VERSION:
        raise NotImplemented(f"version {version} of adapters is unknown; {VERSION} is the only one known")
    tensors = [read_tensor(each, DataFiles(None)) for each in record.get("parameters", ())]
    parameters = {tensor.name: (tensor.dtype, tensor.array()) for tensor in tensors}
    return Adapter(record.get("adapter_version", 0), record.get("model_version", 0), parameters)


def write_adapter(adapter: Adapter) -> bytes:
    """The bytes of a file that `read_adapter` reads."""
    count = len(adapter.parameters)
    out = bytearray(struct.pack("<I4s", 24, MAGIC))
    out += struct.pack("<6H", 12, 20, 4, 8, 12, 16) + bytes(4)  # a vtable, then its table, at byte 24
    out += struct.pack("<i3iI", 16, VERSION, adapter.adapter_version, adapter.model_version, 4)
    out += struct.pack("<I", count) + bytes(4 * count)
    for number, (name, (dtype, array)) in enumerate(sorted(adapter.parameters.items())):
        _align(out, 0)
        out += struct.pack("<6H", 12, 20, 4, 8, 12, 16) + bytes(4)
        place = len(out)
        struct.pack_into("<I", out, 48 + 4 * number, place - (48 + 4 * number))
        out += struct.pack("<iIIiI", 16, 0, 0, dtype.number, 0)
        text = name.encode()
        dims = struct.pack(f"<{array.ndim}q", *array.shape)
        content = bytes(raw_bytes(Tensor.of(array, dtype)))
        for field, length, part in ((4, len(text), text + b"\0"), (8, array.ndim, dims), (16, len(content), content)):
            _align(out, 4)
            struct.pack_into("<I", out, place + field, len(out) - (place + field))
            out += struct.pack("<I", length) + part
    return bytes(out)


def _align(out: bytearray, offset: int) -> None:
    """Fill up to a multiple of 8 bytes, and so many."""
    out += bytes((offset - len(out)) % 8)
