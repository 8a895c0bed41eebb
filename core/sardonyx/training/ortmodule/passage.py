"""The two models of a step: forward, and from the gradients of its outputs those of its inputs.

The backward model computes again what it needs of the forward one, but for what was drawn: the masks of Dropout are
outputs of the forward model and inputs of the backward one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Model, Node, TensorType, Value
from sardonyx.passes.copy import copy_model
from sardonyx.training.draft import Draft
from sardonyx.training.gradient_model import DOMAIN, GRADIENT, NEXT

GIVEN = "_given"
"""What the names of gradients that come from outside end with."""


def forward_model(model: Model) -> tuple[Model, list[str], dict[str, str]]:
    """A copy that gives masks and running statistics, too: the model, its outputs of masks, and by the name of a
    statistic the output that says what it becomes."""
    draft = Draft(copy_model(model))
    masks: list[str] = []
    latest: dict[str, Value] = {}
    for node in list(draft.graph.nodes):
        if _drops(node):
            node.outputs[1:] = [draft.named(_mask(node), node)]
            masks.append(_mask(node))
            draft.output(masks[-1])
        elif node.op_type == "BatchNormalization" and node.attribute("training_mode", 0):
            _statistics(draft, node, latest)
    nexts = {name: draft.add("Identity", [value.name], f"{name}{NEXT}") for name, value in latest.items()}
    for output in nexts.values():
        draft.output(output)
    return draft.model, masks, nexts


def backward_model(
    model: Model, outputs: Sequence[str], wanted: Sequence[str], padding: Mapping[str, int] | None = None
) -> Model:
    """The gradients of the `wanted` inputs by the gradients `NAME_given` of these outputs.

    `padding` has, by results of Gather, rows that are constants of them.
    """
    draft = Draft(copy_model(model))
    draft.record_types()
    for node in list(draft.graph.nodes):
        if _drops(node):
            _give_mask(draft, node)
    constants = [_keep_row(draft, name, row) for name, row in (padding or {}).items()]
    terms = []
    for name in outputs:
        given = draft.input(f"{name}{GIVEN}", draft.type_of(name))
        terms.append(draft.add("ReduceSum", [draft.add("Mul", [name, given])], attributes={"keepdims": 0}))
    total = terms[0] if len(terms) == 1 else draft.add("Sum", terms)
    draft.model.opset_imports.setdefault(DOMAIN, 1)
    gradients = [f"{name}{GRADIENT}" for name in wanted]
    attributes = {"xs": list(wanted), "y": total, "zs": constants or None}
    draft.add("Gradient", [*wanted, *constants], gradients, attributes, DOMAIN)
    draft.graph.outputs = []
    for name in gradients:
        draft.output(name)
    return draft.model


def _drops(node: Node) -> bool:
    return node.op_type == "Dropout" and len(node.inputs) > 2


def _mask(node: Node) -> str:
    """What the mask of a Dropout is called in both models."""
    return f"{node.outputs[0].name}_mask"


def _give_mask(draft: Draft, node: Node) -> None:
    """Make a Dropout the product with a mask that is an input."""
    x, ratio = node.inputs[:2]
    assert x is not None
    mask = draft.input(_mask(node), TensorType(dtypes.bool_, draft.type_of(x.name).shape))
    share = draft.constant(np.array(0.5, np.float32), "half") if ratio is None else ratio.name
    whole = draft.constant(np.array(1, np.float32), "whole")
    kept = draft.add("Sub", [draft.add("CastLike", [whole, x.name]), draft.add("CastLike", [share, x.name])])
    factor = draft.add("Div", [draft.add("CastLike", [mask, x.name]), kept])
    node.op_type, node.attributes, node.inputs = "Mul", {}, [x, draft.value(factor)]
    del node.outputs[1:]


def _keep_row(draft: Draft, name: str, row: int) -> str:
    """Have the result of a Gather take a row from elsewhere; the name of that row, which is [1, ...]."""
    node = draft.value(name).producer
    assert node is not None
    weight, indices = (value.name if value else "" for value in node.inputs)
    number = draft.constant(np.array([row], np.int64), "row")
    kept = draft.add("Gather", [weight, number], f"{name}_kept")
    others = draft.add("Gather", [weight, indices], f"{name}_others")
    is_row = draft.add("Equal", [indices, draft.add("CastLike", [number, indices])])
    last = draft.constant(np.array([-1], np.int64), "last")
    node.op_type, node.attributes = "Where", {}
    node.inputs = [draft.value(each) for each in (draft.add("Unsqueeze", [is_row, last]), kept, others)]
    return kept


def _statistics(draft: Draft, node: Node, latest: dict[str, Value]) -> None:
    """Give what a normalization's running statistics become; PyTorch's variance is the unbiased one, ONNX's is not."""
    x, mean, variance = node.inputs[0], node.inputs[3], node.inputs[4]
    assert x is not None
    assert mean is not None
    assert variance is not None
    node.inputs[3:5] = [latest.get(mean.name, mean), latest.get(variance.name, variance)]
    node.outputs[1:] = [draft.named(draft.fresh(f"{node.outputs[0].name}_{each}"), node) for each in ("mean", "var")]
    momentum = draft.constant(np.array(node.attribute("momentum", 0.9), np.float32), "momentum")
    one = draft.constant(np.array(1, np.float32), "one")
    sizes = [
        draft.add("Cast", [draft.add("Size", [value.name])], attributes={"to": dtypes.float32.number})
        for value in (x, mean)
    ]
    count = draft.add("Div", sizes)
    unbiased = draft.add("Div", [count, draft.add("Sub", [count, one])])
    old = draft.add("Mul", [node.inputs[4].name if node.inputs[4] else "", momentum])
    grown = draft.add("Mul", [draft.add("Sub", [node.outputs[2].name, old]), unbiased])
    latest[mean.name] = node.outputs[1]
    latest[variance.name] = draft.value(draft.add("Add", [old, grown]))
