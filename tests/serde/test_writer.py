"""Writing: files in one step, external data, names."""

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from sardonyx.common import dtypes
from sardonyx.common.atomic import replacing
from sardonyx.errors import InvalidArgument, InvalidGraph, NoSuchFile
from sardonyx.model.ir import Attribute, Graph, Model, Node, Tensor, TensorType, Value
from sardonyx.model.ir.compare import difference
from sardonyx.model.ir.text import parse_graph, parse_model
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save, write


def constant(name: str, array: np.ndarray) -> Value:
    tensor = Tensor.of(array, dtypes.of(array.dtype), name)
    return Value(name, TensorType(tensor.dtype, tensor.shape), constant=tensor)


@pytest.fixture
def model() -> Model:
    x = Value("x", TensorType(dtypes.float32, ("N", 300)))
    w, b = constant("w", np.arange(900, dtype="f4").reshape(300, 3)), constant("b", np.ones(3, "f4"))
    node = Node("Gemm", [x, w, b], [Value("y", TensorType(dtypes.float32, ("N", 3)))], {})
    return Model(Graph([x], node.outputs, [node], [w, b], name="main"), {"": 21})


def test_a_file_holds_what_write_gives(model, tmp_path):
    save(model, tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == write(model)
    onnx.checker.check_model(tmp_path / "a.onnx")
    assert difference(read(tmp_path / "a.onnx"), model) == ""
    assert [each.name for each in tmp_path.iterdir()] == ["a.onnx"]


def test_a_model_may_replace_the_file_that_it_is_mapped_from(model, tmp_path):
    save(model, tmp_path / "a.onnx")
    found = read(tmp_path / "a.onnx")
    found.producer_name = "a name that moves every byte"
    save(found, tmp_path / "a.onnx")
    assert difference(read(tmp_path / "a.onnx"), found) == ""


def test_a_failure_leaves_the_old_file(model, tmp_path):
    save(model, tmp_path / "a.onnx")
    before = (tmp_path / "a.onnx").read_bytes()
    model.graph.initializers[0].constant = None
    with pytest.raises(InvalidGraph, match=r"initializer 'w' has no constant"):
        save(model, tmp_path / "a.onnx", external_data="a.data")
    assert [each.name for each in tmp_path.iterdir()] == ["a.onnx"]
    assert (tmp_path / "a.onnx").read_bytes() == before


def test_external_data(model, tmp_path):
    save(model, tmp_path / "a.onnx", external_data="a.data")
    theirs = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(tmp_path / "a.onnx")
    np.testing.assert_array_equal(numpy_helper.to_array(theirs.graph.initializer[0]), np.arange(900).reshape(300, 3))
    plain = onnx.load(tmp_path / "a.onnx", load_external_data=False)
    entries = {each.key: each.value for each in plain.graph.initializer[0].external_data}
    assert entries == {"location": "a.data", "offset": "0", "length": "3600"}
    assert plain.graph.initializer[1].HasField("raw_data")
    assert difference(read(tmp_path / "a.onnx"), model) == ""


def test_external_data_starts_at_pages(model, tmp_path):
    save(model, tmp_path / "a.onnx", external_data="a.data", threshold=0)
    plain = onnx.load(tmp_path / "a.onnx", load_external_data=False)
    offsets = [
        int(entry.value) for each in plain.graph.initializer for entry in each.external_data if entry.key == "offset"
    ]
    assert sorted(offsets) == [0, 4096]
    assert difference(read(tmp_path / "a.onnx"), model) == ""


def test_where_a_file_cannot_be(model, tmp_path):
    with pytest.raises(NoSuchFile, match=r"the folder .*nowhere does not exist"):
        save(model, tmp_path / "nowhere" / "a.onnx")
    for place in (tmp_path, "", f"{tmp_path}/"):
        with pytest.raises(NoSuchFile, match=r"is no name of a file to write"):
            save(model, place)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidArgument, match=r"must be a file name without a folder"):
        save(model, tmp_path / "a.onnx", external_data="../a.data")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_what_is_no_file_is_written_and_not_replaced(model, tmp_path):
    """/dev/null stays what it is, even for a user who may do anything; a link goes on to lead to its file."""
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit((tmp_path / "pipe").read_bytes)
        save(model, tmp_path / "pipe")
        assert seen.result(10) == write(model)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to("b/file")
    save(model, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "b" / "file").read_bytes() == write(model)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_others_may_read_what_they_may_read_of_other_files(model, tmp_path):
    before = os.umask(0o027)
    try:
        save(model, tmp_path / "a.onnx")
        with replacing(tmp_path / "b", private=True) as file:
            file.write(b"nobody else's")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.onnx", "b")] == [0o640, 0o600]


