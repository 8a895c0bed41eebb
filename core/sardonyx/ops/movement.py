"""Movement: operators that give the elements of their operands in another order or number."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Node
from sardonyx.model.ir.build import attribute
from sardonyx.ops.lift import constant_array, defaulted, each, renamed, to_input
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.ops.shape import known_axes
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size

FAR = 1 << 31
"""Bounds of slices from here on mean `to the end`; they are never compared with a symbolic size."""


class Transpose(Operator):
    """Axis k of the result is axis `perm[k]` of the operand; all axes reversed if there is no `perm`."""

    perm: tuple[int, ...] | None = None

    def expand(self, x: Array) -> Array:
        return p.transpose(x, self.perm)

    samples = [
        sample((2, 3, 4)),
        sample((2, 3, 4), perm=[1, 0, 2]),
        sample(()),
        sample((0, 2)),
        sample(np.array([[1, 2, 3]], np.uint8)),
    ]


class Expand(Operator, since=8):
    """Broadcast to this shape, or to the shape that both broadcast to."""

    def expand(self, x: Array, shape: Array) -> Array:
        return p.broadcast_to(x, p.broadcast_shapes(x.shape, tuple(known_sizes(shape))))

    samples = [
        sample((3, 1), np.array([3, 4])),
        sample((3, 1), np.array([2, 1, 6])),
        sample((3, 1), np.array([1])),
        sample((), np.array([2, 0])),
        sample(np.array([True, False]), np.array([2, 2])),
    ]


def _tile_repeats(node: Node, make: Rewriter) -> None:
    """Tile(x, tiles, axis) -> Tile(x, repeats), where repeats is `tiles` at `axis` and 1 elsewhere."""
    x, tiles, axis = node.inputs
    (rank,) = make.emit("Shape", *make.emit("Shape", x))
    (ones,) = make.emit("ConstantOfShape", rank, value=np.ones(1, np.int64))
    one = make.constant([1], np.int64)
    places = [make.emit("Reshape", *make.emit("Cast", item, to=7), one)[0] for item in (axis, tiles)]
    node.inputs = [x, *make.emit("ScatterElements", ones, *places)]


class Tile(Operator):
    """The operand repeated `repeats[k]` times along axis k."""

    def expand(self, x: Array, repeats: Array) -> Array:
        times = known_sizes(repeats)
        if len(times) != x.rank:
            raise ValueError(f"repeats {times} has {len(times)} elements, but the operand has rank {x.rank}")
        before: list[Size] = []
        wide: list[Size] = []
        for size, count in zip(x.shape, times, strict=True):
            if not (isinstance(count, int) and count == 1):
                before.append(1)
                wide.append(count)
            before.append(size)
            wide.append(size)
        tiled = p.broadcast_to(p.reshape(x, before), wide)
        return p.reshape(tiled, [size * count for size, count in zip(x.shape, times, strict=True)])

    upgrades = {6: _tile_repeats}

    samples = [
        sample((2, 3), np.array([2, 1])),
        sample((2, 3), np.array([1, 1])),
        sample((2, 3), np.array([3, 2])),
        sample((2, 3), np.array([0, 2])),
        sample((), np.array([], np.int64)),
    ]


class Concat(Operator):
    """The operands joined along an axis."""

    axis: int

    def expand(self, *operands: Array) -> Array:
        return p.concat(operands, self.axis)

    upgrades = {4: defaulted("axis", 1)}

    samples = [
        sample((2, 3), (1, 3), axis=0),
        sample((2, 3), (2, 1), (2, 0), axis=-1),
        sample((2,), axis=0),
        sample(np.array([1, 2]), np.array([3]), axis=0),
    ]


def _count_outputs(node: Node, make: Rewriter) -> None:
    """Split(x) -> Split(x, num_outputs=as many as the node has)."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        defaulted("num_outputs", len(node.outputs))(node, make)


