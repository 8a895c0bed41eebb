"""ONNX's own test models: read, written, printed, checked, and compared with what the onnx package sees."""

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx.common import dtypes
from sardonyx.model.ir import Graph, Model, Tensor, Value
from sardonyx.model.ir.checker import check
from sardonyx.model.ir.compare import difference
from sardonyx.model.ir.text import format_model, parse_model
from sardonyx.model.ir.types import OptionalType, SequenceType, TensorType
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write

QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 4


def test_reading_and_writing_keep_everything(onnx_models):
    for name, data in onnx_models.items():
        model = read(data)
        check(model)
        written = write(model)
        again = read(written)
        assert difference(model, again) == "", name
        assert write(again) == written, name


def test_what_is_written_is_as_valid_as_what_was_read(onnx_models):
    for name, data in onnx_models.items():
        try:
            onnx.checker.check_model(data)
        except onnx.checker.ValidationError:
            continue
        onnx.checker.check_model(write(read(data)))
        assert read(data).graph.name == onnx.load_from_string(data).graph.name, name


def test_onnxruntime_loads_what_is_written(onnx_models):
    loaded = 0
    for _, data in sampled(onnx_models):
        try:
            onnxruntime.InferenceSession(data, QUIET, providers=["CPUExecutionProvider"])
        except Exception:  # models of newer versions, and of operators that it lacks
            continue
        onnxruntime.InferenceSession(write(read(data)), QUIET, providers=["CPUExecutionProvider"])
        loaded += 1
    assert loaded > 300


def sampled(models: dict[str, bytes]) -> list[tuple[str, bytes]]:
    return [item for index, item in enumerate(models.items()) if index % 3 == 0]


def test_the_text_form_keeps_everything(onnx_models):
    for name, data in sampled(onnx_models):
        model = read(data)
        assert difference(model, parse_model(format_model(model, limit=None)), docs=False) == "", name


def test_the_text_form_of_onnx_is_read(onnx_models):
    for name, data in sampled(onnx_models):
        text = onnx.printer.to_text(onnx.load_from_string(data))
        theirs = read(onnx.parser.parse_model(text).SerializeToString())
        assert difference(parse_model(text), theirs, docs=False) == "", name


def test_the_model_is_the_one_that_onnx_sees(onnx_models):
    for data in onnx_models.values():
        proto, model = onnx.load_from_string(data), read(data)
        assert model.ir_version == proto.ir_version
        assert model.opset_imports == {each.domain: each.version for each in proto.opset_import}
        assert model.producer_name == proto.producer_name
        assert_same_graph(proto.graph, model.graph)


def assert_same_graph(proto, graph: Graph):
    assert names(graph.inputs) == [each.name for each in proto.input]
    assert names(graph.outputs) == [each.name for each in proto.output]
    assert names(graph.initializers) == [each.name for each in proto.initializer]
    for value, theirs in zip(graph.inputs, proto.input):
        assert_same_type(theirs.type, value)
    for value, theirs in zip(graph.initializers, proto.initializer):
        assert_same_tensor(theirs, value.constant)
    assert len(graph.nodes) == len(proto.node)
    for node, theirs in zip(graph.nodes, proto.node):
        assert (node.op_type, node.domain, node.name) == (theirs.op_type, theirs.domain, theirs.name)
        assert names(node.inputs) == list(theirs.input)
        assert names(node.outputs) == list(theirs.output)
        assert list(node.attributes) == [each.name for each in theirs.attribute]
        for each in theirs.attribute:
            assert_same_attribute(each, node.attribute(each.name))


def names(values: list[Value | None]):
    return ["" if value is None else value.name for value in values]


def assert_same_attribute(proto, value):
    theirs = helper.get_attribute_value(proto)
    if isinstance(value, Graph):
        assert_same_graph(theirs, value)
    elif isinstance(value, Tensor):
        assert_same_tensor(theirs, value)
    elif isinstance(value, (str, bytes)):
        assert theirs == (value.encode() if isinstance(value, str) else value)
    elif isinstance(value, list) and value and isinstance(value[0], str):
        assert theirs == [each.encode() for each in value]
    elif isinstance(value, (int, float, list)):
        assert theirs == value
    else:
        assert_same_type(theirs, Value("", value))


def assert_same_tensor(proto: TensorProto, tensor: Tensor):
    theirs = numpy_helper.to_array(proto)
    assert (tensor.dtype.number, tensor.shape) == (proto.data_type, theirs.shape)
    if tensor.dtype is dtypes.string:
        assert tensor.array().reshape(-1).tolist() == [each.decode() for each in proto.string_data]
    else:
        assert tensor.array().tobytes() == theirs.tobytes()


def assert_same_type(proto, value: Value):
    kind = value.type
    if isinstance(kind, TensorType):
        dims = proto.tensor_type.shape.dim if proto.tensor_type.HasField("shape") else None
        assert kind.dtype.number == proto.tensor_type.elem_type
        sizes = (
            dims
            if dims is None
            else tuple(each.dim_param or (each.dim_value if each.HasField("dim_value") else None) for each in dims)
        )
        assert kind.shape == sizes
    elif isinstance(kind, SequenceType):
        assert_same_type(proto.sequence_type.elem_type, Value("", kind.element))
    elif isinstance(kind, OptionalType):
        assert_same_type(proto.optional_type.elem_type, Value("", kind.element))
    else:
        assert proto.WhichOneof("value") is None


@pytest.mark.parametrize(
    "name", ["test_loop11", "test_scan_sum", "test_if_seq", "test_sequence_map_identity_1_sequence"]
)
def test_subgraphs_use_the_values_around_them(onnx_models, name):
    model: Model = read(onnx_models[name])
    (holder,) = [node for node in model.graph.nodes if any(node.subgraphs())]
    for inner in holder.subgraphs():
        for value in inner.captures():
            assert value in (*model.graph.inputs, *(each for node in model.graph.nodes for each in node.outputs))
