"""Float64 becomes float32, for bundles, in which there is no other device that has it.

Exporters compute positions and scales in float64, between integers and float32. Inputs and outputs keep their types:
where one of them is float64, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import replace
from sardonyx.model.ir import Graph, Tensor, TensorType, Value
from sardonyx.model.ir.build import attribute

TYPE_ATTRIBUTES = ("dtype", "output_datatype", "output_dtype", "to")


def use_singles(graph: Graph) -> bool:
    """Have float32 wherever a graph, and those inside it, have float64, in place; False where nothing was changed."""
    if any(value.dtype is dtypes.float64 for value in (*graph.inputs, *graph.outputs)):
        return False
    is_changed = False
    for value in _values(graph):
        if isinstance(value.type, TensorType) and value.type.dtype is dtypes.float64:
            value.type = replace(value.type, dtype=dtypes.float32)
            is_changed = True
        if value.constant is not None:
            value.constant = _single(value.constant)
    for node in graph.all_nodes():
        for name, held in [*node.attributes.items()]:
            if isinstance(held.value, Tensor):
                node.attributes[name] = replace(held, value=_single(held.value))
            elif name in TYPE_ATTRIBUTES and held.value == dtypes.float64.number:
                node.attributes[name] = attribute(name, dtypes.float32.number)
                is_changed = True
    return is_changed


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
