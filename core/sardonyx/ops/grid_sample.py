"""Sampling images at places that another tensor gives."""

from __future__ import annotations

import operator
from functools import reduce
from itertools import product
from typing import TypeAlias

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Node
from sardonyx.model.ir.build import attribute
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size

MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""What operator set 20 calls the modes of operator set 16."""

Tap: TypeAlias = tuple[Array, Array | None, Array | None]
"""An index, its weight, None for 1, and where it is in the image, None for everywhere."""

CUBIC = -0.75
"""The parameter of Keys' cubic convolution (1981), as PyTorch has it."""


def _rename_mode(node: Node, make: Rewriter) -> None:
    """mode=bilinear -> mode=linear."""
    mode = node.attribute("mode", "linear")
    node.attributes["mode"] = attribute("mode", MODES.get(mode, mode))


def _older_mode(node: Node) -> bool:
    mode = node.attribute("mode", "linear")
    older = next((old for old, new in MODES.items() if new == mode), mode)
    node.attributes["mode"] = attribute("mode", older)
    return True


class GridSample(Operator, since=16):
    """x [N, C, *spatial] at the places of grid [N, *out, rank], which run from -1 to 1 and name the last axis first."""

    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: int = 0

    def expand(self, x: Array, grid: Array) -> Array:
        sizes = x.shape[2:]
        if not grid.shape[-1] == len(sizes):
            raise ValueError(f"grid {p.show(grid.shape)} names places in {grid.shape[-1]} axes, x has {len(sizes)}")
        places = [p.squeeze(p.slice_axis(grid, -1, k, 1), [-1]) for k in reversed(range(len(sizes)))]
        axes = [self._taps(p.cast(place, _work(x)), size) for place, size in zip(places, sizes, strict=True)]
        batch = p.iota((x.shape[0], *[1] * len(sizes)), 0)
        total: Array | None = None
        for taps in product(*axes):
            part = p.gather(x, [batch, *(index for index, _, _ in taps)], [0, *range(2, x.rank)])
            masks = [mask for _, _, mask in taps if mask is not None]
            if masks:
                part = p.where(p.unsqueeze(reduce(operator.and_, masks), [-1]), part, p.literal(0, part.dtype))
            for _, weight, _ in taps:
                if weight is not None:
                    part = p.cast(part, weight.dtype) * p.unsqueeze(weight, [-1])
            total = part if total is None else total + part
        assert total is not None
        return p.cast(p.transpose(total, [0, x.rank - 1, *range(1, x.rank - 1)]), x.dtype)

    def _taps(self, place: Array, size: Size) -> list[Tap]:
        """The elements of an axis that count at each place."""
        place = (place + 1) / 2 * (size - 1) if self.align_corners else ((place + 1) * size - 1) / 2
        if self.mode == "nearest":
            place = p.round_even(place)
        if self.mode != "cubic":
            place = self._inside(place, size)
        if self.mode == "nearest":
            return [self._element(place, None, size)]
        base = p.floor(place)
        offsets = {"linear": (0, 1), "cubic": (-1, 0, 1, 2)}.get(self.mode)
        if offsets is None:
            raise ValueError(f"mode {self.mode!r} is unknown; use linear, nearest or cubic")
        return [self._element(base + k, self._weight(p.absolute(base + k - place)), size) for k in offsets]

    def _weight(self, distance: Array) -> Array:
        """How much an element at this distance counts."""
        if self.mode == "linear":
            return -distance + 1
        near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance * distance + 1
        far = ((CUBIC * distance - 5 * CUBIC) * distance + 8 * CUBIC) * distance - 4 * CUBIC
        return p.where(distance <= 1, near, far)

    def _inside(self, place: Array, size: Size) -> Array:
        """A place beyond the borders brought back, unless there are zeros."""
        if self.padding_mode == "zeros":
            return place
        low = 0.0 if self.align_corners else -0.5
        outside = (place < low) | (place + low > size - 1)
        if self.padding_mode == "border":
            return p.where(outside, p.minimum(p.maximum(place, 0), size - 1), place)
        if self.padding_mode == "reflection":
            return p.where(outside, self._reflected(place, size), place)
        raise ValueError(f"padding_mode {self.padding_mode!r} is unknown; use zeros, border or reflection")

    def _reflected(self, place: Array, size: Size) -> Array:
        """A place mirrored at the borders, as often as it takes."""
        low, span = (0.0, size - 1) if self.align_corners else (-0.5, size)
        beyond = p.absolute(place - low) % (span * 2 if span != 0 else 1)
        return p.minimum(beyond, -beyond + span * 2) + low

    def _element(self, place: Array, weight: Array | None, size: Size) -> Tap:
        """The element at a whole place, with its weight; what lies outside is zero, or the border, or a reflection."""
        mask = None
        if self.padding_mode == "zeros":
            mask = (place >= 0) & (place <= size - 1)
        else:
            place = self._inside(place, size)
        return p.cast(p.minimum(p.maximum(place, 0), size - 1), dtypes.int64), weight, mask

    upgrades = {20: _rename_mode}
    downgrades = {20: _older_mode}

    samples = [
        sample((1, 2, 3, 4), (1, 2, 5, 2)),
        sample((2, 1, 3, 4), (2, 2, 3, 2), align_corners=1, padding_mode="border"),
        sample((1, 1, 3, 4), np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 2, 3, 2), padding_mode="reflection"),
        sample((1, 1, 4, 4), (1, 2, 3, 2), mode="nearest"),
        sample((1, 1, 4, 4), (1, 2, 3, 2), mode="nearest", align_corners=1, padding_mode="reflection"),
        sample((1, 2, 4, 5), (1, 2, 3, 2), mode="cubic"),
        sample((1, 1, 4, 5), (1, 2, 3, 2), mode="cubic", align_corners=1, padding_mode="reflection"),
        sample(
            (1, 1, 4, 5),
            np.linspace(-0.9, 0.9, 12, dtype=np.float32).reshape(1, 2, 3, 2),
            mode="cubic",
            padding_mode="border",
        ),
        sample((1, 1, 3, 2, 4), (1, 2, 2, 3, 3)),
        sample(
            np.array([np.inf, 1, np.nan, -np.inf], np.float32).reshape(1, 1, 2, 2),
            np.array([-9, -9, 9, 9, 0.5, -7, 9, -9], np.float32).reshape(1, 2, 2, 2),
            mode="nearest",
        ),
        sample(
            np.array([np.inf, 1, np.nan, -np.inf], np.float32).reshape(1, 1, 2, 2),
            np.array([-9, -9, 9, 9, 0.5, -7, 9, -9], np.float32).reshape(1, 2, 2, 2),
        ),
    ]


