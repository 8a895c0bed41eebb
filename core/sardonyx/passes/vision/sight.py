"""A model that sees: which input a picture becomes, how large it is there, and the way back to the picture's pixels."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sardonyx.common import dtypes
from sardonyx.common.record import record, replace
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType, Value
from sardonyx.model.serde.inline import inline_functions
from sardonyx.passes.copy import copy_model
from sardonyx.passes.infer import infer_types
from sardonyx.passes.nodes import Nodes, floats, integers
from sardonyx.passes.picture import Picture, with_pictures
from sardonyx.passes.upgrade import NEWEST, lift, upgrade
from sardonyx.passes.vision.labels import KEY, literal

SIZE = "sardonyx.size"
"""Where the metadata of a model that takes pictures of any size has the height and width that they get, and how they
fit in, in JSON."""


class Sight:
    """A copy of a model, in the newest operator set: its `input` for a picture, with the `size` (height, width) that
    it has there, and its `outputs`, with their shapes.

    `picture` says which input and what size, where the model leaves that open. Its pixels have so many `channels`, 0
    for as many as it says. Raises InvalidArgument where neither tells.
    """

    def __init__(self, model: Model, picture: Picture | None = None, channels: int = 0) -> None:
        self._channels = channels
        self._model = upgrade(copy_model(inline_functions(model, lift=lift, newest=NEWEST)))
        self.input = self._found(picture.name if picture else "")
        self.size = self._sized(picture)
        self.outputs = self._model.graph.outputs
        if not all(value.shape and all(isinstance(size, int) for size in value.shape[1:]) for value in self.outputs):
            self._infer()

    def rewritten(self, picture: Picture, names: Sequence[str]) -> Rewritten:
        """The model with a picture as its input, and room for outputs of these names."""
        channels = self._channels or picture.channels
        picture = replace(picture, name=self.input.name, size=self.size, channels=channels)
        result = with_pictures(self._model, [picture])
        graph = result.graph
        for value, known in zip(graph.outputs, self.outputs, strict=True):
            value.type = known.type
        taken = {value.name for each in graph.all_nodes() for value in each.outputs}
        for value in (*graph.initializers, *(value for each in graph.nodes for value in each.outputs)):
            if value.name in names:
                name = f"model/{value.name}"
                while name in taken:
                    name += "_"
                value.name = name
        for value in graph.inputs:
            if value.name in names:
                raise InvalidArgument(f"the model's input {value.name!r} has the name of an output to be; rename it")
        (fed,) = (value for value in graph.inputs if value.name == picture.name)
        return Rewritten(result, picture, fed, graph.outputs, tuple(names))

    def _found(self, name: str) -> Value:
        """The input of this name, or the one that is shaped like a picture."""
        graph = self._model.graph
        fed = [value for value in graph.inputs if value not in graph.initializers]
        found = [value for value in fed if (value.name == name if name else _sides(value))]
        if len(found) > 1:  # a batch is a picture sooner than what has three axes
            found = [value for value in found if len(value.shape or ()) == 4] or found
        if len(found) == 1 and _sides(found[0]):
            return found[0]
        listed = ", ".join(f"{value.name} {value.type}" for value in fed)
        if name:
            raise InvalidArgument(f"the model has no input {name!r} that is shaped like a picture; it has {listed}")
        what = "several inputs that are" if found else "no input that is"
        raise InvalidArgument(f"the model has {what} shaped like a picture: {listed}; say which, by its name")

    def _sized(self, picture: Picture | None) -> tuple[int, int]:
        shape = self.input.shape or ()
        sides = [shape[axis] for axis in _sides(self.input)]
        told = literal(self._model.metadata.get("imgsz", ""))
        if picture is not None and picture.size is not None:
            for side, wanted, what in zip(sides, picture.size, ("high", "wide")):
                if isinstance(side, int) and side != wanted:
                    told_size = "x".join(map(str, picture.size))
                    raise InvalidArgument(f"resize={told_size}: input {self.input.name!r} is {side} {what}")
            return picture.size
        if not all(isinstance(side, int) for side in sides) and isinstance(told, (list, tuple)):
            sides = [*told]
        known = [side for side in sides if isinstance(side, int) and side > 0]
        if len(known) != 2:
            raise InvalidArgument(f"input {self.input.name!r} is {self.input.type}: say its size, as in resize=640")
        return known[0], known[1]

    def _infer(self) -> None:
        """Types of the outputs, for one picture of this size."""
        fixed = list(self.input.shape or ())
        if len(fixed) == 4:
            fixed[0] = 1
        for axis, size in zip(_sides(self.input), self.size):
            fixed[axis] = size
        probe = copy_model(self._model)
        assert self.input.dtype is not None
        probe.graph.inputs[self._model.graph.inputs.index(self.input)].type = TensorType(self.input.dtype, tuple(fixed))
        infer_types(probe.graph)
        for mine, its in zip(self.outputs, probe.graph.outputs, strict=True):
            mine.type = its.type or mine.type


@record(frozen=True)
class Rewritten:
    """A model that takes the picture `fed`, whose `outputs` are still what they were."""

    model: Model
    picture: Picture
    fed: Value
    outputs: Sequence[Value]
    names: tuple[str, ...]

    def way_back(self, nodes: Nodes) -> tuple[Value, Value, Value | None]:
        """Of the picture, for x and y in turn: its size, how many of its pixels are one of the input's, and where the
        input begins, None where that is 0. All are float32 [2], the second [1] where the ratio of sides is kept."""
        shape = nodes.add("Shape", self.fed)
        sizes = nodes.add("Cast", nodes.add("Gather", shape, integers([1, 0])), to=dtypes.float32.number)
        assert self.picture.size is not None
        target = floats(self.picture.size[::-1])
        steps = nodes.add("Div", sizes, target)
        fit = self.picture.fit
        if fit != "stretch":
            steps = nodes.add("ReduceMin" if fit == "cover" else "ReduceMax", steps, integers([0]), keepdims=1)
        if fit not in ("cover", "contain"):
            return sizes, steps, None
        margin = nodes.add("Sub", sizes, nodes.add("Mul", steps, target))
        return sizes, steps, nodes.add("Mul", margin, floats(0.5))

    def boxes(self, nodes: Nodes, boxes: Value) -> Value:
        """Boxes [n, 4] in pixels of the picture, and within it."""
        sizes, steps, start = self.way_back(nodes)
        placed = nodes.add("Mul", nodes.add("Reshape", boxes, integers([-1, 2, 2])), steps)
        placed = nodes.add("Add", placed, start) if start is not None else placed
        placed = nodes.add("Max", nodes.add("Min", placed, sizes), floats(0))
        return nodes.add("Reshape", placed, integers([-1, 4]))

    def places(self, nodes: Nodes, height: int, width: int) -> list[Value]:
        """Where the rows and the columns of the picture lie on a map of the input that has this size: float32, 0 being
        its edge."""
        _, steps, start = self.way_back(nodes)
        shape = nodes.add("Shape", self.fed)
        assert self.picture.size is not None
        found = []
        for axis, (size, target) in enumerate(zip((height, width), self.picture.size)):
            numbers = nodes.add("Range", integers(0), nodes.add("Gather", shape, integers(axis)), integers(1))
            places = nodes.add("Add", nodes.add("Cast", numbers, to=dtypes.float32.number), floats(0.5))
            if start is not None:
                places = nodes.add("Sub", places, nodes.add("Gather", start, integers([1 - axis])))
            step = nodes.add("Gather", steps, integers([1 - axis])) if self.picture.fit == "stretch" else steps
            found.append(nodes.add("Mul", nodes.add("Div", places, step), floats(size / target)))
        return found

    def ended(self, nodes: Nodes, ends: Sequence[tuple[Value, TensorType]], labels: Sequence[str]) -> Model:
        """The model with these outputs instead, and the names of classes and the size of the input in its metadata."""
        graph, picture = self.model.graph, self.picture
        assert picture.size is not None
        graph.outputs = []
        for name, (value, kind) in zip(self.names, ends, strict=True):
            made = nodes.add("Identity", value)
            made.name, made.type = name, kind
            graph.outputs.append(made)
        graph.nodes += nodes.made
        told = {KEY: json.dumps([*labels]), SIZE: json.dumps([*picture.size, picture.fit])}
        self.model.metadata = {**self.model.metadata, **told}
        return self.model


def unknown(name: str) -> str:
    """What is said where nobody tells how pictures for an input are normalized."""
    return (
        f"how pictures for {name!r} are normalized is not known: say mean and std, as in --image {name}:mean=..,std=.."
    )


def _sides(value: Value) -> list[int]:
    """The axes of height and width of a picture, or a batch of them; none where a Value is shaped otherwise."""
    shape = value.shape or ()
    if len(shape) not in (3, 4):
        return []
    axes = [len(shape) - 3, len(shape) - 2, len(shape) - 1]
    channels = next((axis for axis in (axes[0], axes[2]) if shape[axis] in (1, 3)), None)
    return [axis for axis in axes if axis != channels] if channels is not None else []
