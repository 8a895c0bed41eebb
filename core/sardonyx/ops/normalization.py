"""Normalisation: statistics of 16-bit floats are taken in float32, variances of centred values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import attribute
from sardonyx.ops.arithmetic import number_like
from sardonyx.ops.lift import constant_array, to_input, unset, without
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.primitives.array import Array, Shape
from sardonyx.sizes.symbolic import Size

POSITIVE = np.array([0.5, 1.0, 2.0], np.float32)


def standardize(x: Array, axes: Sequence[int], epsilon: float) -> tuple[Array, Array, Array]:
    """(x - mean) / sqrt(variance + epsilon) along axes, the mean, and 1 / sqrt(variance + epsilon)."""
    mean = p.mean(x, axes, keepdims=True)
    centred = x - mean
    inverse = 1.0 / p.sqrt(p.mean(centred * centred, axes, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


def per_channel(x: Array, values: Array) -> Array:
    """Values of axis 1, shaped to broadcast against x and as wide as it."""
    size = values.shape[0]
    return p.cast(p.reshape(values, (size, *[1] * (x.rank - 2))), x.dtype)


class BatchNormalization(Operator):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias in every channel (Ioffe and Szegedy, 2015).

    In training the statistics are those of the batch, and the running ones follow them by 1 - momentum.
    """

    epsilon: float = 1e-5
    momentum: float = 0.9
    training_mode: int = 0

    def expand(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Sequence[Array]:
        for array in (scale, bias, mean, variance):
            if array.rank != 1 or array.shape[0] != x.shape[1]:
                raise ValueError(f"{p.show(array.shape)} is not one number for each of {x.shape[1]} channels")
        wide = p.widen(x)
        if not self.training_mode:
            return self.normalized(wide, x, scale, bias, mean, variance), mean, variance
        axes = [axis for axis in range(x.rank) if axis != 1]
        batch_mean = p.mean(wide, axes, keepdims=True)
        centred = wide - batch_mean
        batch = [p.reshape(batch_mean, (x.shape[1],)), p.mean(centred * centred, axes)]
        running = [
            p.cast(p.cast(old, wide.dtype) * self.momentum + new * (1.0 - self.momentum), old.dtype)
            for old, new in zip((mean, variance), batch, strict=True)
        ]
        return self.normalized(wide, x, scale, bias, *batch), *running

    def normalized(self, wide: Array, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        scale, bias, mean, variance = (p.cast(array, wide.dtype) for array in (scale, bias, mean, variance))
        factor = scale / p.sqrt(variance + self.epsilon)
        return p.cast(wide * per_channel(wide, factor) + per_channel(wide, bias - mean * factor), x.dtype)

    @staticmethod
    def of_every_place(node: Node, make: Rewriter) -> Sequence[Value] | None:
        """`spatial` 0 meant statistics [C, *spatial]: these broadcast by themselves."""
        spatial = node.attributes.pop("spatial", None)
        if spatial is None or spatial.value:
            return None
        x, scale, bias, mean, variance = node.inputs
        assert variance is not None
        epsilon = number_like(make, node.attribute("epsilon", 1e-5), variance)
        deviation = make.emit("Sqrt", *make.emit("Add", variance, epsilon))
        normal = make.emit("Div", *make.emit("Sub", x, mean), *deviation)
        return make.emit("Add", *make.emit("Mul", *normal, scale), bias)

    @staticmethod
    def without_saved_statistics(node: Node, make: Rewriter) -> None:
        """Outputs 3 and 4, for training alone, are gone; two have other names."""
        del node.outputs[3:]

    @staticmethod
    def only_inference(node: Node) -> bool:
        return unset("training_mode", 0)(node) and len(node.outputs) <= 1

    upgrades = {7: without("is_test"), 9: of_every_place, 14: without_saved_statistics}
    downgrades = {9: lambda node: True, 14: only_inference}
    samples = [
        sample((2, 3, 4, 2), (3,), (3,), (3,), POSITIVE),
        sample((2, 3), (3,), (3,), (3,), POSITIVE, epsilon=0.1),
        sample((2, 3, 4), (3,), (3,), (3,), POSITIVE, outputs=3, training_mode=1, momentum=0.8),
        sample((0, 3, 4), (3,), (3,), (3,), POSITIVE),
    ]


class InstanceNormalization(Operator):
    """Every channel of every instance standardized, times scale plus bias (Ulyanov et al., 2016)."""

    epsilon: float = 1e-5

    def expand(self, x: Array, scale: Array, bias: Array) -> Array:
        normal, _, _ = standardize(p.widen(x), range(2, x.rank), self.epsilon)
        return p.cast(normal * per_channel(normal, scale) + per_channel(normal, bias), x.dtype)

    samples = [sample((2, 3, 4, 5), (3,), (3,)), sample((1, 3, 7), (3,), (3,), epsilon=0.1)]


class GroupNormalization(Operator, since=18):
    """Every group of channels of every instance standardized, times scale plus bias (Wu and He, 2018)."""

    num_groups: int
    epsilon: float = 1e-5
    stash_type: int = 1

    def expand(self, x: Array, scale: Array, bias: Array) -> Array:
        batch, channels, *spatial = x.shape
        if channels % self.num_groups != 0:
            raise ValueError(f"{channels} channels do not make {self.num_groups} groups of equal size")
        grouped = p.reshape(p.widen(x), (batch, self.num_groups, channels // self.num_groups, *spatial))
        normal, _, _ = standardize(grouped, range(2, grouped.rank), self.epsilon)
        normal = p.reshape(normal, x.shape)
        return p.cast(normal * per_channel(normal, scale) + per_channel(normal, bias), x.dtype)

    @staticmethod
    def to_channels(node: Node, make: Rewriter) -> None:
        """Scale and bias used to be those of the groups."""
        channels = make.emit("Shape", node.inputs[0], start=1, end=2)
        groups = make.constant([node.attribute("num_groups")], np.int64)
        (shape,) = make.emit("Concat", groups, *make.emit("Div", *channels, groups), axis=0)
        for place in (1, 2):
            column = make.emit("Unsqueeze", node.inputs[place], make.constant([1], np.int64))
            spread = make.emit("Expand", *column, shape)
            (node.inputs[place],) = make.emit("Reshape", *spread, make.constant([-1], np.int64))

    upgrades = {21: to_channels}
    samples = [
        sample((2, 4, 3, 2), (4,), (4,), num_groups=2),
        sample((3, 4, 5), (4,), (4,), num_groups=4, epsilon=0.1),
        sample((3, 4), (4,), (4,), num_groups=2),
    ]


class LayerNormalization(Operator, since=17):
    """The axes from `axis` on standardized, times scale plus bias (Ba et al., 2016); the mean and 1 / deviation."""

    axis: int = -1
    epsilon: float = 1e-5
    stash_type: int = 1

    def expand(self, x: Array, scale: Array, bias: Array | None = None) -> Sequence[Array]:
        axes = range(p.normalize_axis(self.axis, x.rank), x.rank)
        normal, mean, inverse = standardize(p.widen(x), axes, self.epsilon)
        result = normal * p.cast(scale, normal.dtype)
        if bias is not None:
            result = result + p.cast(bias, normal.dtype)
        stash = dtypes.by_number(self.stash_type) or normal.dtype
        return p.cast(result, x.dtype), p.cast(mean, stash), p.cast(inverse, stash)

    samples = [
        sample((2, 3, 4), (4,), (4,), outputs=3),
        sample((2, 3, 4), (3, 4), (3, 4), axis=1),
        sample((2, 3, 4), (4,), epsilon=0.1, outputs=2),
        sample((2, 3), (2, 3), (3,), axis=-2),
        sample((0, 4), (4,), (4,)),
        sample(1000 + np.arange(4, dtype=np.float32), np.ones(4, np.float32)),
    ]


class RMSNormalization(Operator, since=23):
    """The axes from `axis` on divided by their root mean square, times scale (Zhang and Sennrich, 2019), in the dtype
    of scale."""

    axis: int = -1
    epsilon: float = 1e-5
    stash_type: int = 1

    def expand(self, x: Array, scale: Array) -> Array:
        axes = range(p.normalize_axis(self.axis, x.rank), x.rank)
        wide = p.widen(x)
        inverse = 1.0 / p.sqrt(p.mean(wide * wide, axes, keepdims=True) + self.epsilon)
        return p.cast(wide * inverse * p.cast(scale, wide.dtype), scale.dtype)

    samples = [
        sample((2, 3, 4), (4,)),
        sample((2, 3, 4), (3, 4), axis=1, epsilon=0.1),
        sample((2, 3), np.array([1, 2, -0.5], np.float16), tolerance=1e-3),
        sample(np.array([300, 400], np.float16), np.ones(2, np.float16), tolerance=1e-3),
    ]


class LpNormalization(Operator):
    """x divided by its norm along an axis; 0 where that is 0."""

    axis: int = -1
    p: int = 2

    def expand(self, x: Array) -> Array:
        wide = p.widen(x)
        if self.p == 1:
            norm = p.sum_(p.absolute(wide), [self.axis], keepdims=True)
        elif self.p == 2:
            norm = p.sqrt(p.sum_(wide * wide, [self.axis], keepdims=True))
        else:
            raise ValueError(f"p is {self.p}; use 1 or 2")
        return p.cast(wide / p.where(p.equal(norm, 0.0), 1.0, norm), x.dtype)

    samples = [sample((2, 3, 4)), sample((2, 3), axis=0, p=1), sample(np.array([[0, 0], [3, 4]], np.float32))]


def _axes_of_normalization(node: Node, make: Rewriter) -> list[Value] | None:
    """What normalises across channels has all axes of an image; what leaves the variance is x - mean."""
    across, variance = (node.attributes.pop(name, None) for name in ("across_channels", "normalize_variance"))
    axes = [0, 1, 2, 3] if across is not None and across.value else [0, 2, 3]
    if variance is None or variance.value:
        node.attributes["axes"] = attribute("axes", axes)
        return None
    return make.emit("Sub", node.inputs[0], *make.emit("ReduceMean", node.inputs[0], make.constant(axes)))


class MeanVarianceNormalization(Operator, since=9):
    """(x - mean) / (deviation + 1e-9) along axes."""

    axes: tuple[int, ...] = (0, 2, 3)

    upgrades = {9: _axes_of_normalization}

    def expand(self, x: Array) -> Array:
        wide = p.widen(x)
        centred = wide - p.mean(wide, self.axes, keepdims=True)
        deviation = p.sqrt(p.mean(centred * centred, self.axes, keepdims=True))
        return p.cast(centred / (deviation + 1e-9), x.dtype)

    samples = [sample((2, 3, 2, 2)), sample((3, 4), axes=[1])]


class LRN(Operator):
    """x / (bias + alpha / size * squares of `size` neighbouring channels) ^ beta (Krizhevsky et al., 2012)."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    def expand(self, x: Array) -> Array:
        wide = p.widen(x)
        ones, low = [1] * (x.rank - 1), (self.size - 1) // 2
        before: list[Size] = [low, *[0] * (x.rank - 2)]
        behind: list[Size] = [self.size - 1 - low, *[0] * (x.rank - 2)]
        window = [self.size, *ones[1:]]
        squares = p.reduce_window(wide * wide, "sum", window, ones, ones, before, behind)
        return p.cast(wide * (self.bias + self.alpha / self.size * squares) ** -self.beta, x.dtype)

    samples = [
        sample((2, 5, 3, 2), size=3),
        sample((1, 7, 2, 1), size=3, alpha=0.5, beta=0.5, bias=2.0),
        sample((1, 2, 2, 1), size=5, alpha=0.5),
    ]


_RATIO = to_input("ratio", 1, np.float32, rank=0)


def _has_mask(node: Node) -> bool:
    return len(node.outputs) > 1 and bool(node.outputs[1].name)


def _nothing_dropped(node: Node, make: Rewriter) -> list[Value]:
    """x, mask = Dropout(x) -> x and a mask of False: what was dropped, where there was inference alone."""
    x = node.inputs[0]
    if x is None:
        raise ValueError("there is no input")
    return [x, *make.emit("Expand", make.constant(np.array(False)), *make.emit("Shape", x))]


def _mask_of_numbers(node: Node, make: Rewriter) -> list[Value] | None:
    """The mask had the type of x."""
    if not _has_mask(node):
        return None
    x, mask = _nothing_dropped(node, make)
    return [x, *make.emit("CastLike", mask, x)]


def _ratio_to_input(node: Node, make: Rewriter) -> list[Value] | None:
    if _has_mask(node):
        return _nothing_dropped(node, make)
    _RATIO(node, make)
    return None


def _without_mask(node: Node) -> bool:
    return not _has_mask(node)


def _only_inference(node: Node) -> bool:
    training = constant_array(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(1)
    if training is None or training.any() or _has_mask(node):
        return False
    node.attributes.pop("seed", None)
    node.inputs = node.inputs[:2]
    return _RATIO.lower(node)


class Dropout(Operator):
    """What it is given at inference; in training elements are dropped with probability `ratio`, the others scaled up.

    With a `seed` the elements are those that ONNX's own cases drop.
    """

    seed: int | None = None

    def expand(self, x: Array, ratio: Array | None = None, training_mode: Array | None = None) -> Sequence[Array]:
        idle = training_mode is None or (training_mode.value is not None and not training_mode.value.any())
        nothing = ratio is not None and ratio.value is not None and not ratio.value.any()
        if idle or nothing:
            return x, p.full(x.shape, True, dtypes.bool_)
        wide = p.widen(x)
        share = p.literal(0.5, wide.dtype) if ratio is None else p.cast(p.reshape(ratio, ()), wide.dtype)
        if training_mode is not None and training_mode.value is None:
            share = p.where(p.reshape(training_mode, ()), share, 0)
        mask = p.cast(self._draws(x.shape), share.dtype) >= share
        return p.cast(p.where(mask, wide / (1 - share), 0), x.dtype), mask

    def _draws(self, shape: Shape) -> Array:
        if self.seed is None:
            return p.random_uniform(p.random_key(None), shape, dtypes.float32)
        return p.host("random.reference", p.sizes(shape), results=[(dtypes.float64, shape)], seed=self.seed)[0]

    upgrades = {7: without("is_test"), 10: _mask_of_numbers, 12: _ratio_to_input}
    downgrades = {10: _without_mask, 12: _only_inference}
    samples = [sample((3, 4), outputs=2), sample((3, 4), np.array(0.25, np.float32), np.array(False))]
