"""Small networks that learn, as ONNX models, and what they learn from."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def mlp(seed: int = 0) -> onnx.ModelProto:
    """float32[N,4] x -> float32[N,3] y by two Gemms with a Relu between them; parameters w1, b1, w2, b2."""
    random = np.random.default_rng(seed)
    shapes = {"w1": (5, 4), "b1": (5,), "w2": (3, 5), "b2": (3,)}
    arrays = {name: (random.standard_normal(shape) * 0.3).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "w2", "b2"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
