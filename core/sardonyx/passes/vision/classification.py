"""A classifier that takes a picture as it comes, and gives the surest classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType, Value
from sardonyx.passes.nodes import Nodes, integers
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.labels import labels_of
from sardonyx.passes.vision.memory import recalled
from sardonyx.passes.vision.sight import Sight, unknown

OUTPUTS = ("scores", "labels")
ULTRALYTICS = Picture("", fit="cover")
SHARES = ("Softmax", "Sigmoid", "HardSigmoid")
"""What makes shares of scores."""
MOVES = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Cast", "Transpose")


@record(frozen=True)
class Classification:
    """Of which classes the `most` surest are given. `softmax` says whether the model's output still has to become
    shares; None, whether its last node makes them. `labels` name classes where the metadata does not."""

    most: int = 5
    softmax: bool | None = None
    labels: Sequence[str] = ()


def with_classification(model: Model, told: Classification, picture: Picture | None = None, channels: int = 0) -> Model:
    """A copy of a model, in the newest operator set, that takes a picture and gives `scores` float32 [k] and `labels`
    int64 [k], the surest first.

    Raises InvalidArgument where the output is not [1, C], or nothing tells how pictures are normalized.
    """
    picture = picture or picture_of(model.metadata)
    sight = Sight(model, picture, channels)
    (output, *_) = sight.outputs
    shape = [size for size in (output.shape or ())[1:] if size != 1]
    if len(shape) != 1 or not isinstance(shape[0], int):
        raise InvalidArgument(f"the output {output.name} {output.type} is not shaped like classes, [1, C]")
    labels = list(told.labels) or labels_of(model.metadata)
    if labels and len(labels) != shape[0]:
        raise InvalidArgument(f"the output {output.name} {output.type} has {shape[0]} classes, not {len(labels)}")
    if told.most < 1:
        raise InvalidArgument(f"most={told.most}: write a number above 0")
    if picture is None:
        raise InvalidArgument(unknown(sight.input.name))
    rewritten = sight.rewritten(picture, OUTPUTS)
    nodes = Nodes(rewritten.model.graph, "classification")
    shares = nodes.add("Cast", nodes.add("Reshape", rewritten.outputs[0], integers([-1])), to=dtypes.float32.number)
    if not _are_shares(output) if told.softmax is None else told.softmax:
        shares = nodes.add("Softmax", shares, axis=0)
    count = min(told.most, shape[0])
    scores, numbers = nodes.add_many(2, "TopK", shares, integers([count]), axis=0)
    kinds = (TensorType(dtypes.float32, (count,)), TensorType(dtypes.int64, (count,)))
    return rewritten.ended(nodes, list(zip((scores, numbers), kinds)), labels)


def picture_of(metadata: Mapping[str, str]) -> Picture | None:
    """How pictures become the input, as this package or ultralytics wrote it; None where the metadata has nothing."""
    return recalled(metadata) or (ULTRALYTICS if metadata.get("task") == "classify" else None)


def _are_shares(output: Value) -> bool:
    """Whether a Value is made of shares, which are moved at most."""
    made = output.producer
    while made is not None and made.op_type in MOVES and made.inputs and made.inputs[0] is not None:
        made = made.inputs[0].producer
    return made is not None and made.op_type in SHARES
