"""A segmenter that takes a picture as it comes, and gives the class of each of its pixels."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType, Value
from sardonyx.passes.nodes import Nodes, floats, integers
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.labels import labels_of
from sardonyx.passes.vision.sight import Rewritten, Sight, unknown

OUTPUTS = ("mask",)
MOST = 256
"""Classes that a byte can tell apart."""


@record(frozen=True)
class Segmentation:
    """How scores of pixels become a mask.

    Of several maps the largest score decides; a pixel of the picture has the class of the place where it lies. One map
    is compared with `threshold`, after a sigmoid if `sigmoid` (None: unless one made it), in between bilinearly.
    `output` is the name of the maps, the first output if there is none. `labels` name classes.
    """

    threshold: float = 0.5
    sigmoid: bool | None = None
    output: str = ""
    labels: Sequence[str] = ()


def with_segmentation(model: Model, told: Segmentation, picture: Picture | None = None, channels: int = 0) -> Model:
    """A copy of a model, in the newest operator set, that takes a picture and gives `mask` uint8 [height, width].

    Raises InvalidArgument where the output is not [1, C, h, w], or nothing tells how pictures are normalized.
    """
    sight = Sight(model, picture, channels)
    names = [value.name for value in sight.outputs]
    if told.output and told.output not in names:
        raise InvalidArgument(f"the model has no output {told.output!r}; it has {', '.join(names)}")
    place = names.index(told.output) if told.output else 0
    output = sight.outputs[place]
    shape = [size for size in output.shape or () if isinstance(size, int)]
    if len(output.shape or ()) != 4 or len(shape) < 3 or not 1 <= shape[-3] <= MOST:
        raise InvalidArgument(f"the output {output.name} {output.type} is not shaped like maps, [1, 1 to {MOST}, h, w]")
    if picture is None:
        raise InvalidArgument(unknown(sight.input.name))
    rewritten = sight.rewritten(picture, OUTPUTS)
    nodes = Nodes(rewritten.model.graph, "segmentation")
    count, height, width = shape[-3:]
    maps = nodes.add("Squeeze", rewritten.outputs[place], integers([0]))
    rows, columns = rewritten.places(nodes, height, width)
    if count > 1:
        numbers = nodes.add("Cast", nodes.add("ArgMax", maps, axis=0, keepdims=0), to=dtypes.uint8.number)
        for axis, (places, size) in enumerate(((rows, height), (columns, width))):
            numbers = nodes.add("Gather", numbers, _within(nodes, nodes.add("Floor", places), size), axis=axis)
        mask = numbers
    else:
        shares = nodes.add("Cast", nodes.add("Squeeze", maps, integers([0])), to=dtypes.float32.number)
        made = output.producer.op_type if output.producer else ""
        if made != "Sigmoid" if told.sigmoid is None else told.sigmoid:
            shares = nodes.add("Sigmoid", shares)
        for axis, (places, size) in enumerate(((rows, height), (columns, width))):
            shares = _between(nodes, shares, places, size, axis)
        mask = nodes.add("Cast", nodes.add("Greater", shares, floats(told.threshold)), to=dtypes.uint8.number)
    return _ended(rewritten, nodes, mask, list(told.labels) or labels_of(model.metadata))


def _ended(rewritten: Rewritten, nodes: Nodes, mask: Value, labels: Sequence[str]) -> Model:
    shape = rewritten.fed.shape or ("", "")
    return rewritten.ended(nodes, [(mask, TensorType(dtypes.uint8, shape[:2]))], labels)


def _within(nodes: Nodes, places: Value, size: int) -> Value:
    """The numbers of an axis of this size that are nearest to places."""
    kept = nodes.add("Max", nodes.add("Min", places, floats(size - 1)), floats(0))
    return nodes.add("Cast", kept, to=dtypes.int64.number)


def _between(nodes: Nodes, x: Value, places: Value, size: int, axis: int) -> Value:
    """Means of neighbours along an axis, where centres lie at 0.5, 1.5 ..."""
    shifted = nodes.add("Sub", places, floats(0.5))
    first = nodes.add("Floor", shifted)
    part = nodes.add("Sub", shifted, first)
    if axis == 0:
        part = nodes.add("Unsqueeze", part, integers([1]))
    low = nodes.add("Gather", x, _within(nodes, first, size), axis=axis)
    high = nodes.add("Gather", x, _within(nodes, nodes.add("Add", first, floats(1)), size), axis=axis)
    return nodes.add("Add", low, nodes.add("Mul", part, nodes.add("Sub", high, low)))
