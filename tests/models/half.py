"""Models in float16 as onnxruntime computes them in float32: as they are, and with every result rounded to float16."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from .catalogue import path
from .oracle import session_of

Array = npt.NDArray[Any]

COMPUTING = {"Add", "Attention", "MatMul", "Mul", "RMSNormalization", "RotaryEmbedding", "Sigmoid"}
"""Operators whose results are rounded; others of the models pass on what they take."""


def wide(feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Feeds of a widened model."""
    return {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in feeds.items()}


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make a model in float16, which casts to no float16, one in float32 with the same weights."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def rounded(id: str, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model in float16 where each operator computes in float32, and rounds its result."""
    found = _rounding(id).run(None, wide(feeds))
    return [array.astype(np.float16) if array.dtype == np.float32 else array for array in found]


@cache
def _rounding(id: str) -> onnxruntime.InferenceSession:
    model = widened(onnx.load(path(id)))
    outputs = {value.name for value in model.graph.output}
    nodes = [each for node in model.graph.node for each in _with_rounding(node, outputs)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return session_of(model.SerializeToString())


def _with_rounding(node: onnx.NodeProto, outputs: set[str]) -> Iterator[onnx.NodeProto]:
    names = [name for name in node.output if name and name not in outputs] if node.op_type in COMPUTING else []
    node.output[:] = [f"{name} wide" if name in names else name for name in node.output]
    yield node
    for name in names:
        yield helper.make_node("Cast", [f"{name} wide"], [f"{name} half"], to=TensorProto.FLOAT16)
        yield helper.make_node("Cast", [f"{name} half"], [name], to=TensorProto.FLOAT)
