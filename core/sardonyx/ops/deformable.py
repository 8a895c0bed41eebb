"""Convolutions whose windows the data bend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from sardonyx import primitives as p
from sardonyx.common.dtypes import DType
from sardonyx.ops.bilinear import neighbours
from sardonyx.ops.convolution import with_bias
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size, product


class DeformConv(Operator, since=19):
    """Convolution of x [N, C, *spatial] with w [M, C / group, *kernel] whose windows are shifted, element by element,
    by offset [N, offset_group * kernel * axes, *out], and weighted by mask [N, offset_group * kernel, *out]
    (Zhu et al., 2018)."""

    strides: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...] | None = None
    group: int = 1
    offset_group: int = 1

    def expand(self, x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None) -> Array:
        kernel, out, deformed = w.shape[2:], offset.shape[2:], self.offset_group
        rank, taps = len(kernel), product(kernel)
        images, inputs = x.shape[0] * deformed, x.shape[1]
        shifts = p.reshape(p.widen(offset), (images, taps, rank, *out))
        places = [
            self._windows(kernel, out, k, shifts.dtype) + p.squeeze(p.slice_axis(shifts, 2, k, 1), [2])
            for k in range(rank)
        ]
        grouped = p.reshape(p.widen(x), (images, inputs // deformed, *x.shape[2:]))
        image = p.iota((images, *[1] * (rank + 1)), 0)
        columns = reduce(Array.__add__, neighbours(grouped, image, places))
        if mask is not None:
            columns = columns * p.reshape(p.widen(mask), (images, taps, *out, 1))
        columns = p.transpose(columns, [0, rank + 2, *range(1, rank + 2)])
        columns = p.reshape(columns, (x.shape[0], self.group, inputs // self.group * taps, *out))
        weights = p.reshape(p.widen(w), (self.group, w.shape[0] // self.group, w.shape[1] * taps))
        result = p.reshape(p.dot_general(weights, columns, ([2], [2]), ([0], [1])), (w.shape[0], x.shape[0], *out))
        result = p.transpose(result, [1, 0, *range(2, rank + 2)])
        return p.cast(with_bias(result, None if bias is None else p.widen(bias)), x.dtype)

    def _windows(self, kernel: Sequence[Size], out: Sequence[Size], axis: int, dtype: DType) -> Array:
        """Where the elements of all windows are along a spatial axis, unless they are shifted: [1, elements, *out]."""
        ones = [1] * len(kernel)
        strides, dilations, pads = self.strides or ones, self.dilations or ones, self.pads or [0] * len(kernel)
        inside = p.reshape(p.iota(kernel, axis, dtype), (product(kernel), *ones)) * dilations[axis]
        start = p.iota((*ones[:axis], out[axis], *ones[axis + 1 :]), axis, dtype) * strides[axis]
        return p.unsqueeze(inside + start - pads[axis], [0])

    samples = [
        sample((1, 1, 3, 3), (1, 1, 2, 2), (1, 8, 4, 4), pads=[1, 1, 1, 1]),
        sample((2, 4, 5, 4), (6, 2, 3, 2), (2, 24, 3, 3), (6,), (2, 12, 3, 3), group=2, offset_group=2),
        sample((1, 2, 7, 6), (3, 2, 2, 3), (1, 12, 3, 2), strides=[2, 3], dilations=[3, 1], pads=[1, 0, 0, 1]),
        sample((1, 1, 3, 3), (1, 1, 2, 2), np.zeros((1, 8, 2, 2), np.float32), None, (1, 4, 2, 2)),
    ]
