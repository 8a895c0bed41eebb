"""Float64 becomes float32, for bundles of devices that have no other floats.

Exporters compute positions and scales in float64 between integers and float32, where the device cannot follow, and a
bundle has no other one. Inputs and outputs keep their types: where one of them is float64, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import replace
from sardonyx.model.ir import Graph, Tensor, TensorType, Value
from sardonyx.model.ir.build import attribute

NUMBERS = {11: 1}
"""ONNX's number of float64, and that of float32."""
TYPE_ATTRIBUTES = ("dtype", "output_datatype", "output_dtype", "to")


def has_doubles(graph: Graph) -> bool:
    """Whether a graph gives and takes no float64, and computes with it."""
    ports = (*graph.inputs, *graph.outputs)
    if any(value.dtype is dtypes.float64 for value in ports):
        return False
    held = (each for node in graph.all_nodes() for each in node.attributes.values())
    is_told = any(each.name in TYPE_ATTRIBUTES and each.value in NUMBERS for each in held)
    return is_told or any(tensor.dtype is dtypes.float64 for tensor in _constants(graph))


def use_singles(graph: Graph) -> None:
    """Have float32 wherever a graph, and those inside it, have float64, in place."""
    for value in _values(graph):
        if isinstance(value.type, TensorType) and value.type.dtype is dtypes.float64:
            value.type = replace(value.type, dtype=dtypes.float32)
        if value.constant is not None:
            value.constant = _single(value.constant)
    for node in graph.all_nodes():
        for name, held in [*node.attributes.items()]:
            if isinstance(held.value, Tensor):
                node.attributes[name] = replace(held, value=_single(held.value))
            elif name in TYPE_ATTRIBUTES and held.value in NUMBERS:
                node.attributes[name] = attribute(name, NUMBERS[held.value])


def _single(tensor: Tensor) -> Tensor:
    if tensor.dtype is not dtypes.float64:
        return tensor
    with np.errstate(over="ignore"):
        return Tensor.of(tensor.array().astype(np.float32), dtypes.float32, tensor.name)


def _graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.all_nodes():
        yield from node.subgraphs()


def _values(graph: Graph) -> Iterator[Value]:
    for each in _graphs(graph):
        yield from (*each.inputs, *each.initializers, *each.outputs)
        for node in each.nodes:
            yield from (value for value in (*node.inputs, *node.outputs) if value is not None)


def _constants(graph: Graph) -> Iterator[Tensor]:
    for value in _values(graph):
        if value.constant is not None:
            yield value.constant
    for node in graph.all_nodes():
        yield from (held.value for held in node.attributes.values() if isinstance(held.value, Tensor))
