"""The tables against those of the onnx package."""

import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor

from sardonyx.model.serde.schema import MESSAGES, WIRE, Message

KINDS = {
    "int": {
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_ENUM,
    },
    "float": {FieldDescriptor.TYPE_FLOAT},
    "double": {FieldDescriptor.TYPE_DOUBLE},
    "string": {FieldDescriptor.TYPE_STRING},
    "bytes": {FieldDescriptor.TYPE_BYTES},
    "view": {FieldDescriptor.TYPE_BYTES},
}
LEFT_OUT = {
    "ModelProto": {"training_info", "configuration"},
    "NodeProto": {"device_configurations"},
    "TensorProto": {"segment"},
}


def descriptor(name):
    found = onnx.ModelProto.DESCRIPTOR.file.message_types_by_name[name.split(".")[0]]
    for part in name.split(".")[1:]:
        found = found.nested_types_by_name[part]
    return found


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_every_field_is_that_of_onnx(message: Message):
    theirs = {field.name: field for field in descriptor(message.name).fields}
    for name, field in message.fields.items():
        assert theirs[name].number == field.number
        if field.message:
            assert theirs[name].message_type.full_name == f"onnx.{field.message.name}"
        else:
            assert theirs[name].type in KINDS[field.kind]
        assert theirs[name].is_repeated == bool(field.label), name
        assert theirs[name].is_packed == (field.label == "packed"), name
    assert theirs.keys() - message.fields.keys() == LEFT_OUT.get(message.name, set())


def test_fields_stand_in_the_order_of_their_numbers():
    for message in MESSAGES.values():
        numbers = [field.number for field in message.fields.values()]
        assert numbers == sorted(numbers)
    assert set(KINDS) == set(WIRE)