def _no_count(node: Node) -> bool:
    """Before, parts were alike, and as many as the outputs."""
    x, axis = node.inputs[0], node.attribute("axis", 0)
    if node.attributes.pop("num_outputs", None) is None:
        return True
    size = x.shape[axis] if x is not None and x.shape is not None else None
    return isinstance(size, int) and size % len(node.outputs) == 0


class Split(Operator):
    """Consecutive parts along an axis: of the sizes `split`, or `num_outputs` alike but for a smaller last one."""

    axis: int = 0
    num_outputs: int | None = None

    def expand(self, x: Array, split: Array | None = None) -> list[Array]:
        axis = p.normalize_axis(self.axis, x.rank)
        size = x.shape[axis]
        if split is None:
            count = self.num_outputs or len(self.node.outputs)
            part = (size + count - 1) // count
            starts = [at if (at := k * part) <= size else size for k in range(count)] + [size]
            parts = [b - a for a, b in pairwise(starts)]
        else:
            parts = known_sizes(split)
            starts = list(accumulate(parts, initial=0))
            if not starts[-1] == size:
                raise ValueError(f"split {parts} adds up to {starts[-1]}, but axis {axis} has size {size}")
        return [p.slice_axis(x, axis, start, part) for start, part in zip(starts, parts, strict=False)]

    upgrades = {13: to_input("split", 1), 18: _count_outputs}
    downgrades = {18: _no_count}

    samples = [
        sample((6, 2), outputs=3, num_outputs=3),
        sample((2, 7), outputs=3, axis=1, num_outputs=3),
        sample((2, 7), np.array([3, 0, 4]), outputs=3, axis=-1),
        sample((0, 2), outputs=2, num_outputs=2),
    ]


_RANGES = each(to_input("starts", 1), to_input("ends", 2), to_input("axes", 3))


def _no_steps(node: Node) -> bool:
    steps = constant_array(node.inputs[4]) if len(node.inputs) > 4 else np.ones(1)
    if steps is None or (steps != 1).any():
        return False
    node.inputs = node.inputs[:4]
    return _RANGES.lower(node)


class Slice(Operator):
    """Elements `starts[k]` to `ends[k]` of axis `axes[k]`, every `steps[k]`-th; negative ones count from the end."""

    def expand(
        self, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
    ) -> Array:
        firsts, lasts = known_sizes(starts), known_sizes(ends)
        places = list(range(len(firsts))) if axes is None else known_axes(axes)
        strides = [1] * len(firsts) if steps is None else known_axes(steps)
        if not len(firsts) == len(lasts) == len(places) == len(strides):
            raise ValueError(f"starts {firsts}, ends {lasts}, axes {places} and steps {strides} differ in length")
        begin: list[Size] = [0] * x.rank
        sizes, every = list(x.shape), [1] * x.rank
        seen = set[int]()
        for place, first, last, step in zip(places, firsts, lasts, strides, strict=True):
            axis = p.normalize_axis(place, x.rank)
            if axis in seen:
                raise ValueError(f"axes {places} name one axis twice")
            seen.add(axis)
            begin[axis], sizes[axis] = slice_bounds(x.shape[axis], first, last, step)
            every[axis] = step
        return p.slice_(x, begin, sizes, every)

    upgrades = {10: _RANGES}
    downgrades = {10: _no_steps}

    samples = [
        sample((5, 4), np.array([1, 0]), np.array([4, 3])),
        sample((5, 4), np.array([1]), np.array([2**63 - 1]), np.array([-1])),
        sample((5, 4), np.array([-1]), np.array([-(2**63)]), np.array([0]), np.array([-2])),
        sample((5, 4), np.array([-3, 3]), np.array([-1, 0]), np.array([0, 1]), np.array([1, -1])),
        sample((5, 4), np.array([4]), np.array([1]), np.array([0])),
        sample((5, 4), np.array([9], np.int32), np.array([-9], np.int32), np.array([0], np.int32)),
        sample((7,), np.array([10]), np.array([-10]), np.array([0]), np.array([-3])),
        sample((0, 4), np.array([0]), np.array([5]), np.array([0])),
        sample((0, 4), np.array([-1]), np.array([-9]), np.array([0]), np.array([-1])),
    ]