def test_files_above_two_gigabytes_need_external_data(model, monkeypatch):
    monkeypatch.setattr("sardonyx.model.serde.writer.LIMIT", 1000)
    with pytest.raises(InvalidArgument, match=r"3,\d+ bytes are more than a protobuf file may have"):
        write(model)


def test_clashing_and_missing_names_are_made_unique():
    x = Value("x", TensorType(dtypes.float32, (3,)))
    a, b, c, y = Value("t"), Value("t"), Value(""), Value("x", x.type)
    nodes = [
        Node("Neg", [x], [a]),
        Node("Abs", [a], [b]),
        Node("Dropout", [b], [c, Value("")]),
        Node("Add", [b, c], [y]),
    ]
    data = write(Model(Graph([x], nodes[-1].outputs, nodes, name="g"), {"": 21}))
    onnx.checker.check_model(data)
    found = read(data).graph
    assert [value.name for node in found.nodes for value in node.outputs] == ["t", "t_1", "value_1", "", "x_1"]
    assert found.nodes[3].inputs == [*found.nodes[1].outputs, found.nodes[2].outputs[0]]


def test_branches_may_share_names_but_not_with_what_is_around_them():
    graph = parse_graph("""(bool c, float32[2] x) => (float32[2] y) {
        y = If(c) <then_branch = t () => (z) { z = Neg(x) }, else_branch = e () => (z) { z = Abs(x) }>
    }""")
    assert difference(read(write(Model(graph, {"": 21}))).graph, graph) == ""
    graph.nodes[0].attribute("then_branch").outputs[0].name = "x"
    found = read(write(Model(graph, {"": 21}))).graph
    assert [inner.outputs[0].name for inner in found.nodes[0].subgraphs()] == ["x_1", "z"]
    assert difference(found, graph, names=False) == ""


def test_functions_documentation_and_metadata():
    model = parse_model("""<ir_version: 10, opset_import: ["" : 21, "local" : 1], doc_string: "all", domain: "d",
        model_version: 7, producer_version: "1.0", metadata_props: ["a" : "b"]>
        main (float32[2] x) => (float32[2] y) { y = local.f:two <k = 2.0> (x) }
        <domain: "local", opset_import: ["" : 21], overload: "two", doc_string: "a function">
        f <k, j: int = 3> (float32[2] x) => (y) { float32[2] t = LeakyRelu <alpha: float = @k> (x)  y = Neg(t) }""")
    node = model.graph.nodes[0]
    for each in (model.graph, node, model.graph.inputs[0], next(iter(model.functions.values()))):
        each.doc, each.metadata = "why", {"from": "here"}
    node.attributes["k"].doc = "how much"
    data = write(model)
    onnx.checker.check_model(data)
    assert difference(read(data), model) == ""


def test_an_unknown_kind_of_attribute(model):
    model.graph.nodes[0].attributes["a"] = Attribute("a", "complex", 1j)
    with pytest.raises(InvalidGraph, match=r"attribute 'a' has the unknown kind 'complex'"):
        write(model)
