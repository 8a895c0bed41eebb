"""Models of one node, and what onnxruntime and the providers make of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from sardonyx import InferenceSession

Feeds = Mapping[str, np.ndarray]
DOMAINS = {"": 21, "com.microsoft": 1}


def single(
    op_type: str,
    *arrays: np.ndarray | None,
    domain: str = "",
    outputs: int = 1,
    constants: Collection[int] = (),
    **attributes: Any,
) -> tuple[onnx.ModelProto, Feeds]:
    """A model of one node and its feeds: an array is an input of unknown sizes, or a constant at these places."""
    names = ["" if array is None else f"x{number}" for number, array in enumerate(arrays)]
    known = {name: np.asarray(array) for name, array in zip(names, arrays, strict=True) if array is not None}
    held = {f"x{number}" for number in constants}
    feeds = {name: array for name, array in known.items() if name not in held}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
        for name, array in feeds.items()
    ]
    results = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    tensors = [numpy_helper.from_array(known[name], name) for name in sorted(held)]
    graph = helper.make_graph([node], op_type, inputs, [onnx.ValueInfoProto(name=name) for name in results], tensors)
    imports = [helper.make_opsetid(name, version) for name, version in DOMAINS.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def judged(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """The outputs that onnxruntime gives, graph optimizations off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def outputs_on(provider: str, model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """The outputs that a provider gives."""
    return list(InferenceSession(model.SerializeToString(), providers=[provider]).run(None, dict(feeds)))
