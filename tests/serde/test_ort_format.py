"""Models in onnxruntime's own format, as onnxruntime writes them, give what onnxruntime makes of them."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.errors import InvalidProtobuf, NotImplemented, SardonyxError
from sardonyx.model.serde.flatbuffer import DEPTH
from sardonyx.model.serde.reader import read

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "weights": (
        "agent (float[N,3] x) => (float[N,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> { t = MatMul(x, w)  y = Relu(t) }",
        {"x": X},
    ),
    "attributes": (
        """agent (float[N,3] x) => (float[N,3] y, float[3,N] z, string[N,3] s) {
          y = LeakyRelu <alpha = 0.25> (x)
          z = Transpose <perm = [1, 0]> (x)
          i = Cast <to = 7> (x)
          s = ai.onnx.ml.LabelEncoder <keys_int64s = [0, 1], values_strings = ["zero", "one"], default_string = "é"> (i)
        }""",
        {"x": X},
    ),
    "loop": (
        """agent (float[3] x, int64 n) => (float[3] y, float[K,3] all) {
          going = Constant <value = bool {1}> ()
          y, all = Loop (n, going, x) <body = body (int64 i, bool c, float[3] a) => (bool d, float[3] b, float[3] o) {
            d = Identity (c)
            b = Add (a, x)
            o = Mul (b, b)
          }>
        }""",
        {"x": X[0], "n": np.array(3)},
    ),
    "nested": (
        """agent (float[3] x, bool c) => (float[3] y) {
          y = If (c) <
            then_branch = a () => (float[3] p) { p = If (c) <
              then_branch = b () => (float[3] q) { q = Neg (x) }, else_branch = d () => (float[3] r) { r = Abs (x) }> },
            else_branch = e () => (float[3] s) { s = Exp (x) }>
        }""",
        {"x": X[0], "c": np.array(True)},
    ),
    "sequence": (
        "agent (seq(float[N,3]) s) => (float[M,3] y) { y = ConcatFromSequence <axis = 0> (s) }",
        {"s": [X, X + 1]},
    ),
    "strings": (
        'agent (string[N] x) => (string[N] y) <string[1] w = {"äö"}> { y = StringConcat (x, w) }',
        {"x": np.array(["a", "b"], object)},
    ),
    "optional inputs": ("agent (float[N,3] x) => (float[N,3] y) <float one = {1}> { y = Clip (x, , one) }", {"x": X}),
    "an initializer that is an input": (
        "agent (float[N,3] x, float[3] w = {1, 2, 3}) => (float[N,3] y) { y = Add (x, w) }",
        {"x": X},
    ),
    "an output that is an input": ("agent (float[N,3] x) => (float[N,3] x2) { x2 = Identity (x) }", {"x": X}),
}
HEADER = '<ir_version: 8, opset_import: ["" : 20, "ai.onnx.ml" : 3]>\n'
LEVELS = onnxruntime.GraphOptimizationLevel


def model(text: str) -> bytes:
    return bytes(onnx.parser.parse_model(HEADER + text).SerializeToString())


def converted(data: bytes, path: Path, level: Any = LEVELS.ORT_DISABLE_ALL) -> bytes:
    """What onnxruntime's converter writes."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.graph_optimization_level = level
    options.add_session_config_entry("session.save_model_format", "ORT")
    off = ["NchwcTransformer"]  # as the converter does
    onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"], disabled_optimizers=off)
    return path.read_bytes()


def same(mine: Any, other: Any) -> None:
    for a, b in zip(mine, other, strict=True):
        if isinstance(b, np.ndarray) and b.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("level", [LEVELS.ORT_DISABLE_ALL, LEVELS.ORT_ENABLE_ALL], ids=["plain", "optimized"])
@pytest.mark.parametrize("name", TEXTS)
def test_what_onnxruntime_writes(name: str, level: Any, tmp_path: Path) -> None:
    text, feeds = TEXTS[name]
    data = converted(model(text), tmp_path / "a.ort", level)
    theirs = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for given in (tmp_path / "a.ort", data):
        ours = sardonyx.InferenceSession(given, providers=["NumpyExecutionProvider"])
        for part in ("get_inputs", "get_outputs", "get_overridable_initializers"):
            assert list(map(str, getattr(ours, part)())) == list(map(str, getattr(theirs, part)()))
        same(ours.run(None, feeds), theirs.run(None, feeds))


