"""Bytes and records, against protobuf's own package."""

import math
from array import array

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sardonyx.errors import InvalidGraph, InvalidProtobuf
from sardonyx.model.serde import wire
from sardonyx.model.serde.schema import MESSAGES, UNREAD
from sardonyx.model.serde.wire import DEPTH, LONG, decode, encode, varint

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=32, allow_nan=False)


def encoded(record, name):
    return b"".join(encode(record, MESSAGES[name], lambda message, thing: thing))


@given(st.lists(INT64), st.lists(FLOAT), st.lists(st.binary(max_size=9)), INT64, FLOAT, st.text(max_size=9))
@settings(max_examples=60, deadline=None)
def test_a_message_reads_as_protobuf_wrote_it_and_back(ints, floats, strings, i, f, name):
    theirs = onnx.AttributeProto(name=name, ints=ints, floats=floats, strings=strings, i=i, f=f)
    record = decode(theirs.SerializeToString(), MESSAGES["AttributeProto"])
    assert record.get("name", "") == name
    assert record["i"] == i
    assert record["f"] == f
    assert [record.get(field, []) for field in ("ints", "floats", "strings")] == [ints, floats, strings]
    assert encoded(record, "AttributeProto") == theirs.SerializeToString(deterministic=True)


@given(st.lists(INT64, min_size=1, max_size=20), st.sampled_from([1, 3000]))
@settings(max_examples=12, deadline=None)
def test_numbers_come_packed_or_one_by_one_short_or_long(ints, times):
    ints *= times
    singly = b"".join(b"\x40" + varint(each) for each in ints)
    numbers = b"".join(map(varint, ints))
    packed = b"\x42" + varint(len(numbers)) + numbers
    for data in (singly, packed, singly + packed):
        found = decode(data + b"\x0a\x01x", MESSAGES["AttributeProto"])
        assert list(found["ints"]) == ints * (2 if data == singly + packed else 1)
        assert isinstance(found["ints"], list) == (len(found["ints"]) <= LONG)
        assert found["name"] == "x"
    if len(ints) > LONG:
        theirs = onnx.AttributeProto.FromString(encoded({"ints": array("q", ints)}, "AttributeProto"))
        assert list(theirs.ints) == ints


@pytest.mark.parametrize("count", [LONG - 1, LONG + 2, 300_000])
def test_long_lists_of_floats(count):
    values = np.random.default_rng(0).normal(size=count).astype("f4")
    theirs = onnx.AttributeProto(name="x", floats=values.tolist())
    found = decode(theirs.SerializeToString(), MESSAGES["AttributeProto"])["floats"]
    np.testing.assert_array_equal(np.asarray(found, "f4"), values)
    again = onnx.AttributeProto.FromString(encoded({"floats": found}, "AttributeProto"))
    np.testing.assert_array_equal(np.asarray(again.floats, "f4"), values)


def test_packed_numbers_of_every_length_wrap_to_their_storage():
    values = [0, 1, 127, 128, 2**31 - 1, -1, -(2**63), 2**63 - 1, *range(-70000, 70000, 17)] * 60
    packed = memoryview(b"".join(map(varint, values)))
    assert len(packed) > 1 << 20
    np.testing.assert_array_equal(wire.numbers("int", packed), values)
    np.testing.assert_array_equal(wire.numbers("int", packed, "<u1"), np.array(values).astype("u1"))
    assert wire.packed(np.array(values)) == packed


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x12", "ModelProto, byte 1: the bytes end inside a field"),
        (b"\x12\x05ab", "ModelProto, byte 2: 'producer_name' claims 5 bytes where 2 are left"),
        (b"\x08" + b"\xff" * 11, "more than ten bytes"),
        (b"\x08\x80", "the bytes end inside a field"),
        (b"\x12\x02\xff\xfe", "'producer_name' is not UTF-8"),
        (b"\x3a\x04\x0a\x02\x0a\x05", r"ModelProto.graph.node\[0\], byte 6: 'input' claims 5 bytes where 0 are left"),
        (b"\x3a\x06\x0a\x00\x0a\x02\x0a\x01", r"ModelProto.graph.node\[1\], byte 8: 'input' claims 1 bytes where 0"),
        (b"\x0b", "'ir_version' has wire type 3"),
        (b"\xf3\x01\x00", "field 30 has wire type 3, which ONNX does not use"),
        (b"\xf2\x01\x09", "field 30 claims 9 bytes where 0 are left"),
        (b"\x00\x00", "a field has the number 0"),
        (b"\x3a\x02\x08\x05", "ModelProto.graph, byte 3: 'node' has wire type 0"),
    ],
)
def test_errors_name_the_message_and_the_byte(data, reason):
    with pytest.raises(InvalidProtobuf, match=reason):
        decode(data, MESSAGES["ModelProto"])


def test_a_number_may_not_run_past_its_message():
    with pytest.raises(InvalidProtobuf, match=r"ModelProto.opset_import\[0\], byte 4: a number runs past"):
        decode(b"\x42\x01\x10\x05", MESSAGES["ModelProto"])


def test_the_bytes_of_unknown_fields_are_kept():
    unknown = b"\xf0\x01\x96\x01" + b"\xf2\x01\x03abc" + b"\xf5\x01abcd" + b"\xf1\x01abcdefgh"
    record = decode(unknown + b"\x08\x07" + unknown, MESSAGES["ModelProto"])
    assert record == {"ir_version": 7, UNREAD: unknown + unknown}


def test_a_message_that_comes_twice_is_merged():
    data = b"\x3a\x03\x12\x01a" + b"\x3a\x02\x0a\x00"
    assert decode(data, MESSAGES["ModelProto"]) == {"graph": {"name": "a", "node": [{}]}}


def test_deep_nesting_is_an_error_and_no_recursion():
    data = b""
    for level in range(10_000):  # a sequence of sequences of ...
        tag = b"\x22" if level % 2 else b"\x0a"
        data = tag + varint(len(data)) + data
    with pytest.raises(InvalidProtobuf, match=f"messages nest more than {DEPTH} deep"):
        decode(data, MESSAGES["TypeProto"])


def test_deep_nesting_cannot_be_written_either():
    record = {}
    for _ in range(10_000):
        record = {"sequence_type": {"elem_type": record}}
    with pytest.raises(InvalidGraph, match="nests more than"):
        encoded(record, "TypeProto")


def test_views_are_not_copied():
    data = onnx.TensorProto(raw_data=b"12345678").SerializeToString()
    view = decode(data, MESSAGES["TensorProto"])["raw_data"]
    assert view.obj is data
    assert math.prod(view.shape) == 8
