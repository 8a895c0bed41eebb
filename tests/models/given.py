"""Models in which a rounding that falls otherwise changes all that follows, compared from rounding to rounding.

Every operator of some types computes as ever, but whoever reads its results gets those of the reference instead. So
nothing is handed on, and each result tells of what lies between it and those before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from .catalogue import MODELS, path
from .feeds import inputs

Array = np.ndarray[Any, Any]


def results(id: str) -> tuple[dict[str, Array], dict[str, str]]:
    """What onnxruntime gives for the results of the model's `given` operators, and the operator of each."""
    model = onnx.load(path(id))
    kinds = {name: node.op_type for node in _nodes(model, id) for name in node.output if name}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in kinds)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(kinds, session.run(list(kinds), inputs(id)), strict=True)), kinds


def model(id: str, known: dict[str, Array]) -> tuple[bytes, dict[str, Array]]:
    """The model whose operators read these results where they are of its `given` ones, and its feeds.

    Its outputs are the model's own and, by their names, what those operators compute.
    """
    made = onnx.load(path(id))
    feeds = inputs(id)
    for node in made.graph.node:
        node.input[:] = [f"{name} given" if name in known else name for name in node.input]
    for name, array in known.items():
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        made.graph.input.append(helper.make_tensor_value_info(f"{name} given", dtype, array.shape))
        made.graph.output.append(helper.make_tensor_value_info(name, dtype, array.shape))
        feeds[f"{name} given"] = array
    return made.SerializeToString(), feeds


def _nodes(model: onnx.ModelProto, id: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type in MODELS[id].given]
