"""Primitives that multiply and add: dot_general and conv_general, as XLA has them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx.array import Array, Primitive, bind, primitive
from sardonyx.dtypes import DType
from sardonyx.primitives.elementwise import Types, Values, cast, native, show
from sardonyx.primitives.movement import broadcast_to, reshape, transpose
from sardonyx.primitives.window import bordered, window_views, windows
from sardonyx.symbolic import Size


class DotGeneral(Primitive):
    """Sum of products over the contracting axes: result axes are batch, then free axes of a, then of b.

    Elements are converted to `dtype` first, products and sums are taken in it; float16 is summed in float32.
    """

    name = "dot_general"

    def infer(self, a: Array, b: Array, contract: Any, batch: Any, dtype: DType) -> Types:
        kept = [a.shape[axis] for axis in batch[0]]
        kept += [size for axis, size in enumerate(a.shape) if axis not in (*contract[0], *batch[0])]
        kept += [size for axis, size in enumerate(b.shape) if axis not in (*contract[1], *batch[1])]
        return [(dtype, tuple(kept))]

    def numpy(self, a: np.ndarray, b: np.ndarray, contract: Any, batch: Any, dtype: DType) -> Values:
        free_a = [axis for axis in range(a.ndim) if axis not in (*contract[0], *batch[0])]
        free_b = [axis for axis in range(b.ndim) if axis not in (*contract[1], *batch[1])]
        outer = [a.shape[axis] for axis in batch[0]]
        inner = prod(a.shape[axis] for axis in contract[0])
        rows, columns = [a.shape[k] for k in free_a], [b.shape[k] for k in free_b]
        work = _work_type(a, b, inner, dtype.storage)
        left = a.transpose([*batch[0], *free_a, *contract[0]]).astype(work, copy=False)
        right = b.transpose([*batch[1], *contract[1], *free_b]).astype(work, copy=False)
        with np.errstate(all="ignore"):
            result = np.matmul(left.reshape(*outer, prod(rows), inner), right.reshape(*outer, inner, prod(columns)))
        return [_narrowed(result.reshape((*outer, *rows, *columns)), dtype.storage)]


def _work_type(a: np.ndarray, b: np.ndarray, terms: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type to sum that many products in: for integers a float type if that is exact, since BLAS has no integers."""
    if dtype == np.float16:
        return np.dtype(np.float32)
    if dtype.kind not in "iu" or not a.size or not b.size:
        return dtype
    if not (np.can_cast(a.dtype, dtype) and np.can_cast(b.dtype, dtype)):
        return dtype
    bound = terms * prod(max(1, int(x.max()), -int(x.min())) for x in (a, b))
    return np.dtype(np.float32 if bound < 1 << 24 else np.float64 if bound < 1 << 53 else dtype)


