"""A model whose input is a picture as it comes, bytes of any size: it is cut, resized and normalized in the model.

    x: uint8 [height, width, 4]  ->  two sums of taps, rows and then columns  ->  what the model declared for x

Resizing is bilinear with antialiasing, as Pillow's `resize`: each result is a mean of the pixels around its place, by a
triangle as wide as what it stands for. Pillow and browsers round to whole levels afterwards, and this does not. Without
antialiasing it is a mean of the four pixels that are nearest, as OpenCV's `INTER_LINEAR`. Sizes decide nothing, so one
plan holds for all pictures.

Bytes become floats once. Rows are summed first, as they lie in memory; what comes of it is written with its columns as
rows, so that the second sum, too, is of what lies in a row. Channels are chosen, and bars laid, when the picture is
small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType, Value
from sardonyx.model.ir.types import DimLike
from sardonyx.model.serde.inline import inline_functions
from sardonyx.passes.copy import copy_model
from sardonyx.passes.nodes import Nodes, floats, integers
from sardonyx.passes.upgrade import NEWEST, lift, upgrade

FITS = ("stretch", "cover", "contain", "corner")
"""What becomes of the sides' ratio: not kept; kept, the middle filling all; kept, all of it with bars beside; and that
with all of it in the upper left corner."""
BARRED = ("contain", "corner")
ORDERS = {"rgb": (0, 1, 2), "bgr": (2, 1, 0)}
SCALE = 256.0
"""By what levels are divided while they are resized: exact."""
GREY = (0.299, 0.587, 0.114)
"""How bright red, green and blue are (ITU-R BT.601), as Pillow has it."""


@record(frozen=True)
class Picture:
    """How pixels become the input `name`.

    `mean` and `std` are in levels, 0 to 255, one for all channels or one for each. `size` is height and width, where
    it is not the model's own; `pad` is the level of bars; `order` is that of the channels. Pixels have `channels` of
    bytes, 3 or 4; a fourth is ignored. Without `antialias` what shrinks leaves pixels out. `option` is what
    asked for all this, for messages.
    """

    name: str
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (255.0,)
    size: tuple[int, int] | None = None
    fit: str = "stretch"
    pad: float = 0.0
    order: str = "rgb"
    channels: int = 4
    antialias: bool = True
    option: str = ""


def with_pictures(model: Model, pictures: Sequence[Picture]) -> Model:
    """A copy of a model, in the newest operator set, whose inputs of these names are pictures.

    Raises InvalidArgument where an input is not shaped like one, or an option does not fit it.
    """
    result = upgrade(copy_model(inline_functions(model, lift=lift, newest=NEWEST)))
    for picture in pictures:
        _Prefix(result, picture).build()
    return result


class _Prefix:
    """The nodes between a picture and what the model declared."""

    def __init__(self, model: Model, picture: Picture) -> None:
        self._graph = model.graph
        self._told = picture
        self._nodes = Nodes(self._graph, picture.name)
        self._add = self._nodes.add
        fed = [value for value in self._graph.inputs if value not in self._graph.initializers]
        found = [value for value in fed if value.name == picture.name]
        if not found:
            names = ", ".join(value.name for value in fed)
            raise self._error(f"the model has no input {picture.name!r}; it has {names}")
        (self._old,) = found

    def _error(self, text: str) -> InvalidArgument:
        return InvalidArgument(f"{self._told.option}: {text}" if self._told.option else text)

    def build(self) -> None:
        told, old = self._told, self._old
        layout, count, dtype = self._layout()
        for what, values in (("mean", told.mean), ("std", told.std)):
            if len(values) not in (1, count):
                raise self._error(f"the {what} has {len(values)} values, and input {told.name!r} {_channels(count)}")
        height, width = self._size(layout)
        sides = [f"{told.name}.height", f"{told.name}.width"] if told.size or height else [height, width]
        shape: tuple[DimLike, ...] = (*sides, told.channels)
        fed = Value(told.name, TensorType(dtypes.uint8, shape), doc=old.doc)
        pixels = self._fractions(fed)
        if height and width:
            pixels, inside = self._resized(fed, pixels, height, width)
        pixels = self._colors(pixels, count)
        if height and width and told.fit in BARRED:
            pixels = self._add("Where", inside, pixels, floats(told.pad / SCALE))
        factor = SCALE / np.asarray(told.std, np.float64)
        offset = -np.asarray(told.mean, np.float64) * factor / SCALE
        pixels = self._add("Add", self._add("Mul", pixels, floats(factor)), floats(offset))
        if "C" in layout and layout.index("C") < layout.index("H"):
            pixels = self._add("Transpose", pixels, perm=[2, 0, 1])
        axes = [layout.index(axis) for axis in "N" if axis in layout]
        pixels = self._add("Unsqueeze", pixels, integers(axes)) if axes else pixels
        pixels = self._add("Cast", pixels, to=dtype.number) if dtype is not dtypes.float32 else pixels
        last = self._nodes.made[-1]
        last.outputs[0] = old
        old.producer = last
        old.name = f"{told.name}/normalized"
        self._graph.inputs[self._graph.inputs.index(old)] = fed
        self._graph.nodes[:0] = self._nodes.made

    def _layout(self) -> tuple[str, int, DType]:
        """The order of the input's axes, its channels and its type."""
        told, shape, dtype = self._told, self._old.shape, self._old.dtype
        if dtype not in (dtypes.float16, dtypes.float32, dtypes.float64):
            raise self._error(f"input {told.name!r} is {self._old.type}, and pictures become floats")
        for layout in ("NCHW", "NHWC", "CHW", "HWC"):
            if shape is None or len(layout) != len(shape):
                continue
            channels, batch = shape[layout.index("C")], shape[0] if "N" in layout else 1
            if channels in (1, 3):
                if isinstance(batch, int) and batch != 1:
                    raise self._error(f"input {told.name!r} takes {batch} pictures at once; one can be made")
                return layout, int(channels), dtype
        raise self._error(
            f"input {told.name!r}, {self._old.type}, is not shaped like a picture: NCHW, NHWC, CHW or HWC with 1 or 3 "
            "channels"
        )

    def _size(self, layout: str) -> tuple[DimLike, DimLike]:
        """The height and width that the model gets; those that nothing tells are the picture's own."""
        told, shape = self._told, self._old.shape
        assert shape is not None
        own = [shape[layout.index(axis)] for axis in "HW"]
        fixed = [size if isinstance(size, int) else None for size in own]
        if told.size is None:
            if None in fixed:
                if told.fit != "stretch":
                    raise self._error(
                        f"fit={told.fit} wants a size: input {told.name!r} has none of its own; add resize="
                    )
                if fixed != [None, None]:
                    raise self._error(f"input {told.name!r} has one size of its own, and one that is open; add resize=")
                return (None, None)
            return own[0], own[1]
        for size, wanted, what in zip(fixed, told.size, ("high", "wide")):
            if size not in (None, wanted):
                raise self._error(f"resize={'x'.join(map(str, told.size))}: input {told.name!r} is {size} {what}")
        return told.size

    def _floats(self, x: Value) -> Value:
        return self._add("Cast", x, to=dtypes.float32.number)

    def _fractions(self, fed: Value) -> Value:
        """Bytes as floats below 1. They are multiplied here, since what only casts is done anew for each tap."""
        return self._add("Mul", self._floats(fed), floats(1 / SCALE))

    def _colors(self, pixels: Value, count: int) -> Value:
        """Floats [height, width, count] of all channels: after resizing, when they are few."""
        told = self._told
        if told.channels != 3 or told.order != "rgb":
            pixels = self._add("Gather", pixels, integers(ORDERS[told.order]), axis=2)
        if count == 3:
            return pixels
        return self._add("ReduceSum", self._add("Mul", pixels, floats(GREY)), integers([2]), keepdims=1)

    def _resized(self, fed: Value, pixels: Value, height: Any, width: Any) -> tuple[Value, Value]:
        """Pixels resized to [height, width, channels], and which of them lie within the picture."""
        shape = self._add("Shape", fed)
        sizes = [self._add("Gather", shape, integers(k)) for k in (0, 1)]
        lengths = [self._floats(size) for size in sizes]
        steps = [self._add("Div", length, floats(target)) for length, target in zip(lengths, (height, width))]
        halves = [  # the steps as whole numbers, rounded up
            self._add("Div", self._add("Add", size, integers(target - 1)), integers(target))
            for size, target in zip(sizes, (height, width))
        ]
        if self._told.fit != "stretch":
            which = "Min" if self._told.fit == "cover" else "Max"
            steps, halves = [self._add(which, *steps)] * 2, [self._add(which, *halves)] * 2
        if not self._told.antialias:
            halves = [integers(1)] * 2
        inside = []
        for axis, target in enumerate((height, width)):
            index, weights, within = self._taps(sizes[axis], lengths[axis], steps[axis], halves[axis], target)
            weights = self._add("Reshape", weights, integers([target, -1, 1, 1]))
            taken = self._add("Gather", pixels, index, axis=0)
            pixels = self._add("ReduceSum", self._add("Mul", taken, weights), integers([1]), keepdims=0)
            # columns become rows, so that what is summed lies in a row
            pixels = self._add("Transpose", pixels, perm=[1, 2, 0] if axis == 0 else [2, 0, 1])
            inside.append(self._add("Reshape", within, integers([-1, *[1] * (2 - axis)])))
        return pixels, self._add("And", *inside)

    def _taps(self, size: Value, length: Value, step: Value, half: Value, target: int) -> tuple[Value, Value, Value]:
        """For each place along an axis: the pixels that it is a mean of, their weights, and whether it lies on any."""
        centers = self._add("Mul", step, floats(np.arange(target) + 0.5))
        if self._told.fit != "corner":
            margin = self._add("Mul", self._add("Sub", length, self._add("Mul", step, floats(target))), floats(0.5))
            centers = self._add("Add", centers, margin)
        within = self._add("And", self._at_least(centers, floats(0)), self._add("Less", centers, length))
        places = self._add("Unsqueeze", self._add("Sub", centers, floats(0.5)), integers([1]))
        first, end = (
            self._add(which, *pair) for which, pair in (("Sub", (integers(1), half)), ("Add", (half, integers(1))))
        )
        offsets = self._add("Range", first, end, integers(1))  # a triangle is twice as wide as it reaches
        nearest = self._add("Cast", self._add("Floor", places), to=dtypes.int64.number)
        index = self._add("Add", nearest, offsets)
        distance = self._add("Abs", self._add("Sub", self._add("Cast", index, to=dtypes.float32.number), places))
        reach = self._add("Max", step, floats(1)) if self._told.antialias else floats(1)
        weights = self._add("Max", self._add("Sub", floats(1), self._add("Div", distance, reach)), floats(0))
        isthere = self._add("And", self._at_least(index, integers(0)), self._add("Less", index, size))
        weights = self._add("Where", isthere, weights, floats(0))
        total = self._add("ReduceSum", weights, integers([1]), keepdims=1)
        weights = self._add("Div", weights, self._add("Max", total, floats(1e-6)))
        last = self._add("Sub", size, integers(1))
        return self._add("Min", self._add("Max", index, integers(0)), last), weights, within

    def _at_least(self, x: Value, least: Value) -> Value:
        return self._add("GreaterOrEqual", x, least)


def _channels(count: int) -> str:
    return "3 channels" if count == 3 else "1 channel"
