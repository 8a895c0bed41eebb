"""Pools: what lies under a window, or in all of an image, combined into one number."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Node
from sardonyx.model.ir.build import attribute
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.ops.sliding import Sliding, ceil_border, reach, whole_border
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import product, same


class Pool(Sliding, abstract=True):
    """A window of `kernel_shape` that slides over the spatial axes."""

    kernel_shape: tuple[int, ...]
    ceil_mode: int = 0

    def windows(self, x: Array) -> dict[str, Any]:
        """The parameters of `primitives.reduce_window`."""
        strides, dilations = self.steps(x.rank - 2)
        low, high = self.border(x, self.kernel_shape)
        spans = map(reach, self.kernel_shape, dilations)
        widen = ceil_border if self.ceil_mode else whole_border
        high = [widen(*axis) for axis in zip(x.shape[2:], spans, strides, low, high, strict=True)]
        return {"window": self.kernel_shape, "strides": strides, "dilations": dilations, "low": low, "high": high}


class MaxPool(Pool):
    """The largest element under each window and, if asked for, where it is among all elements of x."""

    storage_order: int = 0

    def expand(self, x: Array) -> Array | tuple[Array, Array]:
        windows = self.windows(x)
        largest = p.reduce_window(x, "max", **windows)
        return largest if self.outputs < 2 else (largest, self._places(x, windows))

    def _places(self, x: Array, windows: dict[str, Any]) -> Array:
        """int64: the flat index of the largest element, found from its place in the window; with `storage_order` 1
        the spatial axes are counted in column-major order."""
        inside = p.reduce_window(x, "argmax", **windows)
        rank = x.rank - 2
        places: list[Array] = []
        for k in reversed(range(rank)):
            start = p.iota([inside.shape[2 + k] if axis == k else 1 for axis in range(rank)], k)
            low, dilation = windows["low"][k], windows["dilations"][k]
            start = start * windows["strides"][k] - low
            place = start + inside % self.kernel_shape[k] * dilation
            if not same(low, 0):  # where all elements are the lowest of their type, that of the padding came first
                place = p.where(place < 0, start + (dilation - 1 - start) / dilation * dilation, place)
            places.insert(0, place)
            inside = inside / self.kernel_shape[k]
        n, channels = x.shape[:2]
        flat = p.reshape(p.iota((n * channels,), 0), (n, channels, *[1] * rank))
        for k in reversed(range(rank)) if self.storage_order else range(rank):
            flat = flat * x.shape[2 + k] + places[k]
        return flat

    samples = [
        sample((1, 2, 5, 5), kernel_shape=[3, 3]),
        sample((1, 2, 5, 6), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], outputs=2),
        sample((2, 1, 6, 6), kernel_shape=[2, 3], dilations=[2, 1], strides=[1, 2], outputs=2, storage_order=1),
        sample((1, 1, 4, 4), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        sample((1, 1, 4, 4), kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        sample((1, 1, 5, 5), kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER", outputs=2),
        sample((1, 1, 5, 4), kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
        sample((1, 2, 7), kernel_shape=[3], strides=[2], outputs=2),
        sample((1, 1, 3, 4, 3), kernel_shape=[2, 2, 2], outputs=2),
        sample(np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4) * 11 % 17, kernel_shape=[2, 2], strides=[2, 2]),
        sample(np.zeros((1, 1, 3, 3), np.float32), kernel_shape=[2, 2], outputs=2),
        sample(np.zeros((1, 1, 3, 4), np.uint8), kernel_shape=[2, 3], pads=[1, 2, 1, 0], outputs=2),
        sample(
            np.full((1, 1, 4, 5), -128, np.int8),
            kernel_shape=[2, 3],
            pads=[1, 2, 1, 2],
            dilations=[2, 2],
            strides=[1, 2],
            outputs=2,
        ),
    ]


class MaxUnpool(Operator, since=9):
    """Zeros but for the elements of x, which go where MaxPool found them; `output_shape` may add zeros at the ends.

    What a MaxPool node found are places in the tensor that it pooled, whose shape `output_shape` is then, as
    onnxruntime has it. Other indices are places in the shape that x tells, as ONNX has it.
    """

    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def expand(self, x: Array, indices: Array, output_shape: Array | None = None) -> Array:
        rank = x.rank - 2
        pads, strides = self.pads or (0,) * (2 * rank), self.strides or (1,) * rank
        spatial = [
            (size - 1) * stride + window - low - high
            for size, stride, window, low, high in zip(
                x.shape[2:], strides, self.kernel_shape, pads[:rank], pads[rank:], strict=True
            )
        ]
        inferred = (*x.shape[:2], *spatial)
        asked = inferred if output_shape is None else tuple(known_sizes(output_shape))
        shape = asked if self._is_of_pool() else inferred
        flat = p.full((product(shape),), 0, x.dtype)
        places = p.reshape(indices, (indices.size,))
        result = p.reshape(p.scatter(flat, p.reshape(x, (x.size,)), [places], [0]), shape)
        if shape is asked:
            return result
        return p.pad(result, [0] * x.rank, [b - a for a, b in zip(shape, asked, strict=True)])

    def _is_of_pool(self) -> bool:
        indices = self.node.inputs[1]
        producer = None if indices is None else indices.producer
        return producer is not None and producer.op_type == "MaxPool"

    samples = [
        sample((1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2], strides=[2, 2]),
        sample((1, 2, 2), np.array([[[0, 3], [4, 7]]]), np.array([1, 2, 5]), kernel_shape=[2], strides=[2]),
    ]


class AveragePool(Pool):
    """The mean under each window, of which the border is no part unless `count_include_pad`."""

    count_include_pad: int = 0
    counts_all = False
    """Whether `count_include_pad` counts what `ceil_mode` adds, too."""

    def expand(self, x: Array) -> Array:
        windows = self.windows(x)
        total = p.reduce_window(p.widen(x), "sum", **windows)
        return p.cast(total / self._counts(x, windows), x.dtype)

    def _counts(self, x: Array, windows: dict[str, Any]) -> Array | int:
        """How many elements each window has."""
        low, high = self.border(x, self.kernel_shape)
        bordered = any(not (isinstance(width, int) and width == 0) for width in (*low, *windows["high"]))
        if not bordered or (self.count_include_pad and (self.counts_all or not self.ceil_mode)):
            return prod(self.kernel_shape)
        total: Array | int = 1
        for k, size in enumerate(x.shape[2:]):
            before, after = windows["low"][k], windows["high"][k]
            if self.count_include_pad:
                size, before, after = size + low[k] + high[k], 0, after - high[k]
            dtype = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
            ones = constant(np.ones(size), dtype) if isinstance(size, int) else p.full((size,), 1, dtype)
            steps = {name: [windows[name][k]] for name in ("window", "strides", "dilations")}
            axis = p.reduce_window(ones, "sum", **steps, low=[before], high=[after])
            total = p.reshape(axis, (*axis.shape, *[1] * (x.rank - 3 - k))) * total
        return total

    samples = [
        sample((1, 2, 5, 5), kernel_shape=[3, 3]),
        sample((1, 2, 5, 5), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        sample((1, 2, 5, 6), kernel_shape=[3, 2], pads=[2, 0, 1, 1], strides=[2, 1], count_include_pad=1),
        sample((1, 1, 4, 4), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        sample((1, 1, 4, 4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1),
        sample((1, 1, 6, 6), kernel_shape=[2, 2], dilations=[2, 3], pads=[1, 1, 1, 1]),
        sample((1, 1, 5, 4), kernel_shape=[2, 3], auto_pad="SAME_UPPER"),
        sample((1, 1, 5, 4), kernel_shape=[2, 3], auto_pad="SAME_LOWER", strides=[2, 2]),
        sample((1, 2, 7), kernel_shape=[3], strides=[2]),
        sample((1, 1, 3, 4, 3), kernel_shape=[2, 2, 2], pads=[0, 1, 0, 0, 0, 1]),
    ]


def _whole_p(node: Node, make: Rewriter) -> None:
    """The exponent as an integer; it once was a float."""
    node.attributes["p"] = attribute("p", int(node.attribute("p", 2)))


class LpPool(Pool):
    """The p-norm of what lies under each window."""

    p: int = 2

    def expand(self, x: Array) -> Array:
        total = p.reduce_window(_power(p.widen(x), self.p), "sum", **self.windows(x))
        return p.cast(_root(total, self.p), x.dtype)

    upgrades = {2: _whole_p}

    samples = [
        sample((1, 2, 5, 5), kernel_shape=[3, 3]),
        sample((1, 2, 5, 6), kernel_shape=[2, 3], p=1, strides=[2, 1]),
        sample((1, 1, 5, 5), kernel_shape=[2, 2], p=3, dilations=[2, 1]),
        sample((1, 1, 5), kernel_shape=[3], p=4),
    ]


class GlobalAveragePool(Operator):
    """The mean over all spatial axes."""

    def expand(self, x: Array) -> Array:
        return p.cast(p.mean(p.widen(x), range(2, x.rank), keepdims=True), x.dtype)

    samples = [sample((2, 3, 4, 5)), sample((1, 2, 3)), sample((1, 2, 2, 2, 3)), sample((0, 2, 3))]


class GlobalMaxPool(Operator):
    """The largest element over all spatial axes."""

    def expand(self, x: Array) -> Array:
        return p.max_(x, range(2, x.rank), keepdims=True)

    samples = [sample((2, 3, 4, 5)), sample((1, 2, 3)), sample((1, 2, 2, 2, 3))]


class GlobalLpPool(Operator):
    """The p-norm over all spatial axes."""

    p: int = 2

    def expand(self, x: Array) -> Array:
        total = p.sum_(_power(p.widen(x), self.p), range(2, x.rank), keepdims=True)
        return p.cast(_root(total, self.p), x.dtype)

    upgrades = {2: _whole_p}

    samples = [sample((2, 3, 4, 5)), sample((1, 2, 3), p=1), sample((1, 2, 3), p=3)]


def _power(x: Array, exponent: int) -> Array:
    if exponent == 2:
        return x * x
    return p.absolute(x) if exponent == 1 else p.absolute(x) ** exponent


def _root(x: Array, exponent: int) -> Array:
    if exponent == 2:
        return p.sqrt(x)
    return x if exponent == 1 else x ** (1.0 / exponent)
