"""Writes a trained `torch.nn.Sequential` as an ONNX model: one node for each layer, nothing fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import nn

OPSET, IR_VERSION = 17, 8

# Layer -> its operator in ONNX, its tensors in the operator's order, its attributes.
OPERATORS: dict[type[nn.Module], tuple[str, list[str], Callable[[Any], dict[str, Any]]]] = {
    nn.Conv2d: (
        "Conv",
        ["weight"],
        lambda layer: {"kernel_shape": layer.kernel_size, "pads": layer.padding * 2, "group": layer.groups},
    ),
    nn.BatchNorm2d: (
        "BatchNormalization",
        ["weight", "bias", "running_mean", "running_var"],
        lambda layer: {"epsilon": layer.eps},
    ),
    nn.ReLU: ("Relu", [], lambda layer: {}),
    nn.MaxPool2d: (
        "MaxPool",
        [],
        lambda layer: {"kernel_shape": [layer.kernel_size] * 2, "strides": [layer.stride] * 2},
    ),
    nn.AdaptiveAvgPool2d: ("GlobalAveragePool", [], lambda layer: {}),
    nn.Flatten: ("Flatten", [], lambda layer: {"axis": layer.start_dim}),
    nn.Linear: ("Gemm", ["weight", "bias"], lambda layer: {"transB": 1}),
    nn.Softmax: ("Softmax", [], lambda layer: {"axis": layer.dim}),
}


def export(model: nn.Sequential, metadata: dict[str, str]) -> bytes:
    """The ONNX file of a digit classifier: `image` [N, 1, 28, 28] to `probabilities` [N, 10], both float32."""
    nodes, weights, value = [], [], "image"
    for index, layer in enumerate(model):
        operator, tensors, attributes = OPERATORS[type(layer)]
        name = f"{operator.lower()}_{index}"
        values = {f"{name}.{tensor}": getattr(layer, tensor).detach().numpy() for tensor in tensors}
        weights += [numpy_helper.from_array(array, key) for key, array in values.items()]
        result = "probabilities" if index == len(model) - 1 else f"{name}.output"
        nodes.append(helper.make_node(operator, [value, *values], [result], name=name, **attributes(layer)))
        value = result
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 28, 28])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])
    proto = helper.make_model(
        helper.make_graph(nodes, "digits", [image], [probabilities], weights),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="sardonyx",
    )
    helper.set_model_props(proto, metadata)
    onnx.checker.check_model(proto, full_check=True)
    return proto.SerializeToString()
