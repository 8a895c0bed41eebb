"""Broken files give errors of this package, and soon."""

import time
from contextlib import suppress

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from sardonyx.errors import InvalidProtobuf, SardonyxError
from sardonyx.model.ir.checker import check
from sardonyx.model.ir.text import format_model
from sardonyx.model.serde.inline import inline_functions
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.wire import varint
from sardonyx.model.serde.writer import write

TEXT = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1], metadata_props: ["k": "v"]>
main (float[N,2] x, bool c, float[2] w = {1, 2}) => (float[N,2] y, seq(float[N]) s) <int8[3] q = {1,2,3}, float[N,2] a>
{
  a = Add(x, w)
  b = local.twice <k: float = 2.0> (a)
  y = If (c) <then_branch = t () => (p) { p = Identity(b) }, else_branch = e () => (n) { n = Neg(a) }>
  z = Constant <value_strings = ["a", "b"]> ()
  s = SequenceConstruct(a, b)
}
<domain: "local", opset_import: ["" : 21]>
twice <k> (x) => (y) { c = Constant <value_float: float = @k> ()  y = Mul(x, c) }
"""


def small() -> bytes:
    model = onnx.parser.parse_model(TEXT)
    for number, field in (
        (7, "int64_data"),
        (10, "int32_data"),
        (22, "int32_data"),
        (8, "string_data"),
        (14, "float_data"),
    ):
        values = [b"a", b"b"] if field == "string_data" else [1, 2]
        size = 1 if number == 14 else 4 if number == 22 else 2
        model.graph.initializer.append(TensorProto(name=f"i{number}", dims=[size], data_type=number, **{field: values}))
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("sv", 1, [1], [3.0]), helper.make_tensor("si", 7, [1], [2]), [4]
    )
    model.graph.sparse_initializer.append(sparse)
    return model.SerializeToString()


DATA = small()


def survives(data: bytes):
    """Whatever is done with these bytes, it works or raises one of our own errors."""
    started = time.thread_time()
    with suppress(SardonyxError):
        model = read(data)
        for value in model.graph.initializers:
            if value.constant.size < 1 << 20:
                value.constant.array()
        check(model)
        format_model(model)
        write(inline_functions(model))
    assert time.thread_time() - started < 1


def test_the_unbroken_model_is_sound():
    model = read(DATA)
    check(model)
    check(inline_functions(model))
    onnx.checker.check_model(write(model))


def test_every_truncation():
    for length in range(1, len(DATA)):
        survives(DATA[:length])


@given(st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=400, deadline=None)
def test_changed_bytes(changes):
    data = bytearray(DATA)
    for position, byte in changes:
        data[position] = byte
    survives(bytes(data))


def test_every_byte_with_each_bit_flipped():
    for position in range(len(DATA)):
        data = bytearray(DATA)
        data[position] ^= 1 << position % 8
        survives(bytes(data))


@given(st.binary(min_size=1, max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes(data):
    survives(data)


def message(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def test_a_file_nested_ten_thousand_deep():
    graph = b""
    for _ in range(10_000 // 3):  # a graph in an attribute of a node of a graph
        graph = message(1, message(5, message(6, graph)))
    with pytest.raises(InvalidProtobuf, match="messages nest more than 200 deep"):
        read(message(7, graph))


def test_sizes_that_are_only_claimed_allocate_nothing():
    graph = helper.make_graph([], "g", [], [])
    graph.initializer.append(
        TensorProto(name="w", data_type=1, dims=[1 << 31, 1 << 20], raw_data=np.zeros(4).tobytes())
    )
    with pytest.raises(InvalidProtobuf, match=r"'w': float32\[2147483648,1048576\] needs 9007199254740992 bytes"):
        read(helper.make_model(graph).SerializeToString())
