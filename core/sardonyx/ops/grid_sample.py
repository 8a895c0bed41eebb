"""Sampling images at places that another tensor gives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, known_sizes
from sardonyx.ir import Node
from sardonyx.ir.build import attribute
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.symbolic import Size

MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""What operator set 20 calls the modes of operator set 16."""

CUBIC = -0.75
"""The parameter of Keys' cubic convolution (1981), as PyTorch has it."""


def _rename_mode(node: Node, make: Rewriter) -> None:
    """mode=bilinear -> mode=linear."""
    mode = node.attribute("mode", "linear")
    node.attributes["mode"] = attribute("mode", MODES.get(mode, mode))


class GridSample(Operator, since=22):
    """x [N, C, *spatial] at the places of grid [N, *out, rank]: -1 and 1 are the borders; the last axis of x is first."""

    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: int = 0

    def expand(self, x: Array, grid: Array) -> Array:
        sizes = x.shape[2:]
        places = [p.squeeze(p.slice_axis(grid, -1, k, 1), [-1]) for k in reversed(range(len(sizes)))]
        axes = [self._taps(p.cast(place, _work(x)), size) for place, size in zip(places, sizes, strict=True)]
        batch = p.iota((x.shape[0], *[1] * len(sizes)), 0)
        total: Array | None = None
        for taps in product(*axes):
            part = p.gather(x, [batch, *(index for index, _ in taps)], [0, *range(2, x.rank)])
            for _, weight in taps:
                if weight is not None:
                    part = p.cast(part, weight.dtype) * p.unsqueeze(weight, [-1])
            total = part if total is None else total + part
        assert total is not None
        return p.cast(p.transpose(total, [0, x.rank - 1, *range(1, x.rank - 1)]), x.dtype)

    def _taps(self, place: Array, size: Size) -> list[tuple[Array, Array | None]]:
        """The elements of an axis that count at each place, with their weights (None is 1)."""
        place = (place + 1) / 2 * (size - 1) if self.align_corners else ((place + 1) * size - 1) / 2
        if self.mode == "nearest":
            place = p.round_even(place)
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
        outside = (place < low) | (place > place * 0 + (size - 1) - low)
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

    def _element(self, place: Array, weight: Array | None, size: Size) -> tuple[Array, Array | None]:
        """The element at a whole place, and its weight; what lies outside is zero, or the border, or a reflection."""
        if self.padding_mode == "zeros":
            inside = p.cast((place >= 0) & (place <= size - 1), place.dtype)
            weight = inside if weight is None else weight * inside
        elif self.padding_mode == "reflection":
            place = self._inside(place, size)
        return p.cast(p.minimum(p.maximum(place, 0), size - 1), dtypes.int64), weight
'''
