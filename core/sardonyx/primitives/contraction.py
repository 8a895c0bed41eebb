"""The primitive that multiplies and adds over axes: dot_general, as XLA has it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx.common.dtypes import DType
from sardonyx.host import products
from sardonyx.host.products import narrowed, work_type
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, broadcast_shapes, cast, native, show
from sardonyx.primitives.movement import broadcast_to, reshape, transpose


class DotGeneral(Primitive):
    """Sum of products over the contracting axes: result axes are batch, then free axes of a, then of b.

    Elements are converted to `dtype` first, products and sums are taken in it; float16 is summed in float32.
    """

    name = "dot_general"

    def infer(self, a: Array, b: Array, contract: Any, batch: Any, dtype: DType) -> Types:
        shape = [a.shape[axis] for axis in batch[0]]
        shape += [size for axis, size in enumerate(a.shape) if axis not in (*contract[0], *batch[0])]
        shape += [size for axis, size in enumerate(b.shape) if axis not in (*contract[1], *batch[1])]
        return [(dtype, tuple(shape))]

    def numpy(self, a: np.ndarray, b: np.ndarray, contract: Any, batch: Any, dtype: DType) -> Values:
        free_a = [axis for axis in range(a.ndim) if axis not in (*contract[0], *batch[0])]
        free_b = [axis for axis in range(b.ndim) if axis not in (*contract[1], *batch[1])]
        outer = [a.shape[axis] for axis in batch[0]]
        inner = prod(a.shape[axis] for axis in contract[0])
        rows, columns = [a.shape[k] for k in free_a], [b.shape[k] for k in free_b]
        work = work_type(a, b, inner, dtype.storage)
        left = a.transpose([*batch[0], *free_a, *contract[0]]).astype(work, copy=False)
        right = b.transpose([*batch[1], *contract[1], *free_b]).astype(work, copy=False)
        with np.errstate(all="ignore"):
            left, right = left.reshape(*outer, prod(rows), inner), right.reshape(*outer, inner, prod(columns))
            result = products.matmul(left, right)
        return [narrowed(result.reshape((*outer, *rows, *columns)), dtype.storage)]


DOT_GENERAL = primitive(DotGeneral)


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

    >>> from sardonyx.primitives.binding import constant
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


def swap_last(x: Array) -> Array:
    """Transpose the last two axes."""
    return transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