def slice_bounds(size: Size, first: Size, last: Size, step: int) -> tuple[Size, Size]:
    """Where the slice first:last:step of an axis starts, and how many elements it has.

    ONNX differs from Python in that a slice backwards from before the first element has that element.

    >>> slice_bounds(10, -3, 1 << 63, 2), slice_bounds(10, 20, -20, -4), slice_bounds(10, -20, -30, -1)
    ((7, 2), (9, 3), (0, 1))
    """
    if step == 0:
        raise ValueError("a slice has a step of 0; use a positive or a negative one")
    if step < 0 and size == 0:
        return 0, 0
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = _clamped(first, size, 0, high), _clamped(last, size, low, high)
    length = last - first if step > 0 else first - last
    if not length >= 0:
        return 0, 0
    return first, (length + abs(step) - 1) // abs(step)


def _clamped(place: Size, size: Size, low: int, high: Size) -> Size:
    if isinstance(place, int) and abs(place) >= FAR:
        return high if place > 0 else low
    if place < 0:
        place = place + size
    if place < low:
        return low
    return place if place <= high else high


def _to_inputs(node: Node, make: Rewriter) -> None:
    """Pad(x, pads=p, value=v) -> Pad(x, p, v as an element of x's type)."""
    to_input("pads", 1)(node, make)
    value = node.attributes.pop("value", None)
    if value is not None and value.value != 0:
        node.inputs += make.emit("CastLike", make.constant(value.value, np.float32), node.inputs[0])


def _to_attributes(node: Node) -> bool:
    """Pad(x, pads, value) -> Pad(x, pads=pads, value=value)."""
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        return False
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        value = constant_array(node.inputs[2])
        if value is None or value.dtype.kind not in "fiu":
            return False
        node.attributes["value"] = attribute("value", float(value.item()))
    node.inputs = node.inputs[:2]
    return to_input("pads", 1).lower(node)


class Pad(Operator):
    """A border of `pads` elements (a cut where negative): a constant, or the operand reflected, stretched, wrapped."""

    mode: str = "constant"

    def expand(self, x: Array, pads: Array, value: Array | None = None, axes: Array | None = None) -> Array:
        widths = known_sizes(pads)
        places = list(range(x.rank)) if axes is None else [p.normalize_axis(axis, x.rank) for axis in known_axes(axes)]
        if len(widths) != 2 * len(places):
            raise ValueError(f"pads {widths} has {len(widths)} elements, but {2 * len(places)} are needed")
        low: list[Size] = [0] * x.rank
        high: list[Size] = [0] * x.rank
        for axis, before, after in zip(places, widths[: len(places)], widths[len(places) :], strict=True):
            cut = [-width if width < 0 else 0 for width in (before, after)]
            x = p.slice_axis(x, axis, cut[0], x.shape[axis] - cut[0] - cut[1])
            low[axis], high[axis] = before + cut[0], after + cut[1]
        if self.mode == "constant":
            return _pad_constant(x, low, high, value)
        for axis in places:
            if not (isinstance(low[axis], int) and isinstance(high[axis], int) and low[axis] == high[axis] == 0):
                x = p.gather(x, [self._source(x.shape[axis], low[axis], high[axis])], [axis], axis)
        return x

    def _source(self, size: Size, low: Size, high: Size) -> Array:
        """Which element of an axis of this size each element of the padded axis is a copy of."""
        at = p.iota((low + size + high,), 0)
        place = at - low
        if self.mode == "edge":
            return p.minimum(p.maximum(place, 0), size - 1)
        if self.mode == "wrap":
            other = (place % size + size) % size
        elif self.mode == "reflect":
            period = 2 * size - 2 if size != 1 else 1
            once = all(isinstance(each, int) for each in (size, low, high)) and max(low, high) < size
            other = p.absolute(place) if once else (place % period + period) % period
            other = p.minimum(other, -other + period)
        else:
            raise ValueError(f"mode {self.mode!r} is unknown; use constant, reflect, edge or wrap")
        return p.where((at >= low) & (at < low + size), place, other)  # divisions take long, and few elements need them

    upgrades = {2: renamed("paddings", "pads"), 11: _to_inputs}
    downgrades = {11: _to_attributes}

    samples = [
        sample((3, 4), np.array([1, 0, 2, 3])),
        sample((3, 4), np.array([0, 1, 0, 2]), np.array(1.5, np.float32)),
        sample((3, 4), np.array([2, 1]), None, np.array([-1])),
        sample((3, 4), np.array([-1, 1, 0, -2])),
        sample((3, 4), np.array([2, 3, 1, 2]), mode="reflect"),
        sample((3, 4), np.array([2, 3, 1, 2]), mode="edge"),
        sample((3, 4), np.array([2, 3, 1, 2]), mode="wrap"),
        sample((0, 2), np.array([1, 0, 1, 0])),
        sample(np.array([1, 2], np.int64), np.array([1, 1]), np.array(7)),
        sample(np.array([True]), np.array([1, 1]), np.array(True)),
    ]


