"""Primitives that multiply and add: dot_general and conv_general, as XLA has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.array import Array, Primitive, bind, primitive
from sardonyx.dtypes import DType
from sardonyx.primitives.elementwise import Types, Values, cast, show
from sardonyx.primitives.movement import broadcast_to, reshape, transpose
from sardonyx.primitives.reduction import window_views, windows
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
        work = np.dtype(np.float32) if dtype.storage == np.float16 else dtype.storage
        free_a = [axis for axis in range(a.ndim) if axis not in (*contract[0], *batch[0])]
        free_b = [axis for axis in range(b.ndim) if axis not in (*contract[1], *batch[1])]
        outer = [a.shape[axis] for axis in batch[0]]
        inner = int(np.prod([a.shape[axis] for axis in contract[0]]))
        rows, columns = [a.shape[k] for k in free_a], [b.shape[k] for k in free_b]
        left = a.transpose([*batch[0], *free_a, *contract[0]]).astype(work, copy=False)
        right = b.transpose([*batch[1], *contract[1], *free_b]).astype(work, copy=False)
        with np.errstate(all="ignore"):
            result = np.matmul(
                left.reshape(*outer, int(np.prod(rows)), inner), right.reshape(*outer, inner, int(np.prod(columns)))
            )
        return [result.reshape(*outer, *rows, *columns).astype(dtype.storage, copy=False)]


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
            spatial.append(windows(wide, w.shape[2 + k], strides[k], dilations[k], low[k], high[k]))  # type: ignore[arg-type]
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
        work = np.dtype(np.float32) if x.dtype == np.float16 else x.dtype
        padded = _spread_and_pad(x.astype(work, copy=False), spread, low, high)
        views = window_views(padded, w.shape[2:], strides, dilations)
        n, spatial = len(x), views.shape[2 : x.ndim]
        rank, channels, outputs = x.ndim - 2, x.shape[1] // groups, w.shape[0] // groups
        kernel = w.astype(work, copy=False).reshape(groups, outputs, -1)
        grouped = views.reshape(n, groups, channels, *views.shape[2:])
        axes = [0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank)]
        columns = grouped.transpose(axes).reshape(n, groups, channels * int(np.prod(w.shape[2:])), -1)
        with np.errstate(all="ignore"):
            result = np.matmul(kernel, columns)
        return [result.reshape(n, groups * outputs, *spatial).astype(x.dtype, copy=False)]


def _spread_and_pad(x: np.ndarray, spread: Any, low: Any, high: Any) -> np.ndarray:
    if any(step != 1 for step in spread):
        wide = np.zeros((*x.shape[:2], *((size - 1) * step + 1 for size, step in zip(x.shape[2:], spread))), x.dtype)
        wide[(slice(None), slice(None), *(slice(None, None, step) for step in spread))] = x
        x = wide
    crop = tuple(slice(max(0, -int(a)), size - max(0, -int(b))) for size, a, b in zip(x.shape[2:], low, high))
    border = [(0, 0), (0, 0), *((max(0, int(a)), max(0, int(b))) for a, b in zip(low, high, strict=True))]
    return np.pad(x[(slice(None), slice(None), *crop)], border)


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
    return bind(
        DOT_GENERAL,
        a,
        b,
        contract=(tuple(contract[0]), tuple(contract[1])),
        batch=(tuple(batch[0]), tuple(batch[1])),
        dtype=dtype or a.dtype,
    )[0]


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
    return bind(
        CONV_GENERAL,
        x,
        cast(w, x.dtype),
        strides=tuple(strides),
        dilations=tuple(dilations),
        spread=tuple(spread or [1] * (x.rank - 2)),
        low=tuple(low),
        high=tuple(high),
        groups=groups,
    )[0]


def swap_last(x: Array) -> Array:
    """Transpose the last two axes."""
    return transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
