"""Sources of models, names and scopes, attributes, external data."""

import mmap
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument, InvalidGraph, InvalidProtobuf, NoSuchFile
from sardonyx.model.ir import MapType, Model, OptionalType, SequenceType, SparseTensorType, TensorType
from sardonyx.model.serde.reader import read
from tests.support import eager

HEAD = '<ir_version: 10, opset_import: ["" : 21]> '


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def read_text(text: str) -> Model:
    return read(parsed(text).SerializeToString())


ADD = "main (float[N,3] x) => (float[N,3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }"


class TestSources:
    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, str, Path])
    def test_bytes_and_paths(self, kind, tmp_path):
        data = parsed(ADD).SerializeToString()
        if kind in (str, Path):
            (tmp_path / "a.onnx").write_bytes(data)
            model = read(kind(tmp_path / "a.onnx"))
        else:
            model = read(kind(data))
        array = model.graph.initializers[0].constant.array()
        assert array.tolist() == [1, 2, 3]
        assert not array.flags.writeable

    def test_a_file_is_mapped(self, tmp_path):
        model = parsed(ADD)
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros(3, "f4"), "w"))
        onnx.save(model, tmp_path / "a.onnx")
        array = read(tmp_path / "a.onnx").graph.initializers[0].constant.array()
        while isinstance(array.base, np.ndarray):
            array = array.base
        assert isinstance(memoryview(array.base).obj, mmap.mmap)

    def test_a_system_without_mapping_reads(self, tmp_path, monkeypatch):
        monkeypatch.setattr("sys.platform", "emscripten")
        onnx.save(parsed(ADD), tmp_path / "a.onnx")
        assert read(tmp_path / "a.onnx").graph.initializers[0].constant.array().tolist() == [1, 2, 3]

    def test_missing_files_are_named(self, tmp_path):
        with pytest.raises(NoSuchFile, match=r"nothing.onnx does not exist"):
            read(tmp_path / "nothing.onnx")
        with pytest.raises(NoSuchFile, match=r"is a folder"):
            read(tmp_path)

    @pytest.mark.parametrize(
        ("data", "what"),
        [
            (b"", "no bytes at all"),
            (b"<!DOCTYPE html><html>", "a page of HTML"),
            (b"<HTML>", "a page of HTML"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer"),
            (b"PK\x03\x04abc", "a ZIP archive"),
            (b"\x1f\x8babc", "a gzip archive"),
            (b"\x89SDX\r\n\x1a\n", "a compiled bundle"),
            (b"abcdORTM", "onnxruntime's own format"),
            (b"<ir_version: 10>", "parse_model"),
            (b"\x08\x0a", "no graph is in it"),
            (b"plain text", "byte"),
        ],
    )
    def test_what_is_no_model_is_called_by_its_name(self, data, what, tmp_path):
        (tmp_path / "a.onnx").write_bytes(data)
        with pytest.raises(InvalidProtobuf, match=rf"a\.onnx: .*{what}"):
            read(tmp_path / "a.onnx")


class TestNames:
    def test_one_value_to_a_name(self):
        graph = read_text(ADD).graph
        (node,) = graph.nodes
        assert node.inputs == [graph.inputs[0], graph.initializers[0]]
        assert node.outputs == graph.outputs
        assert graph.outputs[0].producer is node
        assert graph.outputs[0].type == TensorType(dtypes.float32, ("N", 3))
        assert graph.initializers[0].type == TensorType(dtypes.float32, (3,))

    def test_an_input_with_a_default_is_one_value(self):
        graph = read_text("main (float[3] x = {1,2,3}) => (float[3] y) { y = Neg(x) }").graph
        assert graph.inputs == graph.initializers
        assert graph.inputs[0].constant.array().tolist() == [1, 2, 3]

    def test_missing_optional_inputs_and_unused_outputs(self):
        graph = read_text('m (float[3] x) => (float[3] y) { y, "" = Dropout(x) z = Clip(y, "", y) }').graph
        assert graph.nodes[0].outputs[1].name == ""
        assert graph.nodes[1].inputs == [graph.outputs[0], None, graph.outputs[0]]

    def test_types_of_values_inside(self):
        graph = read_text("m (float[3] x) => (y) <float[3] a> { a = Neg(x) y = Neg(a) }").graph
        assert graph.nodes[0].outputs[0].type == TensorType(dtypes.float32, (3,))
        assert graph.outputs[0].type is None

    def test_a_subgraph_uses_outer_values(self):
        text = """m (bool c, float[3] x) => (float[3] y) {
            a = Neg(x)
            y = If (c) <then_branch = t () => (p) { p = Identity(a) }, else_branch = e () => (p) { p = Abs(x) }>
        }"""
        graph = read_text(text).graph
        then_branch, else_branch = graph.nodes[1].subgraphs()
        assert then_branch.nodes[0].inputs == graph.nodes[0].outputs
        assert else_branch.nodes[0].inputs == [graph.inputs[1]]
        assert then_branch.outputs[0] is not else_branch.outputs[0]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("m (float[3] x) => (y) { [a] y = Add(x, w) }", "Add 'a': input 'w' is not defined by any node, input or"),
            ("m (float[3] x) => (z) { y = Neg(x) }", "graph 'm': no node, input or initializer defines its output 'z'"),
            ("m (float[3] x) => (y) { y = Neg(x) y = Abs(x) }", "'y' is defined already, by Neg 'y'"),
            ("m (float[3] x, float[3] x) => (y) { y = Neg(x) }", "'x' is defined already, as an input or initializer"),
            ("m (float[3] x) => (y) { x = Neg(x) y = Abs(x) }", "'x' is defined already, as an input"),
            (
                "m (float[3] x) => (y) { [a] b = Neg(c) [d] c = Abs(b) y = Abs(c) }",
                "Neg 'a' needs Abs 'd' needs Neg 'a'",
            ),
            (
                "m (bool x) => (y) { [i] y = If (x) <then_branch = t () => (p) { [n] p = Neg(q) }> }",
                "Neg 'n': input 'q' is not defined by any node, input or initializer of graph 't'",
            ),
        ],
    )
    def test_undefined_and_doubled_names(self, text, reason):
        with pytest.raises(InvalidGraph, match=reason):
            read_text(text)

    def test_nodes_in_the_wrong_order_are_sorted(self):
        text = """m (bool c, float[3] x) => (float[3] y) {
            y = If (c) <then_branch = t () => (p) { p = Exp(q) q = Neg(a) }, else_branch = e () => (r) { r = Abs(x) }>
            a = Neg(b)
            b = Abs(x)
        }"""
        graph = read_text(text).graph
        assert [node.op_type for node in graph.nodes] == ["Abs", "Neg", "If"]
        assert [node.op_type for node in next(graph.nodes[2].subgraphs()).nodes] == ["Neg", "Exp"]

    def test_two_versions_of_an_opset(self):
        """The last one holds, as in onnxruntime; Softmax tells, which was of all axes to the end before 13."""
        x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
        for first, last, domain in ((11, 13, ""), (13, 11, ""), (13, 11, "ai.onnx"), (11, 13, "ai.onnx")):
            model = parsed("g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax(x) }")
            model.opset_import[0].version = first
            model.opset_import.append(helper.make_opsetid(domain, last))
            data = model.SerializeToString()
            assert read(data).opset_imports == {"": last}
            (wanted,) = onnxruntime.InferenceSession(data).run(None, {"x": x})
            (found,) = eager.evaluate(model, {"x": x})
            np.testing.assert_allclose(found, wanted, rtol=1e-5)

    def test_ai_onnx_is_the_empty_domain(self):
        model = parsed(ADD)
        model.graph.node[0].domain = model.opset_import[0].domain = "ai.onnx"
        found = read(model.SerializeToString())
        assert found.opset_imports == {"": 21}
        assert found.graph.nodes[0].domain == ""


