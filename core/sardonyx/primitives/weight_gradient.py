"""The primitive that correlates images with what a convolution made of them: the gradient of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx.host import products
from sardonyx.host.products import narrowed, work_type
from sardonyx.host.windows import bordered
from sardonyx.primitives.array import Array, Primitive, Shape, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.contraction import dot_general
from sardonyx.primitives.elementwise import Types, Values, cast, native
from sardonyx.primitives.movement import concat, pad, reshape, slice_, transpose, unsqueeze
from sardonyx.primitives.reduction import sum_
from sardonyx.sizes.symbolic import Size, hint, maximum, same

MOST_COLUMNS = 1 << 24
"""Elements that `expand` puts side by side, to multiply them at once."""


class ConvWeights(Primitive):
    """The sums of products of x [N, C, *spatial] and y [N, M, *places] that lie `kernel` taps apart: [M, C / groups,
    *kernel], the derivative of the sum of conv_general(x, w) * y by w. Tap t of place p meets element
    p * strides + t * dilations - low of x; what is beyond its border counts as 0."""

    name = "conv_weights"

    def infer(self, x: Array, y: Array, kernel: Shape, strides: Any, dilations: Any, low: Any, groups: int) -> Types:
        return [(x.dtype, (y.shape[1], x.shape[1] // groups, *kernel))]

    def numpy(
        self, x: np.ndarray, y: np.ndarray, kernel: Any, strides: Any, dilations: Any, low: Any, groups: int
    ) -> Values:
        images, places, taps = len(x), y.shape[2:], [int(size) for size in kernel]
        work = work_type(x, y, images * prod(places), x.dtype)
        high = _behind(x.shape[2:], places, taps, strides, dilations, low)
        wide = bordered(x.astype(work, copy=False), low, high)
        inner = [step * dilation for step, dilation in zip(wide.strides[2:], dilations, strict=True)]
        outer = [step * stride for step, stride in zip(wide.strides[2:], strides, strict=True)]
        seen = np.lib.stride_tricks.as_strided(
            wide, (*wide.shape[:2], *taps, *places), (*wide.strides[:2], *inner, *outer), writeable=False
        )
        channels, maps = x.shape[1] // groups, y.shape[1] // groups
        total = np.zeros((groups, maps, channels * prod(taps)), work)
        with np.errstate(all="ignore"):
            for image, own in zip(seen, y.astype(work, copy=False), strict=True):
                columns = image.reshape(groups, channels * prod(taps), prod(places))
                total += products.matmul(own.reshape(groups, maps, prod(places)), columns.swapaxes(1, 2))
        return [narrowed(total.reshape(y.shape[1], channels, *taps), x.dtype)]

    def expand(
        self, x: Array, y: Array, kernel: Shape, strides: Any, dilations: Any, low: Any, groups: int
    ) -> Sequence[Array]:
        """A product of y and what the taps see: of each image where it has more places than the weights have channels,
        else of all images together. Where each channel is a group, it is a sum for each tap."""
        rank, taps = x.rank - 2, [int(size) for size in kernel]
        high = _behind(x.shape[2:], y.shape[2:], taps, strides, dilations, low)
        wide = _bordered(x, low, high)
        images, channels, maps = x.shape[0], x.shape[1] // groups, y.shape[1] // groups
        seen = [
            slice_(
                wide,
                [0, 0, *(k * step for k, step in zip(tap, dilations, strict=True))],
                [*x.shape[:2], *y.shape[2:]],
                [1, 1, *strides],
            )
            for tap in np.ndindex(*taps)
        ]
        if same(channels, 1) and same(maps, 1):
            sums = [unsqueeze(sum_(y * part, [0, *range(2, x.rank)]), [1]) for part in seen]
            return [reshape(concat(sums, 1), (groups, 1, *taps))]
        own = reshape(y, (images, groups, maps, *y.shape[2:]))
        seen = [reshape(part, (images, groups, channels, *y.shape[2:])) for part in seen]
        alone = hint(channels * maps) < hint(prod(y.shape[2:]))
        batch = [0, 1] if alone else [1]
        along = [axis for axis in (0, *range(3, 3 + rank)) if axis not in batch]

        def product(columns: Array) -> Array:
            """[groups, maps, taps or none, channels]."""
            first = columns.rank - own.rank
            over = [axis + first if axis > 1 else axis for axis in along]
            found = dot_general(own, columns, (along, over), (batch, batch))
            return sum_(found, [0]) if alone else found

        if hint(x.size) * prod(taps) <= MOST_COLUMNS:
            found = product(concat([unsqueeze(part, [2]) for part in seen], 2))
        else:
            found = concat([unsqueeze(product(part), [2]) for part in seen], 2)
        ordered = transpose(found, [0, 1, 3, 2])
        return [reshape(ordered, (y.shape[1], channels, *taps))]


def _behind(sizes: Shape, places: Shape, kernel: Any, strides: Any, dilations: Any, low: Any) -> list[Size]:
    """The widths of the border behind, negative where the last elements are not met."""
    lines = zip(sizes, places, kernel, strides, dilations, low, strict=True)
    return [(p - 1) * stride + (n - 1) * dilation + 1 - before - size for size, p, n, stride, dilation, before in lines]


def _bordered(x: Array, low: Sequence[Size], high: Sequence[Size]) -> Array:
    """x with zeros around it, cut where a width is negative."""
    padded = pad(x, [0, 0, *(maximum(width, 0) for width in low)], [0, 0, *(maximum(width, 0) for width in high)])
    sizes = [size + before + after for size, before, after in zip(x.shape[2:], low, high, strict=True)]
    return slice_(padded, [0, 0, *(maximum(-width, 0) for width in low)], [*x.shape[:2], *sizes])


CONV_WEIGHTS = primitive(ConvWeights)


def conv_weights(
    x: Array,
    y: Array,
    kernel: Sequence[Size],
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[Size],
    groups: int = 1,
) -> Array:
    """What `ConvWeights` says, of the dtype of x."""
    wide = native(x)
    found = bind(
        CONV_WEIGHTS,
        wide,
        cast(y, wide.dtype),
        kernel=tuple(kernel),
        strides=tuple(strides),
        dilations=tuple(dilations),
        low=tuple(low),
        groups=groups,
    )[0]
    return cast(found, x.dtype)
