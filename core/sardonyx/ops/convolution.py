"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.sliding import Border, Sliding, reach
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size, maximum, product


class Conv(Sliding):
    """Cross-correlation of x [N, C, *spatial] with w [M, C / group, *kernel], plus a bias [M]."""

    kernel_shape: tuple[int, ...] | None = None
    group: int = 1

    def expand(self, x: Array, w: Array, b: Array | None = None) -> Array:
        taps = [size if isinstance(size, int) else 0 for size in w.shape[2:]]
        if self.kernel_shape is not None and any(size not in (0, k) for size, k in zip(taps, self.kernel_shape)):
            raise ValueError(f"kernel_shape {list(self.kernel_shape)} is not that of w {p.show(w.shape)}")
        low, high = self.border(x, w.shape[2:])
        strides, dilations = self.steps(x.rank - 2)
        return with_bias(p.conv_general(x, w, strides, dilations, low, high, self.group), b)

    samples = [
        sample((1, 2, 5, 5), (3, 2, 3, 3), (3,)),
        sample((2, 2, 5, 4), (3, 2, 3, 3), pads=[1, 0, 2, 1], strides=[2, 1]),
        sample((1, 4, 6, 5), (4, 2, 3, 2), (4,), group=2, dilations=[2, 1]),
        sample((1, 3, 5, 5), (6, 1, 3, 3), (6,), group=3, pads=[1, 1, 1, 1]),
        sample((1, 3, 4, 4), (5, 3, 1, 1)),
        sample((1, 3, 5, 4), (5, 3, 1, 1), strides=[2, 3]),
        sample((1, 2, 9), (3, 2, 4), (3,), auto_pad="SAME_UPPER", strides=[2]),
        sample((1, 2, 6, 5), (1, 2, 2, 4), auto_pad="SAME_LOWER"),
        sample((1, 2, 6, 5), (1, 2, 2, 4), auto_pad="VALID", strides=[1, 2]),
        sample((1, 2, 4, 3, 4), (2, 2, 2, 2, 3), (2,), pads=[1, 0, 1, 0, 1, 1]),
        sample((0, 2, 5), (3, 2, 3)),
    ]


def with_bias(y: Array, bias: Array | None) -> Array:
    """y [N, M, *spatial] plus a bias [M]."""
    if bias is not None and (bias.rank != 1 or bias.shape[0] != y.shape[1]):
        raise ValueError(f"the bias {p.show(bias.shape)} is not one number for each of {y.shape[1]} channels")
    return y if bias is None else y + p.reshape(bias, (1, bias.shape[0], *[1] * (y.rank - 2)))