class TestTypesAndAttributes:
    def test_every_kind_of_type(self):
        text = """m (seq(float[N]) a, map(int64, string) b, optional(seq(float)) c, sparse_tensor(float[2,?]) d, e,
            float[] f) => (a) {}"""
        types = [value.type for value in read_text(text).graph.inputs]
        scalar = TensorType(dtypes.float32, ())
        assert types == [
            SequenceType(TensorType(dtypes.float32, ("N",))),
            MapType(dtypes.int64, TensorType(dtypes.string, ())),
            OptionalType(SequenceType(scalar)),
            SparseTensorType(dtypes.float32, (2, None)),
            None,
            TensorType(dtypes.float32, None),
        ]

    def test_every_kind_of_attribute(self):
        tensor = numpy_helper.from_array(np.array([1, 2]))
        sparse = helper.make_sparse_tensor(tensor, tensor, [4])
        graph = helper.make_graph([], "inner", [], [])
        given = {
            "int": 3,
            "float": 0.5,
            "string": "é",
            "tensor": tensor,
            "graph": graph,
            "sparse_tensor": sparse,
            "type_proto": helper.make_tensor_type_proto(1, [2]),
        }
        attributes = [helper.make_attribute(kind, value) for kind, value in given.items()]
        attributes += [helper.make_attribute(f"{kind}s", [value, value]) for kind, value in given.items()]
        node = helper.make_node("Any", [], [], domain="d")
        node.attribute.extend([*attributes, helper.make_attribute("binary", b"\xff")])
        data = helper.make_model(helper.make_graph([node], "g", [], [])).SerializeToString()
        found = read(data).graph.nodes[0].attributes
        assert [found[kind].kind for kind in given] == list(given)
        assert [found[f"{kind}s"].kind for kind in given] == [f"{kind}s" for kind in given]
        assert found["string"].value == "é"
        assert found["binary"].value == b"\xff"
        assert found["ints"].value == [3, 3]
        assert found["tensors"].value[1].array().tolist() == [1, 2]
        assert found["sparse_tensor"].value.shape == (4,)
        assert found["graphs"].value[0].name == "inner"
        assert found["type_proto"].value == TensorType(dtypes.float32, (2,))

    def test_a_missing_type_is_told_by_the_field(self):
        model = parsed("m (float[3] x) => (y) { y = LeakyRelu <alpha = 0.5> (x) }")
        model.graph.node[0].attribute[0].ClearField("type")
        assert read(model.SerializeToString()).graph.nodes[0].attribute("alpha") == 0.5

    def test_a_value_that_is_missing_is_the_default_of_protobuf(self):
        model = parsed('m (float[3] x) => (y) { y = Op <i = 0, s = "", g: ints = []> (x) }')
        for attribute in model.graph.node[0].attribute:
            attribute.ClearField("i")
            attribute.ClearField("s")
        found = read(model.SerializeToString()).graph.nodes[0]
        assert (found.attribute("i"), found.attribute("s"), found.attribute("g")) == (0, "", [])

    @pytest.mark.parametrize("number", [4, 5, 11, 13, 99])
    def test_attributes_without_sense(self, number):
        model = parsed("m (float[3] x) => (y) { [n] y = Op <i = 0> (x) }")
        model.graph.node[0].attribute[0].type = 4
        data = model.SerializeToString().replace(b"\xa0\x01\x04", b"\xa0\x01" + bytes((number,)))
        with pytest.raises(InvalidGraph, match=r"Op 'n': attribute 'i'"):
            read(data)

    def test_sparse_initializers(self):
        model = parsed("m (float[4] x) => (y) { y = Add(x, w) }")
        values, indices = helper.make_tensor("w", 1, [2], [1.0, 2.0]), helper.make_tensor("", 7, [2], [0, 3])
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
        graph = read(model.SerializeToString()).graph
        ((value, sparse),) = graph.sparse_initializers
        assert graph.nodes[0].inputs[1] is value
        assert sparse.indices.array().tolist() == [0, 3]
        assert value.type == SparseTensorType(dtypes.float32, (4,))


