"""Where onnxruntime adds products of bytes in 16 bits: on x64 without VNNI, where sums of two may saturate."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tests.support.single import judged, single

WEIGHTS = {
    "ConvInteger": {1: 3},
    "MatMulInteger": {1: 3},
    "QLinearConv": {3: 5},
    "QLinearMatMul": {3: 5},
    "QGemm": {3: 5},
    "DynamicQuantizeLSTM": {1: 9, 2: 11},
}
"""Operators that multiply bytes: which inputs are weights, and which these' zero points."""


@cache
def saturates() -> bool:
    """Whether it does so on this processor."""
    a, b = np.full((4, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    model, feeds = single("MatMulInteger", a, b, constants=[1])
    return bool((judged(model, feeds)[0] != 64 * 255 * 127).any())


def exact(weights: np.ndarray) -> np.ndarray:
    """Weights whose products onnxruntime adds exactly: int8 has 7 bits where it would saturate."""
    return weights // 2 if weights.dtype == np.int8 and saturates() else weights


def multiplies(model: onnx.ModelProto) -> bool:
    """Whether a model has products of bytes that would saturate here."""
    return saturates() and any(node.op_type in WEIGHTS for node in model.graph.node)


def unsigned(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same products with weights of uint8, added in 32 bits: constants and their zero points are 128 more."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    tensors = {tensor.name: tensor for tensor in found.graph.initializer}
    for number, node in enumerate(found.graph.node):
        for weight, zero in WEIGHTS.get(node.op_type, {}).items():
            name = node.input[weight]
            if name not in tensors or tensors[name].data_type != TensorProto.INT8:
                continue
            node.input.extend([""] * (zero + 1 - len(node.input)))
            numbers = numpy_helper.to_array(tensors[name])
            zeros = numpy_helper.to_array(tensors[node.input[zero]]) if node.input[zero] else np.int8(0)
            for place, array in ((weight, numbers), (zero, zeros)):
                node.input[place] = f"unsigned_{number}_{place}"
                shifted = (np.asarray(array, np.int16) + 128).astype(np.uint8)
                found.graph.initializer.append(numpy_helper.from_array(shifted, node.input[place]))
    return found