def _pad_constant(x: Array, low: list[Size], high: list[Size], value: Array | None) -> Array:
    if value is None:
        return p.pad(x, low, high)
    if value.value is not None and value.dtype.is_native:
        return p.pad(x, low, high, value.value.reshape(()).item())
    inside = p.pad(p.full(x.shape, True, dtypes.bool_), low, high)
    return p.where(inside, p.pad(x, low, high), p.reshape(value, ()))


class DepthToSpace(Operator):
    """Blocks of channels [N, C * b * b, H, W] become blocks of the image [N, C, H * b, W * b]."""

    blocksize: int
    mode: str = "DCR"

    def expand(self, x: Array) -> Array:
        n, c, h, w = x.shape
        b = self.blocksize
        if self.mode == "CRD":
            parts = p.transpose(p.reshape(x, (n, c // (b * b), b, b, h, w)), [0, 1, 4, 2, 5, 3])
        else:
            parts = p.transpose(p.reshape(x, (n, b, b, c // (b * b), h, w)), [0, 3, 4, 1, 5, 2])
        return p.reshape(parts, (n, c // (b * b), h * b, w * b))

    samples = [sample((1, 8, 2, 3), blocksize=2), sample((2, 4, 1, 2), blocksize=2, mode="CRD")]


class SpaceToDepth(Operator):
    """Blocks of the image [N, C, H * b, W * b] become blocks of channels [N, b * b * C, H, W]."""

    blocksize: int
    mode: str = "DCR"

    def expand(self, x: Array) -> Array:
        n, c, h, w = x.shape
        b = self.blocksize
        order = [0, 1, 3, 5, 2, 4] if self.mode == "CRD" else [0, 3, 5, 1, 2, 4]
        parts = p.transpose(p.reshape(x, (n, c, h // b, b, w // b, b)), order)
        return p.reshape(parts, (n, c * (b * b), h // b, w // b))

    samples = [sample((1, 2, 4, 6), blocksize=2), sample((2, 1, 3, 3), blocksize=3)]


class CenterCropPad(Operator, since=18):
    """The middle of the operand: cut, or padded with zeros, to these sizes."""

    axes: tuple[int, ...] | None = None

    def expand(self, x: Array, shape: Array) -> Array:
        wanted = known_sizes(shape)
        for place, target in zip(range(x.rank) if self.axes is None else self.axes, wanted, strict=True):
            axis = p.normalize_axis(place, x.rank)
            size = x.shape[axis]
            if target < size:
                x = p.slice_axis(x, axis, (size - target) // 2, target)
            else:
                low = [(target - size) // 2 if k == axis else 0 for k in range(x.rank)]
                high = [(target - size + 1) // 2 if k == axis else 0 for k in range(x.rank)]
                x = p.pad(x, low, high)
        return x

    samples = [
        sample((5, 4), np.array([3, 7])),
        sample((5, 4, 2), np.array([6, 2]), axes=[-2, 0]),
    ]
