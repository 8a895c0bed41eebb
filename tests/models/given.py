"""Models in which a rounding that falls otherwise changes all that follows, compared from rounding to rounding.

Every operator of some types computes as ever, but whoever reads its results gets those of the reference instead. So
nothing is handed on, and each result tells of what lies between it and those before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .catalogue import path
from .oracle import session_of

Array = np.ndarray[Any, Any]


def results(id: str, operators: Sequence[str], feeds: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, str]]:
    """What onnxruntime gives for the results of these operators, and the operator of each."""
    model = onnx.load(path(id))
    kinds = {
        name: node.op_type for node in model.graph.node if node.op_type in operators for name in node.output if name
    }
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in kinds)
    return dict(zip(kinds, session_of(model.SerializeToString()).run(list(kinds), feeds), strict=True)), kinds


def model(id: str, known: Mapping[str, Array], feeds: Mapping[str, Array]) -> tuple[bytes, dict[str, Array]]:
    """The model whose operators read these results where they are known, and its feeds.

    Its outputs are the model's own and, by their names, what the operators of the known ones compute.
    """
    made = onnx.load(path(id))
    feeds = dict(feeds)
    for node in made.graph.node:
        node.input[:] = [f"{name} given" if name in known else name for name in node.input]
    for name, array in known.items():
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        made.graph.input.append(helper.make_tensor_value_info(f"{name} given", dtype, array.shape))
        made.graph.output.append(helper.make_tensor_value_info(name, dtype, array.shape))
        feeds[f"{name} given"] = array
    return made.SerializeToString(), feeds
