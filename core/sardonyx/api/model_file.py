"""What a page writes an .onnx file with: the file without initializers that the bundle has, and what these are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Model
from sardonyx.model.serde.writer import write
from sardonyx.passes.copy import copy_model

GRAPH = 7
"""The number of the field `graph` of ModelProto."""
BARE_INITIALIZERS = 4
"""The first IR version in which initializers need not be inputs."""
FEW = 1024
"""Bytes up to which initializers stay in the file."""
PLAIN = (dtypes.float16, dtypes.float32, dtypes.float64)
"""Element types that lie in bundles as in files."""


def model_file(
    model: Model, parameters: Mapping[str, str], find: Callable[[np.ndarray], str | None]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Two sections, what is around the graph and the graph itself, and the manifest's entry: their names, and of each
    initializer that is not there its constant, the number of its type, and its shape.

    `parameters` are the constants of some initializers, `find` that of an array, if it is in the bundle.
    """
    bare = copy_model(model)
    graph = bare.graph
    titles = dict(parameters)
    for value in graph.initializers:
        tensor = value.constant
        if tensor is None or value.name in titles or tensor.dtype not in PLAIN:
            continue
        array = tensor.array()
        if array.nbytes > FEW and (title := find(array)):
            titles[value.name] = title
    held = {value.name: value.constant for value in graph.initializers if value.name in titles}
    graph.inputs = [value for value in graph.inputs if value.name not in held]
    graph.initializers = [value for value in graph.initializers if value.name not in held]
    bare.ir_version = max(bare.ir_version, BARE_INITIALIZERS)
    data = write(bare)
    start, begin, end = _graph_of(data)
    listed = {
        name: [titles[name], tensor.dtype.number, list(tensor.shape)]
        for name, tensor in held.items()
        if tensor is not None
    }
    sections = {"onnx.model": data[:start] + data[end:], "onnx.graph": data[begin:end]}
    return sections, {"sections": list(sections), "initializers": listed}


def _graph_of(data: bytes) -> tuple[int, int, int]:
    """Where the field of the graph begins in a ModelProto, where what it holds does, and where that ends."""
    at = 0
    while True:
        start = at
        tag, at = _number(data, at)
        size, after = _number(data, at)
        at = after if tag & 7 == 0 else after + size
        if tag >> 3 == GRAPH:
            return start, after, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