class TestExternalData:
    @pytest.fixture
    def model(self, tmp_path):
        """A model whose tensors lie in `data/weights.bin`, and their arrays."""
        arrays = {f"w{i}": np.arange(i * 100, i * 100 + 50, dtype="f4") for i in range(3)}
        inits = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
        model = helper.make_model(helper.make_graph([], "g", [], [], inits))
        (tmp_path / "data").mkdir()
        external_data_helper.convert_model_to_external_data(model, location="data/weights.bin", size_threshold=0)
        onnx.save(model, tmp_path / "a.onnx")
        return tmp_path / "a.onnx", arrays

    def assert_read(self, model, arrays):
        for value in model.graph.initializers:
            np.testing.assert_array_equal(value.constant.array(), arrays[value.name])

    def test_beside_the_model(self, model):
        path, arrays = model
        self.assert_read(read(path), arrays)
        self.assert_read(read(str(path)), arrays)

    def test_of_a_model_in_memory(self, model):
        path, arrays = model
        data = path.read_bytes()
        self.assert_read(read(data, folder=path.parent), arrays)
        weights = (path.parent / "data/weights.bin").read_bytes()
        self.assert_read(read(data, files={"data/weights.bin": weights}), arrays)
        with pytest.raises(InvalidArgument, match=r"lies in 'data/weights.bin'; .*folder= or files="):
            read(data)

    def test_a_missing_or_short_file(self, model):
        path, _ = model
        (path.parent / "data/weights.bin").write_bytes(b"1234")
        with pytest.raises(InvalidProtobuf, match=r"'data/weights.bin' are asked for, which has 4 bytes"):
            read(path)
        (path.parent / "data/weights.bin").unlink()
        with pytest.raises(NoSuchFile, match=r"weights.bin does not exist"):
            read(path)

    @pytest.mark.parametrize(
        ("key", "value", "reason"),
        [
            ("location", "../weights.bin", "must lie in the model's folder"),
            ("location", "data/../../weights.bin", "must lie in the model's folder"),
            ("location", "/etc/passwd", "must lie in the model's folder"),
            ("location", "C:weights.bin", "must lie in the model's folder"),
            ("location", "data\\weights.bin", "must lie in the model's folder"),
            ("location", "", "must lie in the model's folder"),
            ("location", "a\0b", "must lie in the model's folder"),
            ("offset", "-4", "asked for"),
            ("offset", "many", "many"),
            ("length", "12", r"float32\[50\] needs 200 bytes, its external data in 'data/weights.bin' has 12"),
            ("length", "99999999999999", "asked for"),
        ],
    )
    def test_what_is_out_of_bounds(self, model, key, value, reason):
        path, _ = model
        proto = onnx.load(path, load_external_data=False)
        for entry in proto.graph.initializer[0].external_data:
            entry.value = value if entry.key == key else entry.value
        with pytest.raises(InvalidProtobuf, match=f"'w0': .*{reason}"):
            read(proto.SerializeToString(), folder=path.parent)

    def test_links_may_not_lead_out_of_the_folder(self, model, tmp_path_factory):
        path, _ = model
        weights = path.parent / "data/weights.bin"
        elsewhere = tmp_path_factory.mktemp("elsewhere") / "weights.bin"
        weights.rename(elsewhere)
        weights.symlink_to(elsewhere)
        with pytest.raises(InvalidProtobuf, match=r"'data/weights.bin' is a link to"):
            read(path)

    def test_a_cache_may_link_model_and_data_to_one_place(self, model, tmp_path_factory):
        path, arrays = model
        cache = tmp_path_factory.mktemp("cache")
        (cache / "a.onnx").symlink_to(path)
        (cache / "data").mkdir()
        (cache / "data/weights.bin").symlink_to(path.parent / "data/weights.bin")
        self.assert_read(read(cache / "a.onnx"), arrays)

    def test_a_tensor_without_a_length(self, model):
        path, arrays = model
        proto = onnx.load(path, load_external_data=False)
        for each in proto.graph.initializer:
            entries = [entry for entry in each.external_data if entry.key != "length"]
            del each.external_data[:]
            each.external_data.extend(entries)
        assert proto.graph.initializer[0].data_location == TensorProto.EXTERNAL
        self.assert_read(read(proto.SerializeToString(), folder=path.parent), arrays)