def _work(x: Array) -> DType:
    """The type to compute coordinates and weights in."""
    return dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32


class AffineGrid(Operator, since=20):
    """The places [N, *spatial, rank] for GridSample at which an affine map theta [N, rank, rank + 1] finds an image of
    this size (N, C, *spatial)."""

    align_corners: int = 0

    def expand(self, theta: Array, size: Array) -> Array:
        spatial = known_sizes(size)[2:]
        rank = len(spatial)
        dtype, theta = theta.dtype, p.widen(theta)
        total = self._column(theta, rank, rank)
        for axis, length in enumerate(spatial):
            shape = [length if k == axis else 1 for k in range(rank)]
            place = p.iota((1, *shape, 1), 1 + axis, theta.dtype) * 2
            is_aligned = self.align_corners and length != 1  # one alone is in the middle, as PyTorch has it
            place = place / (length - 1) - 1 if is_aligned else (place + 1) / length - 1
            total = total + place * self._column(theta, rank - 1 - axis, rank)
        return p.cast(total, dtype)

    @staticmethod
    def _column(theta: Array, column: int, rank: int) -> Array:
        return p.reshape(p.slice_axis(theta, 2, column, 1), (theta.shape[0], *[1] * rank, rank))

    samples = [
        sample((2, 2, 3), np.array([2, 1, 3, 4])),
        sample((1, 2, 3), np.array([1, 1, 2, 5]), align_corners=1),
        sample((1, 3, 4), np.array([1, 2, 2, 3, 4])),
    ]