def test_maps_and_sparse_initializers(tmp_path: Path) -> None:
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [2.0, 3.0])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [2], [0, 2]), [1, 3])
    nodes = [
        helper.make_node("DictVectorizer", ["m"], ["t"], domain="ai.onnx.ml", int64_vocabulary=[3, 1, 2]),
        helper.make_node("Mul", ["t", "w"], ["y"]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph(nodes, "g", [helper.make_value_info("m", kind)], [y], sparse_initializer=[sparse])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="me", doc_string="text")
    helper.set_model_props(proto, {"author": "somebody"})
    data = converted(proto.SerializeToString(), tmp_path / "a.ort")
    session = sardonyx.InferenceSession(data, providers=["NumpyExecutionProvider"])
    assert session.run(None, {"m": {1: 5.0, 2: 7.0, 3: 1.0}})[0].tolist() == [[2, 0, 21]]
    about = session.get_modelmeta()
    assert (about.producer_name, about.description, about.custom_metadata_map) == ("me", "text", {"author": "somebody"})


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    data = converted(Path("examples/digits/digits.onnx").read_bytes(), tmp_path / "a.ort", LEVELS.ORT_ENABLE_ALL)
    tensors = [value.constant for value in read(data).graph.initializers if value.constant is not None]
    whole = np.frombuffer(data, np.uint8)
    assert all(np.shares_memory(tensor.array(), whole) for tensor in tensors)
    image = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    results = [
        side.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"image": image})[0]
        for side in (sardonyx, onnxruntime)
    ]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)


def test_a_later_version_of_the_format(tmp_path: Path) -> None:
    data = converted(model(TEXTS["weights"][0]), tmp_path / "a.ort")
    place = data.index(b"\x01\x00\x00\x006\x00")  # the version, a string of one character
    with pytest.raises(NotImplemented, match="version '7' of onnxruntime's format is unknown; 6 is the last one known"):
        read(data[: place + 4] + b"7" + data[place + 5 :])


def test_damage_is_refused(tmp_path: Path) -> None:
    """Whatever is changed in a file, it is read, or refused in words."""
    data = converted(model(TEXTS["loop"][0]), tmp_path / "a.ort")
    for seed in range(600):
        chance = random.Random(seed)
        changed = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            place = chance.randrange(8, len(changed) - 4)
            if chance.random() < 0.5:
                changed[place] = chance.randrange(256)
            else:
                struct.pack_into("<I", changed, place // 4 * 4, chance.choice((0, 1, 4, 2**31, 2**32 - 1, len(data))))
        if chance.random() < 0.2:
            del changed[chance.randrange(8, len(changed)) :]
        with suppress(SardonyxError):
            read(bytes(changed))


def table(*offsets: int) -> bytes:
    """A table of references, each so many bytes ahead of its place, with its vtable before it."""
    size = 4 + 2 * len(offsets)
    places = [4 * (1 + k) if offset else 0 for k, offset in enumerate(offsets)]
    vtable = struct.pack(f"<HH{len(offsets)}H", size, 4 + 4 * len(offsets), *places)
    vtable += bytes(-len(vtable) % 4)
    return vtable + struct.pack(f"<i{len(offsets)}I", len(vtable), *offsets)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no bytes at all"),
        (b"\x08\0\0\0ORTM", "points out of the file"),
        (b"\x08\0\0\0ORTM\xff\xff\xff\x7f", "points before the file"),
        (b"\x08\0\0\0ORTM\x04\0\0\0", "buffer"),
    ],
)
def test_offsets_out_of_the_file(data: bytes, why: str) -> None:
    with pytest.raises(InvalidProtobuf, match=why):
        read(data)


def test_tables_that_nest_too_deeply_or_are_shared_too_often() -> None:
    from sardonyx.model.serde.flatbuffer import decode, parse

    tables = parse("table Node\n  Node left\n  Node right")
    step = len(table(4, 4))
    chain = struct.pack("<II", 16, 0) + table(step - 4, 0) * (DEPTH + 5) + table(0, 0)
    with pytest.raises(InvalidProtobuf, match=f"nest more than {DEPTH} levels deep"):
        decode(chain, tables, "Node", "thing")
    shared = struct.pack("<II", 16, 0) + table(step - 4, step - 8) * 60 + table(0, 0)
    with pytest.raises(InvalidProtobuf, match="its parts are more than it has bytes"):
        decode(shared, tables, "Node", "thing")
