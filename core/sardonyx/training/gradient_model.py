"""The two models of training: one that gives a loss and gradients, one that gives the loss alone.

Parameters are inputs of both, behind those of the network. The gradient of `NAME` is output `NAME_grad`. What input
`NAME` is in the next run is output `NAME_next`: running statistics here, and in the model of an optimizer parameters
and their moments `NAME_momentum0` and `NAME_momentum1`, which become `NAME_momentum0_next` and `NAME_momentum1_next`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Model, Node, Tensor, Value
from sardonyx.model.ir.build import attribute
from sardonyx.passes.copy import copy_model
from sardonyx.training.draft import Draft

DOMAIN = "ai.onnx.preview.training"
GRADIENT, NEXT = "_grad", "_next"
"""What the names of gradients, and of what an input is in the next run, end with."""

FEW = 12
"""How many names an error lists."""


@record
class TrainingModels:
    """The two models, and the parameters: those that are trained, and those that are not."""

    training: Model
    evaluation: Model
    trainable: list[Tensor]
    frozen: list[Tensor]


def differentiate(
    draft: Draft,
    outputs: Sequence[str],
    trained: Collection[str],
    frozen: Collection[str],
    constant: Sequence[str] = (),
) -> TrainingModels:
    """The models of a network with its loss, the first of `outputs`; the draft becomes the one that trains.

    Gradients take the tensors `constant` for such, though they depend on parameters.

    Running statistics of BatchNormalization in training mode are frozen parameters, whether named or not.
    InvalidArgument where a name is no initializer, or none is to be trained.
    """
    by_name = {value.name: value for value in draft.graph.initializers}
    for option, names in (("requires_grad", trained), ("frozen_params", frozen)):
        if strangers := sorted(set(names) - by_name.keys()):
            raise InvalidArgument(
                f"{option} names {strangers[0]!r}, which is no initializer; there are {_listed(by_name)}"
            )
    if not trained:
        raise InvalidArgument(f"requires_grad names no parameter to train; the initializers are {_listed(by_name)}")
    for name in sorted(trained):
        dtype = by_name[name].dtype
        if dtype is None or not dtype.is_float:
            raise InvalidArgument(f"requires_grad names {name!r}, whose elements are {dtype}, not floats")
    statistics = [value for node in _normalizations(draft.graph) for value in node.inputs[3:5] if value is not None]
    kept = {*trained, *frozen, *(value.name for value in statistics if value.constant is not None)}
    data = [value for value in draft.graph.inputs if value.name not in by_name]
    parameters = [value for value in draft.graph.initializers if value.name in kept]
    tensors = {value.name: value.constant for value in parameters if value.constant is not None}
    for value in parameters:
        value.constant = None
    draft.graph.initializers = [value for value in draft.graph.initializers if value.name not in kept]
    draft.graph.inputs = [*data, *parameters]
    draft.graph.outputs = [draft.value(name) for name in outputs]
    draft.record_types()
    evaluation = _evaluated(draft.model)
    _remember_statistics(draft)
    _add_gradient(draft, outputs[0], data, parameters, trained, constant)
    groups = ([tensors[v.name] for v in parameters if (v.name in trained) is wanted] for wanted in (True, False))
    return TrainingModels(draft.model, evaluation, *groups)


def _listed(names: Collection[str]) -> str:
    """The first few of some names."""
    few = sorted(names)[:FEW]
    return ", ".join(few) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")


def _add_gradient(
    draft: Draft,
    loss: str,
    data: Sequence[Value],
    parameters: Sequence[Value],
    trained: Collection[str],
    constant: Sequence[str],
) -> None:
    learnt = [value for value in parameters if value.name in trained]
    frozen = (value for value in parameters if value.name not in trained)
    given = [*data, *frozen, *map(draft.value, constant)]
    draft.model.opset_imports.setdefault(DOMAIN, 1)
    names = [f"{value.name}{GRADIENT}" for value in learnt]
    if taken := [name for name in names if name in draft.values]:
        raise InvalidArgument(f"the model has a tensor {taken[0]!r}, as the gradient would be called: rename it")
    attributes = {
        "xs": [value.name for value in learnt],
        "y": loss,
        "zs": [value.name for value in given] or None,
    }
    draft.add("Gradient", [value.name for value in (*learnt, *given)], names, attributes, DOMAIN)
    for name, value in zip(names, learnt, strict=True):
        draft.value(name).type = value.type
        draft.output(name)


def _normalizations(graph: Graph) -> list[Node]:
    """The BatchNormalizations in training mode."""
    nodes = (node for node in graph.nodes if node.op_type == "BatchNormalization" and node.domain in ("", "ai.onnx"))
    return [node for node in nodes if node.attribute("training_mode", 0)]


def _remember_statistics(draft: Draft) -> None:
    """Make outputs of what running statistics become; a layer that is used twice goes on from its own ones."""
    inputs = set(draft.graph.inputs)
    latest: dict[Value, Value] = {}
    for node in _normalizations(draft.graph):
        while len(node.outputs) < 3:
            node.outputs.append(Value("", producer=node))
        for index in (1, 2):
            held = node.inputs[index + 2]
            if held in inputs and held is not None:
                node.inputs[index + 2] = latest.get(held, held)
                latest[held] = node.outputs[index]
    for held, last in latest.items():
        draft.values.pop(last.name, None)
        last.name, last.type = draft.fresh(f"{held.name}{NEXT}"), held.type
        draft.values[last.name] = last
        draft.graph.outputs.append(last)


def _evaluated(model: Model) -> Model:
    """A copy in which Dropout and BatchNormalization do what they do after training."""
    result = copy_model(model)
    used = {value for node in result.graph.all_nodes() for value in node.inputs} | set(result.graph.outputs)
    for node in result.graph.all_nodes():
        if node.op_type == "Dropout" and len(node.inputs) > 2:
            del node.inputs[2:]
        elif node.op_type == "BatchNormalization" and node.attribute("training_mode", 0):
            node.attributes["training_mode"] = attribute("training_mode", 0)
            if not used & set(node.outputs[1:]):
                del node.outputs[1:]
    return result
