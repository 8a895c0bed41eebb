"""What the engine does not look at, and keeps all the same."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx.model.ir import OpaqueType, TensorType
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write

UNKNOWN = b"\xca\x3e\x02hi"  # field 1001, two bytes


def model() -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]
    node = helper.make_node("Add", ["x", "w"], ["y"], name="n")
    graph = helper.make_graph([node], "g", inputs, outputs, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def kept(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model after it was read and written."""
    return onnx.load_from_string(write(read(proto.SerializeToString())))


def test_training_information_and_devices():
    proto = model()
    proto.training_info.add().algorithm.name = "step"
    configuration = proto.configuration.add(name="two", num_devices=2)
    configuration.device.extend(["a", "b"])
    placed = proto.graph.node[0].device_configurations.add(configuration_id="two", pipeline_stage=1)
    placed.sharding_spec.add(tensor_name="w").device.append(0)
    found = kept(proto)
    assert found.training_info == proto.training_info
    assert found.configuration == proto.configuration
    assert found.graph.node[0].device_configurations == proto.graph.node[0].device_configurations
    onnx.checker.check_model(found)


def test_denotations():
    proto = model()
    kind = proto.graph.input[0].type
    kind.denotation = "IMAGE"
    kind.tensor_type.shape.dim[1].denotation = "DATA_CHANNEL"
    assert kept(proto).graph.input[0] == proto.graph.input[0]
    found = read(proto.SerializeToString()).graph.inputs[0].type
    assert (found.denotation, found.dim_denotations) == ("IMAGE", ("", "DATA_CHANNEL"))
    assert found == TensorType(found.dtype, found.shape)


def test_opaque_types():
    proto = model()
    value = proto.graph.input.add(name="o")
    value.type.opaque_type.domain, value.type.opaque_type.name = "d", "t"
    assert kept(proto).graph.input[1] == value
    assert read(proto.SerializeToString()).graph.inputs[1].type == OpaqueType("d", "t")


@pytest.mark.parametrize("message", ["model", "graph", "node", "attribute", "tensor", "value", "function"])
def test_fields_of_later_versions(message):
    proto = model()
    proto.graph.node[0].attribute.append(helper.make_attribute("a", 1))
    proto.functions.append(helper.make_function("d", "f", [], [], [], []))
    node, graph = proto.graph.node[0], proto.graph
    target = {"model": proto, "graph": graph, "node": node, "attribute": node.attribute[0]}
    target |= {"tensor": graph.initializer[0], "value": graph.input[0], "function": proto.functions[0]}
    target[message].MergeFromString(UNKNOWN)
    data = write(read(proto.SerializeToString()))
    assert data.count(UNKNOWN) == 1
    assert onnx.load_from_string(data) == proto  # in the right place


def test_the_oldest_models_list_initializers_among_the_inputs():
    proto = model()
    proto.ir_version = 3
    with pytest.raises(onnx.checker.ValidationError, match="w in initializer but not in graph input"):
        onnx.checker.check_model(proto)
    found = kept(proto)
    onnx.checker.check_model(found)
    assert [value.name for value in found.graph.input] == ["x", "w"]
    assert kept(found) == found


@pytest.mark.parametrize("version", range(1, onnx.IR_VERSION + 2))
def test_every_version_is_read(version):
    proto = model()
    proto.ir_version = version
    assert kept(proto).ir_version == version