def _narrowed(result: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """A result in the type that was asked for; sums that do not fit wrap."""
    if dtype.kind in "iu" and result.dtype.kind == "f":
        result = result.astype(np.int64)
    return result.astype(dtype, copy=False)


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

    def numpy(
        self,
        x: np.ndarray,
        w: np.ndarray,
        strides: Any,
        dilations: Any,
        spread: Any,
        low: Any,
        high: Any,
        groups: int,
    ) -> Values:
        work = _work_type(x, w, prod(w.shape[1:]), x.dtype)
        scatters = any(step != 1 for step in spread) and all(step == 1 for step in strides)
        convolve = _scattered if scatters else _correlated
        with np.errstate(all="ignore"):
            wide = x.astype(work, copy=False), w.astype(work, copy=False)
            result = convolve(*wide, strides, dilations, spread, low, high, groups)
        return [_narrowed(result, x.dtype)]


def _correlated(
    x: np.ndarray, w: np.ndarray, strides: Any, dilations: Any, spread: Any, low: Any, high: Any, groups: int
) -> np.ndarray:
    """The product of the kernel and the columns that its windows see (im2col), some rows of the result at a time."""
    views = window_views(bordered(_spread(x, spread), low, high), w.shape[2:], strides, dilations)
    rank, n, spatial = x.ndim - 2, len(x), views.shape[2 : x.ndim]
    kernel = w.reshape(groups, w.shape[0] // groups, prod(w.shape[1:]))
    views = views.reshape(n, groups, w.shape[1], *views.shape[2:])
    views = views.transpose([0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank)])
    result = np.empty((n, groups, kernel.shape[1], *spatial), x.dtype)
    line = n * groups * kernel.shape[2] * prod(spatial[1:]) * x.itemsize
    band = max(1, COLUMN_BYTES // max(line, 1))
    for start in range(0, spatial[0], band):
        rows: tuple[Any, ...] = (..., slice(start, start + band), *[slice(None)] * (rank - 1))
        part = result[rows]
        columns = views[rows].reshape(n, groups, kernel.shape[2], prod(part.shape[3:]))
        part[:] = np.matmul(kernel, columns).reshape(part.shape)
    return result.reshape(n, w.shape[0], *spatial)


def _scattered(
    x: np.ndarray, w: np.ndarray, strides: Any, dilations: Any, spread: Any, low: Any, high: Any, groups: int
) -> np.ndarray:
    """What each element of x adds to the result, put in place (col2im): no work on the zeros between elements."""
    n, rank, kernel = len(x), x.ndim - 2, w.shape[2:]
    reach = [(size - 1) * step for size, step in zip(kernel, dilations, strict=True)]
    taps = w.reshape(groups, w.shape[0] // groups, w.shape[1], prod(kernel)).transpose(0, 3, 1, 2)
    parts = np.matmul(taps.reshape(groups, -1, w.shape[1]), x.reshape(n, groups, w.shape[1], prod(x.shape[2:])))
    parts = parts.reshape(n, groups, prod(kernel), w.shape[0] // groups, *x.shape[2:])
    wide = [max(0, (size - 1) * step + 1) for size, step in zip(x.shape[2:], spread, strict=True)]
    full = np.zeros((n, groups, w.shape[0] // groups, *map(sum, zip(wide, reach, strict=True))), x.dtype)
    for number, tap in enumerate(np.ndindex(*kernel)):
        starts = [span - k * step for span, k, step in zip(reach, tap, dilations, strict=True)]
        places: list[Any] = [slice(a, a + size, step) for a, size, step in zip(starts, wide, spread, strict=True)]
        full[(..., *places)] += parts[:, :, number]
    below, above = ([int(width) - span for width, span in zip(side, reach, strict=True)] for side in (low, high))
    return bordered(full.reshape(n, w.shape[0], *full.shape[-rank:]), below, above)


COLUMN_BYTES = 1 << 25
"""Bytes of im2col columns that a convolution makes at a time."""


def _spread(x: np.ndarray, spread: Any) -> np.ndarray:
    """x with zeros between neighbours along the spatial axes."""
    if all(step == 1 for step in spread):
        return x
    sizes = (max(0, (size - 1) * step + 1) for size, step in zip(x.shape[2:], spread, strict=True))
    wide = np.zeros((*x.shape[:2], *sizes), x.dtype)
    wide[(slice(None), slice(None), *(slice(None, None, step) for step in spread))] = x
    return wide


DOT_GENERAL = primitive(DotGeneral)
CONV_GENERAL = primitive(ConvGeneral)


def dot_general(
    a: Array,
    b: Array,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    dtype: DType | None = None,
) -> Array:
    """Sum of products over the `contract` axes of a and b; the `batch` axes are kept in common.

    The result's axes are the batch axes, the free axes of a, the free axes of b. With `dtype` (int32 for 8-bit
    integers, say) products and sums are taken in that type.
    """
    for left, right in (contract, batch):
        for i, j in zip(left, right, strict=True):
            if not a.shape[i] == b.shape[j]:
                raise ValueError(f"shapes {show(a.shape)} and {show(b.shape)} do not multiply: axes {i} and {j} differ")
    if dtype is None and a.dtype is not b.dtype:
        raise TypeError(f"dot_general takes operands of one dtype, not {a.dtype} and {b.dtype}")
    dtype = dtype or a.dtype
    a, b = native(a), native(b)
    result = bind(
        DOT_GENERAL,
        a,
        b,
        contract=(tuple(contract[0]), tuple(contract[1])),
        batch=(tuple(batch[0]), tuple(batch[1])),
        dtype=dtype if dtype.is_native else a.dtype,
    )[0]
    return cast(result, dtype)


def matmul(a: Array, b: Array, dtype: DType | None = None) -> Array:
    """numpy.matmul: matrix product over the last two axes, broadcast over the others.

    >>> from sardonyx.array import constant
    >>> matmul(constant([[1.0, 2.0]]), constant([[3.0], [4.0]])).value
    array([[11.]])
    """
    if not a.rank or not b.rank:
        raise ValueError(f"matmul takes operands of rank 1 or more, not {show(a.shape)} and {show(b.shape)}")
    left = reshape(a, (1, *a.shape)) if a.rank == 1 else a
    right = reshape(b, (*b.shape, 1)) if b.rank == 1 else b
    if right.rank == 2:
        result = dot_general(left, right, ([left.rank - 1], [0]), dtype=dtype)
    else:
        from sardonyx.primitives.elementwise import broadcast_shapes

        outer = broadcast_shapes(left.shape[:-2], right.shape[:-2])
        left = broadcast_to(left, (*outer, *left.shape[-2:]))
        right = broadcast_to(right, (*outer, *right.shape[-2:]))
        axes = list(range(len(outer)))
        result = dot_general(left, right, ([left.rank - 1], [right.rank - 2]), (axes, axes), dtype)
    shape = list(result.shape)
    if b.rank == 1:
        shape.pop()
    if a.rank == 1:
        del shape[len(shape) - (0 if b.rank == 1 else 1) - 1]
    return reshape(result, shape)


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


def swap_last(x: Array) -> Array:
    """Transpose the last two axes."""
    return transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
