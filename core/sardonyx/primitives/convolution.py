"""The primitive that slides a kernel over spatial axes and sums products: conv_general, as XLA has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.host.correlation import convolve
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, cast, native, show
from sardonyx.primitives.window import windows
from sardonyx.sizes.symbolic import Size


class ConvGeneral(Primitive):
    """Cross-correlation of x [N, C, *spatial] with w [M, C / groups, *kernel] to [N, M, *spatial].

    `spread` puts that many places minus one between neighbouring elements of x first (what a transposed convolution
    needs); `low` and `high` are widths of zeros at the border, which may be negative.
    """

    name = "conv_general"

    def infer(
        self, x: Array, w: Array, strides: Any, dilations: Any, spread: Any, low: Any, high: Any, groups: int
    ) -> Types:
        spatial = []
        for k, size in enumerate(x.shape[2:]):
            wide = (size - 1) * spread[k] + 1 if spread[k] != 1 else size
            spatial.append(windows(wide, w.shape[2 + k], strides[k], dilations[k], low[k], high[k]))
        return [(x.dtype, (x.shape[0], w.shape[0], *spatial))]

    def numpy(self, x: np.ndarray, w: np.ndarray, **parameters: Any) -> Values:
        return [convolve(x, w, **parameters)]


CONV_GENERAL = primitive(ConvGeneral)


def conv_general(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[Size],
    high: Sequence[Size],
    groups: int = 1,
    spread: Sequence[int] | None = None,
) -> Array:
    """Cross-correlation of x [N, C, *spatial] with w [M, C / groups, *kernel], see `ConvGeneral`."""
    if x.rank != w.rank or x.rank < 3:
        raise ValueError(f"a convolution takes x and w of one rank, 3 or more, not {show(x.shape)} and {show(w.shape)}")
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups != 0:
        raise ValueError(
            f"x {show(x.shape)} has {x.shape[1]} channels, but w {show(w.shape)} wants {w.shape[1] * groups}"
            f" in {groups} groups"
        )
    wide = native(x)
    result = bind(
        CONV_GENERAL,
        wide,
        cast(w, wide.dtype),
        strides=tuple(strides),
        dilations=tuple(dilations),
        spread=tuple(spread or [1] * (x.rank - 2)),
        low=tuple(low),
        high=tuple(high),
        groups=groups,
    )[0]
    return cast(result, x.dtype)
