"""What the tests of weights of few bits share: models, what a file says, and both runtimes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import sardonyx


def filled(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Normal numbers, with zeros, ones of one sign, and a constant block among them."""
    array = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    if array.ndim == 2 and array.shape[1] > 3:
        array[:, 0] = 0
        array[:, 1] = -np.abs(array[:, 1])
        array[:, 2] = np.abs(array[:, 2]) + 1
        array[:16, 3] = 2.5
    return array


def model_of(
    nodes: list[Any],
    inputs: Mapping[str, tuple[Any, list[Any] | None]],
    weights: Mapping[str, np.ndarray],
    outputs: Mapping[str, tuple[Any, list[Any] | None]],
    opset: int = 21,
) -> Any:
    """A ModelProto of nodes of `helper.make_node`; inputs and outputs have an element type and a shape."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(name, *kind) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def copied(model: Any) -> Any:
    """A copy, for tools that change what they are given."""
    return onnx.ModelProto.FromString(model.SerializeToString())


def told(model: Any) -> dict[str, Any]:
    """All that a file says of its graph, but for what types are inferred: to be compared."""
    return {
        "imports": {item.domain: item.version for item in model.opset_import},
        "ir_version": model.ir_version,
        **_graph(model.graph),
    }


def _graph(graph: Any) -> dict[str, Any]:
    return {
        "inputs": [value.name for value in graph.input],
        "outputs": [value.name for value in graph.output],
        "nodes": [
            (node.op_type, node.name, node.domain, list(node.input), list(node.output), _attributes(node))
            for node in graph.node
        ],
        "initializers": [
            (tensor.name, tensor.data_type, list(tensor.dims), numpy_helper.to_array(tensor).tobytes())
            for tensor in graph.initializer
        ],
    }


def _attributes(node: Any) -> dict[str, Any]:
    found = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, onnx.GraphProto):
            value = _graph(value)
        elif isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value).tolist()
        found[attribute.name] = value
    return found


def by_onnxruntime(model: Any, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def by_sardonyx(model: Any, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs on NumPy."""
    session = sardonyx.InferenceSession(model.SerializeToString(), providers=["NumpyExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def agree(model: Any, feeds: Mapping[str, np.ndarray], tolerance: float) -> list[np.ndarray]:
    """onnxruntime's outputs, after comparing them with ours relative to their largest element."""
    expected = by_onnxruntime(model, feeds)
    for ours, theirs in zip(by_sardonyx(model, feeds), expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        scale = max(float(np.abs(theirs).max(initial=0)), 1e-6)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
    return expected
