"""The primitive that combines what lies under a sliding window, and the arithmetic of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.host.windows import fold
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, cast, native
from sardonyx.sizes.symbolic import Size


class ReduceWindow(Primitive):
    """Combine the elements under a window that slides over the last axes; the border holds the identity.

    `low` and `high` are widths of the border, which may be negative. `argmax` and `argmin` give the place in the window
    (row-major, the first of equal ones). Sums of float16 are taken in float32.
    """

    name = "reduce_window"

    def infer(self, x: Array, function: str, window: Any, strides: Any, dilations: Any, low: Any, high: Any) -> Types:
        outer = x.rank - len(window)
        spatial = tuple(
            windows(size, *rest)
            for size, *rest in zip(x.shape[outer:], window, strides, dilations, low, high, strict=True)
        )
        dtype = dtypes.int64 if function in ("argmax", "argmin") else x.dtype
        return [(dtype, (*x.shape[:outer], *spatial))]

    def numpy(
        self, x: np.ndarray, function: str, window: Any, strides: Any, dilations: Any, low: Any, high: Any
    ) -> Values:
        return [fold(x, function, window, strides, dilations, low, high)]


def windows(size: Size, window: Size, stride: int, dilation: int, low: Size, high: Size) -> Size:
    """How many places a window has along an axis; ValueError if it is known to have none."""
    room = size + low + high - (window - 1) * dilation - 1
    if isinstance(room, int) and room < 0:
        raise ValueError(f"a window of {window} elements, {dilation} apart, does not fit into {size + low + high}")
    return room // stride + 1


REDUCE_WINDOW = primitive(ReduceWindow)


def reduce_window(
    x: Array,
    function: str,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[Size],
    high: Sequence[Size],
) -> Array:
    """Combine what lies under a window sliding over the last axes, `low` and `high` places beyond the border."""
    result = bind(
        REDUCE_WINDOW,
        native(x),
        function=function,
        window=tuple(window),
        strides=tuple(strides),
        dilations=tuple(dilations),
        low=tuple(low),
        high=tuple(high),
    )[0]
    return result if function in ("argmax", "argmin") else cast(result, x.dtype)
