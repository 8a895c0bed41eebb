"""From a model whose parameters are inputs to one that has them."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, Tensor, TensorType
from sardonyx.training.draft import Draft
from sardonyx.training.reach import makers, read_by


def inference_model(model: Model, parameters: Sequence[Tensor], outputs: Sequence[str]) -> Model:
    """The part of a model that makes these tensors, with parameters as initializers; the given model is changed.

    InvalidArgument where there is no tensor of a name, or no name.
    """
    if isinstance(outputs, str) or not outputs:
        raise InvalidArgument(f"the outputs of a network are a list of names, and not {outputs!r}")
    draft = Draft(model)
    graph = model.graph
    graph.outputs = [draft.value(name) for name in outputs]
    graph.nodes = makers(graph.nodes, graph.outputs)
    wanted = {*graph.outputs, *(value for node in graph.nodes for value in read_by(node))}
    by_name = {tensor.name: tensor for tensor in parameters}
    for value in graph.inputs:
        if value.name in by_name and value in wanted:
            value.constant = by_name[value.name]
            value.type = TensorType(value.constant.dtype, value.constant.shape)
            graph.initializers.append(value)
    graph.inputs = [value for value in graph.inputs if value in wanted and value.constant is None]
    graph.initializers = [value for value in graph.initializers if value in wanted]
    draft.record_types()
    return model
