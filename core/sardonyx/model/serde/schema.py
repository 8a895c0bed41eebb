"""ONNX's messages in protobuf's own language, as tables that the reader and the writer share.

What the engine does not look at (training information, segments, device placement, what later versions of ONNX add) is
left out; see `UNREAD`. `packed` is a list whose bytes are kept as they are until someone asks for the numbers; `view`
is bytes never copied.
"""

from __future__ import annotations

from typing import TypeAlias

from sardonyx.common.record import record

UNREAD = ""
"""Where a record keeps the bytes of fields that its message does not list here, so that the writer can repeat them."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
WIRE = {"int": VARINT, "float": FIXED32, "double": FIXED64, "string": BYTES, "bytes": BYTES, "view": BYTES}

_LANGUAGE = """
message ModelProto
  int ir_version = 1
  string producer_name = 2
  string producer_version = 3
  string domain = 4
  int model_version = 5
  string doc_string = 6
  GraphProto graph = 7
  repeated OperatorSetIdProto opset_import = 8
  repeated StringStringEntryProto metadata_props = 14
  repeated FunctionProto functions = 25

message OperatorSetIdProto
  string domain = 1
  int version = 2

message StringStringEntryProto
  string key = 1
  string value = 2

message GraphProto
  repeated NodeProto node = 1
  string name = 2
  repeated TensorProto initializer = 5
  string doc_string = 10
  repeated ValueInfoProto input = 11
  repeated ValueInfoProto output = 12
  repeated ValueInfoProto value_info = 13
  repeated TensorAnnotation quantization_annotation = 14
  repeated SparseTensorProto sparse_initializer = 15
  repeated StringStringEntryProto metadata_props = 16

message FunctionProto
  string name = 1
  repeated string input = 4
  repeated string output = 5
  repeated string attribute = 6
  repeated NodeProto node = 7
  string doc_string = 8
  repeated OperatorSetIdProto opset_import = 9
  string domain = 10
  repeated AttributeProto attribute_proto = 11
  repeated ValueInfoProto value_info = 12
  string overload = 13
  repeated StringStringEntryProto metadata_props = 14

message NodeProto
  repeated string input = 1
  repeated string output = 2
  string name = 3
  string op_type = 4
  repeated AttributeProto attribute = 5
  string doc_string = 6
  string domain = 7
  string overload = 8
  repeated StringStringEntryProto metadata_props = 9

message AttributeProto
  string name = 1
  float f = 2
  int i = 3
  bytes s = 4
  TensorProto t = 5
  GraphProto g = 6
  repeated float floats = 7
  repeated int ints = 8
  repeated bytes strings = 9
  repeated TensorProto tensors = 10
  repeated GraphProto graphs = 11
  string doc_string = 13
  TypeProto tp = 14
  repeated TypeProto type_protos = 15
  int type = 20
  string ref_attr_name = 21
  SparseTensorProto sparse_tensor = 22
  repeated SparseTensorProto sparse_tensors = 23

message TensorProto
  repeated int dims = 1
  int data_type = 2
  packed float float_data = 4
  packed int int32_data = 5
  repeated bytes string_data = 6
  packed int int64_data = 7
  string name = 8
  view raw_data = 9
  packed double double_data = 10
  packed int uint64_data = 11
  string doc_string = 12
  repeated StringStringEntryProto external_data = 13
  int data_location = 14
  repeated StringStringEntryProto metadata_props = 16

message SparseTensorProto
  TensorProto values = 1
  TensorProto indices = 2
  repeated int dims = 3

message TensorAnnotation
  string tensor_name = 1
  repeated StringStringEntryProto quant_parameter_tensor_names = 2

message ValueInfoProto
  string name = 1
  TypeProto type = 2
  string doc_string = 3
  repeated StringStringEntryProto metadata_props = 4

message TypeProto
  TypeProto.Tensor tensor_type = 1
  TypeProto.Sequence sequence_type = 4
  TypeProto.Map map_type = 5
  string denotation = 6
  TypeProto.Opaque opaque_type = 7
  TypeProto.SparseTensor sparse_tensor_type = 8
  TypeProto.Optional optional_type = 9

message TypeProto.Tensor
  int elem_type = 1
  TensorShapeProto shape = 2

message TypeProto.SparseTensor
  int elem_type = 1
  TensorShapeProto shape = 2

message TypeProto.Sequence
  TypeProto elem_type = 1

message TypeProto.Optional
  TypeProto elem_type = 1

message TypeProto.Map
  int key_type = 1
  TypeProto value_type = 2

message TypeProto.Opaque
  string domain = 1
  string name = 2

message TensorShapeProto
  repeated TensorShapeProto.Dimension dim = 1

message TensorShapeProto.Dimension
  int dim_value = 1
  string dim_param = 2
  string denotation = 3
"""


class Message:
    """One message: its fields by name, and by the tags that announce them in a file (name, kind, label, message)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[str, Field] = {}
        self.by_tag: Tags = {}


Tags: TypeAlias = dict[int, tuple[str, str, str, Message | None]]


@record(frozen=True)
class Field:
    """One field: `kind` is a key of WIRE, or "" where it holds a message; `label` is `repeated`, `packed` or ""."""

    name: str
    kind: str
    label: str
    number: int
    message: Message | None

    @property
    def tag(self) -> int:
        """What announces the field in a file that the writer makes."""
        return self.number << 3 | (BYTES if self.message or self.label == "packed" else WIRE[self.kind])


def _parse(text: str) -> dict[str, Message]:
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    messages = {head.split()[1]: Message(head.split()[1]) for head, *_ in blocks}
    for message, (_, *lines) in zip(messages.values(), blocks):
        for line in lines:
            *label, kind, name, _, number = line.split()
            child = messages.get(kind)
            field = Field(name, "" if child else kind, label[0] if label else "", int(number), child)
            message.fields[name] = field
            tags = {field.tag}
            if label and not child:  # lists of numbers come packed or one by one, whatever the schema says
                tags |= {field.number << 3 | BYTES, field.number << 3 | WIRE[kind]}
            message.by_tag.update(dict.fromkeys(tags, (name, field.kind, field.label, child)))
    return messages


MESSAGES = _parse(_LANGUAGE)