class ConvTranspose(Sliding):
    """The transpose (the gradient) of a convolution: x [N, C, *spatial], w [C, M / group, *kernel], bias [M]."""

    kernel_shape: tuple[int, ...] | None = None
    group: int = 1
    output_padding: tuple[int, ...] | None = None
    output_shape: tuple[int, ...] | None = None

    def expand(self, x: Array, w: Array, b: Array | None = None) -> Array:
        rank = x.rank - 2
        strides, dilations = self.steps(rank)
        low, high = self._cut(x, w.shape[2:])
        groups, outputs = self.group, w.shape[1]
        flipped = p.flip(p.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:])), range(3, 3 + rank))
        kernel = p.transpose(flipped, [0, 2, 1, *range(3, 3 + rank)])
        kernel = p.reshape(kernel, (groups * outputs, w.shape[0] // groups, *w.shape[2:]))
        widths = [reach(window, dilation) - 1 for window, dilation in zip(w.shape[2:], dilations, strict=True)]
        y = p.conv_general(
            x,
            kernel,
            [1] * rank,
            dilations,
            [width - cut for width, cut in zip(widths, low, strict=True)],
            [width - cut for width, cut in zip(widths, high, strict=True)],
            groups,
            spread=strides,
        )
        return with_bias(y, b)

    def _cut(self, x: Array, kernel: Sequence[Size]) -> Border:
        """The widths cut off the full result below and above; a negative width above adds zeros."""
        strides, dilations = self.steps(x.rank - 2)
        extra = self.output_padding or (0,) * len(kernel)
        full = [
            (size - 1) * stride + reach(window, dilation)
            for size, stride, window, dilation in zip(x.shape[2:], strides, kernel, dilations, strict=True)
        ]
        if self.output_shape:
            wanted: list[Size] = list(self.output_shape[-len(kernel) :])
        elif self.auto_pad in ("NOTSET", "VALID"):
            low, high = self.border(x, kernel)
            return low, [width - more for width, more in zip(high, extra, strict=True)]
        else:
            wanted = [size * stride for size, stride in zip(x.shape[2:], strides, strict=True)]
        low, _ = self.shared([maximum(a + more - b, 0) for a, more, b in zip(full, extra, wanted, strict=True)])
        return low, [a - b - cut for a, b, cut in zip(full, wanted, low, strict=True)]

    samples = [
        sample((1, 2, 3, 3), (2, 3, 3, 3), (3,)),
        sample((1, 2, 3, 4), (2, 3, 3, 2), strides=[2, 3], pads=[1, 0, 1, 1], output_padding=[1, 2]),
        sample((1, 4, 3, 3), (4, 2, 2, 2), (4,), group=2, strides=[2, 2]),
        sample((1, 2, 3, 3), (2, 2, 2, 2), dilations=[2, 3]),
        sample((1, 1, 3, 3), (1, 2, 3, 3), strides=[3, 2], output_shape=[10, 8]),
        sample((1, 1, 3, 3), (1, 2, 3, 3), strides=[3, 2], output_shape=[8, 6]),
        sample((1, 1, 3, 3), (1, 2, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
        sample((1, 1, 3, 3), (1, 2, 4, 3), strides=[1, 2], auto_pad="SAME_LOWER"),
        sample((1, 2, 5), (2, 3, 3), (3,), strides=[2], pads=[2, 2]),
        sample((1, 1, 2, 3, 2), (1, 2, 2, 2, 3), strides=[2, 1, 2]),
    ]


class ConvInteger(Sliding, since=10):
    """Convolution of 8-bit integers, less their zero points, in int32; the border of x holds its zero point."""

    kernel_shape: tuple[int, ...] | None = None
    group: int = 1

    def expand(self, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None) -> Array:
        low, high = self.border(x, w.shape[2:])
        strides, dilations = self.steps(x.rank - 2)
        x, w = _centred(x, x_zero), _centred(w, w_zero)
        return p.conv_general(x, w, strides, dilations, low, high, self.group)

    samples = [
        sample(
            np.arange(2, 11, dtype=np.uint8).reshape(1, 1, 3, 3),
            np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2),
            np.array(1, np.uint8),
        ),
        sample(
            np.arange(18, dtype=np.uint8).reshape(1, 2, 3, 3),
            np.arange(16, dtype=np.uint8).reshape(2, 2, 2, 2),
            np.array(3, np.uint8),
            np.array(2, np.uint8),
            pads=[1, 1, 1, 1],
        ),
    ]


def _centred(x: Array, zero: Array | None) -> Array:
    wide = p.cast(x, dtypes.int32)
    if zero is None:
        return wide
    zero = p.cast(zero, dtypes.int32)
    return wide - (p.reshape(zero, (zero.shape[0], *[1] * (x.rank - 1))) if zero.rank else zero)


class Col2Im(Operator, since=18):
    """Blocks x [N, C * prod(block), count] added up to the images [N, C, *image_shape] that they were cut from."""

    strides: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None

    def expand(self, x: Array, image_shape: Array, block_shape: Array) -> Array:
        if x.dtype is dtypes.bool_:
            return p.cast(self.expand(p.cast(x, dtypes.int32), image_shape, block_shape), dtypes.bool_)
        image, block = known_sizes(image_shape), known_sizes(block_shape)
        rank = len(image)
        ones = (1,) * rank
        strides, dilations, pads = self.strides or ones, self.dilations or ones, self.pads or (0,) * (2 * rank)
        counts = list(map(p.windows, image, block, strides, dilations, pads[:rank], pads[rank:]))
        shape = [*block, *counts]
        places = [_line(shape, k) * dilations[k] + _line(shape, rank + k) * strides[k] - pads[k] for k in range(rank)]
        n, channels = x.shape[0], x.shape[1] // product(block)
        parts = p.transpose(p.reshape(x, (n, channels, *shape)), [*range(2, 2 + 2 * rank), 0, 1])
        empty = p.full((n, channels, *image), 0, x.dtype)
        return p.scatter(empty, parts, places, range(2, 2 + rank), "add")

    samples = [
        sample((1, 5, 5), np.array([5, 5]), np.array([1, 5])),
        sample((2, 8, 4), np.array([3, 3]), np.array([2, 2])),
        sample((1, 4, 8), np.array([4, 5]), np.array([2, 2]), strides=[2, 1], pads=[0, 1, 0, 1], dilations=[1, 3]),
    ]


def _line(shape: Sequence[Size], axis: int) -> Array:
    """Places along one axis, as an operand that broadcasts to the shape."""
    return p.iota([size if k == axis else 1 for k, size in enumerate(shape)], axis)
