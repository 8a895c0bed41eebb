"""The primitive that combines what lies under a sliding window, and the arithmetic of windows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from sardonyx.code.folds import identity
from sardonyx.common import dtypes
from sardonyx.host.correlation import bordered
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, cast, native
from sardonyx.primitives.reduction import UFUNC
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
        extreme = function.removeprefix("arg")
        wide = x.astype(np.float32) if x.dtype == np.float16 and function == "sum" else x
        padded = values = bordered(wide, low, high, identity(extreme, dtypes.of(x.dtype)))
        outer = x.ndim - len(window)
        steps = [_steps(*axis) for axis in zip(padded.shape[outer:], window, strides, dilations, strict=True)]
        for axis, columns in enumerate(steps, outer):
            before = (slice(None),) * axis
            first, *others = (values[(*before, column)] for column in columns)
            values = first.copy()
            for other in others:
                UFUNC[extreme](values, other, out=values)
        if extreme == function:
            return [values.astype(x.dtype, copy=False)]
        places = np.zeros(values.shape, np.int64)
        for place, columns in reversed(list(enumerate(product(*steps)))):
            elements = padded[(..., *columns)]
            np.copyto(places, place, where=(elements == values) | (elements != elements))
        return [places]


def _steps(size: int, window: int, stride: int, dilation: int) -> list[slice]:
    """For each element of a window, the places of an axis that it meets."""
    room = size - (window - 1) * dilation
    return [slice(start, start + room, stride) for start in range(0, window * dilation, dilation)]


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
