"""Copies of models that share nothing but their tensors."""

from __future__ import annotations

from functools import partial

import numpy as np

from sardonyx.common.record import replace
from sardonyx.model.ir import Attribute, Graph, Model, Node, SparseTensor, Tensor, TensorType, Value
from sardonyx.primitives.binding import of_sparse


def copy_model(model: Model) -> Model:
    """A copy whose graph can be rewritten; the tensors are those of the model itself."""
    return replace(model, graph=copy_graph(model.graph, {}), opset_imports=dict(model.opset_imports))


def copy_graph(graph: Graph, values: dict[Value, Value]) -> Graph:
    """A copy of a graph and of its subgraphs. `values` maps outer Values to copies; inner ones are added."""

    def own(value: Value) -> Value:
        if value not in values:
            values[value] = Value(value.name)
            vars(values[value]).update(vars(value), producer=None)  # `replace` takes five times as long
        return values[value]

    copy = replace(graph, nodes=[])
    copy.inputs = list(map(own, graph.inputs))
    copy.initializers = list(map(own, graph.initializers))
    copy.sparse_initializers = [(own(value), data) for value, data in graph.sparse_initializers]
    for node in graph.nodes:
        inputs = [None if value is None else values.get(value, value) for value in node.inputs]
        attributes = {name: _copy_attribute(each, values) for name, each in node.attributes.items()}
        copy.nodes.append(replace(node, inputs=inputs, outputs=list(map(own, node.outputs)), attributes=attributes))
    copy.outputs = [values.get(value, value) for value in graph.outputs]
    return copy


def _copy_attribute(attribute: Attribute, values: dict[Value, Value]) -> Attribute:
    if attribute.kind == "graph":
        return replace(attribute, value=copy_graph(attribute.value, values))
    if attribute.kind == "graphs":
        return replace(attribute, value=[copy_graph(graph, values) for graph in attribute.value])
    return attribute


def densify(graph: Graph) -> None:
    """Replace sparse initializers by Constant nodes, in place, and those that are inputs too by dense initializers.

    Expansions know no sparse constants.
    """
    for node in graph.all_nodes():
        held = node.attributes.get("value") if node.op_type == "Constant" else None
        if held is not None and held.kind == "sparse_tensor":  # as onnxruntime has it before operator set 11
            node.attributes["sparse_value"] = replace(node.attributes.pop("value"), name="sparse_value")
    for each in [graph, *(inner for node in graph.all_nodes() for inner in node.subgraphs())]:
        fed = set(each.inputs)
        for value, data in each.sparse_initializers:
            if value in fed:
                dtype = data.values.dtype
                value.type = TensorType(dtype, data.shape)
                value.constant = Tensor(dtype, data.shape, partial(_filled, data), value.name)
                each.initializers.append(value)
                continue
            attribute = Attribute("sparse_value", "sparse_tensor", data)
            each.nodes.insert(0, Node("Constant", [], [value], {"sparse_value": attribute}))
        each.sparse_initializers = []


def _filled(data: SparseTensor) -> np.ndarray:
    """A sparse constant with its zeros."""
    array = of_sparse(data).value
    assert array is not None
    return array
