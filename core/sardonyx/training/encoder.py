"""A model as far as its embeddings: one vector of each thing that it takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, Node, TensorType, Value
from sardonyx.model.ir.types import DimLike
from sardonyx.model.serde.inline import inline_functions
from sardonyx.passes.copy import copy_model
from sardonyx.passes.upgrade import NEWEST, lift
from sardonyx.passes.vision.classification import MOVES, SHARES
from sardonyx.passes.vision.labels import labels_of
from sardonyx.training.draft import Draft
from sardonyx.training.inference import inference_model
from sardonyx.training.parameters import head_of, is_constant, weights_of
from sardonyx.training.reach import makers

EMBEDDINGS = (
    "sentence_embedding",
    "image_embeds",
    "text_embeds",
    "pooler_output",
    "embeddings",
    "embedding",
    "features",
    "last_hidden_state",
)
"""What exporters call outputs that are embeddings, the first being the surest."""
CLASSES = ("logits", "probabilities", "scores")
"""What they call those of classifiers, whose embeddings lie before the head."""
MASK = "attention_mask"
AXES_AS_INPUT = 18
"""The first operator set in which ReduceMean takes its axes as an input."""


def encoder(model: Model, output: str = "") -> Model:
    """The part of a model that makes embeddings [N, D], its only output.

    `output` names any tensor of the graph; without it an output that has an embedding's name is taken, and else the
    first one of floats, or of a classifier what goes into its head, the last layer with weights. Maps [N, D, H, W] are
    averaged over their places, tokens [N, T, D] over those that the input `attention_mask` has. InvalidArgument where
    nothing fits.
    """
    draft = Draft(inline_functions(copy_model(model), lift=lift, newest=NEWEST))
    name = output or _chosen(draft)
    kind = draft.inferred(name)
    if kind.dtype is None or not kind.dtype.is_float or kind.shape is None:
        raise InvalidArgument(f"{name!r} is {kind}, and embeddings are floats; name another tensor as output")
    name, size = _pooled(draft, name, kind.shape)
    if kind.dtype is not dtypes.float32:
        name = draft.add("Cast", [name], attributes={"to": dtypes.float32.number})
    result = inference_model(draft.model, (), [name])
    result.graph.outputs[0].type = TensorType(dtypes.float32, ("N", size if isinstance(size, int) else None))
    return result


def _chosen(draft: Draft) -> str:
    names = draft.output_names()
    if not names:
        raise InvalidArgument("the model has no output")
    known = [name for name in EMBEDDINGS if name in names]
    if known:
        return known[0]
    floats = [value for value in draft.graph.outputs if value.dtype is None or value.dtype.is_float]
    return _before_classes(draft, floats[0] if floats else draft.graph.outputs[0]).name


def _before_classes(draft: Draft, value: Value) -> Value:
    """What goes into the head that makes a classifier's scores; what is no classifier's output stays."""
    head = head_of(makers(draft.graph.nodes, [value]))
    behind = {node.op_type for node in head[1:]}
    is_classifier = labels_of(draft.model.metadata) or value.name.lower() in CLASSES or not behind.isdisjoint(SHARES)
    fed = [_fed(node) for node in head]
    is_straight = behind.issubset({*MOVES, *SHARES, "Add"}) and all(len(each) == 1 for each in fed)
    return fed[0][0] if head and is_classifier and is_straight else value


def _fed(node: Node) -> list[Value]:
    """The inputs of a node that are no constants and no weights."""
    weights = weights_of(node)
    return [
        value
        for place, value in enumerate(node.inputs)
        if value is not None and place not in weights and not is_constant(value)
    ]


def _pooled(draft: Draft, name: str, shape: Sequence[DimLike]) -> tuple[str, DimLike]:
    """A tensor as one vector for each thing, and the length of that."""
    if len(shape) == 2:
        return name, shape[1]
    if len(shape) == 4:
        return draft.add("Flatten", [draft.add("GlobalAveragePool", [name])], "embedding"), shape[1]
    if len(shape) != 3:
        raise InvalidArgument(
            f"{name!r} has {len(shape)} axes; embeddings are [N, D], [N, T, D] or [N, D, H, W]: name another tensor"
        )
    if MASK in [value.name for value in draft.graph.inputs]:
        return _masked(draft, name), shape[2]
    if draft.opset() >= AXES_AS_INPUT:
        names = [name, draft.constant(np.array([1], np.int64), "axes")]
        return draft.add("ReduceMean", names, "embedding", {"keepdims": 0}), shape[2]
    return draft.add("ReduceMean", [name], "embedding", {"axes": [1], "keepdims": 0}), shape[2]


def _masked(draft: Draft, name: str) -> str:
    """The mean of the tokens [N, T, D] that are there; the mask's product with itself counts them."""
    mask = draft.add("Cast", [MASK], "mask", {"to": dtypes.float32.number})
    row = draft.add("Reshape", [mask, draft.constant(np.array([0, 1, -1], np.int64), "row")])
    column = draft.add("Reshape", [mask, draft.constant(np.array([0, -1, 1], np.int64), "column")])
    total, count = draft.add("MatMul", [row, name], "total"), draft.add("MatMul", [row, column], "count")
    return draft.add("Flatten", [draft.add("Div", [total, count])], "embedding")
