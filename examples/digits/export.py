"""Writes a trained `torch.nn.Sequential` as an ONNX model, layer by layer, one ONNX node for each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

OPSET, IR_VERSION = 17, 8

Attributes = dict[str, int | float | list[int]]


def _convolution(layer: nn.Conv2d) -> Attributes:
    return {"kernel_shape": list(layer.kernel_size), "pads": [*layer.padding, *layer.padding], "group": layer.groups}


# Layer -> its operator in ONNX, its tensors in the operator's order, and its attributes.
OPERATORS: dict[type[nn.Module], tuple[str, list[str], Callable[[nn.Module], Attributes]]] = {
    nn.Conv2d: ("Conv", ["weight"], _convolution),
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
    nn.Flatten: ("Flatten", [], lambda layer: {"axis": 1}),
    nn.Linear: ("Gemm", ["weight", "bias"], lambda layer: {"transB": 1}),
    nn.Softmax: ("Softmax", [], lambda layer: {"axis": -1}),
}


def export(model: nn.Sequential, **metadata: str) -> bytes:
    """The ONNX file of a classifier of 28x28 images."""
    nodes, weights, value = [], [], "image"
    for index, layer in enumerate([*model, nn.Softmax(dim=1)]):
        operator, tensors, attributes = OPERATORS[type(layer)]
        names = [f"{index}.{tensor}" for tensor in tensors]
        weights += [numpy_helper.from_array(getattr(layer, t).detach().numpy(), n) for t, n in zip(tensors, names)]
        result = f"{operator.lower()}_{index}"
        nodes.append(helper.make_node(operator, [value, *names], [result], name=result, **attributes(layer)))
        value = result
    nodes[-1].output[0] = "probabilities"
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 28, 28])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])
    graph = helper.make_graph(nodes, "digits", [image], [probabilities], weights)
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="sardonyx"
    )
    helper.set_model_props(proto, metadata)
    onnx.checker.check_model(proto, full_check=True)
    return proto.SerializeToString()
