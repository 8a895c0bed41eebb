"""What a convolution does along its spatial axes, and the form in which routines are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sardonyx import primitives as p
from sardonyx.code.parameters import Parameter
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size


class Window(NamedTuple):
    """What is done along the spatial axes, as `conv_general` has it."""

    strides: Sequence[int]
    dilations: Sequence[int]
    spread: Sequence[int]
    low: Sequence[Size]

    @property
    def inner(self) -> Window:
        """What is done along all axes but the first."""
        return Window(self.strides[1:], self.dilations[1:], self.spread[1:], self.low[1:])


def parameters(sizes: Sequence[Size]) -> list[Size]:
    """Sizes that code does not depend on."""
    return [Parameter(size) if isinstance(size, int) else size for size in sizes]


def filled(x: Array, axis: int) -> Array:
    """An Array with zeros that make an axis a multiple of four."""
    high = [0] * x.rank
    high[axis] = -int(x.shape[axis]) % 4
    return p.pad(x, [0] * x.rank, high)
