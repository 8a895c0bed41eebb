"""Generation: operators that make a tensor from numbers or from a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir import SparseTensor, Tensor
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant, of_sparse, of_tensor
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size, product

SMALL = 64
"""Elements up to which a constant tensor is made at once, so that shape arithmetic can go on with it."""

_LITERALS: dict[str, DType] = {
    "value_float": dtypes.float32,
    "value_floats": dtypes.float32,
    "value_int": dtypes.int64,
    "value_ints": dtypes.int64,
    "value_string": dtypes.string,
    "value_strings": dtypes.string,
}


class Constant(Operator):
    """A constant, given by one of these attributes."""

    value: Tensor | None = None
    sparse_value: SparseTensor | None = None
    value_float: float | None = None
    value_floats: tuple[float, ...] | None = None
    value_int: int | None = None
    value_ints: tuple[int, ...] | None = None
    value_string: str | None = None
    value_strings: tuple[str, ...] | None = None

    def expand(self) -> Array:
        if self.value is not None:
            return of_tensor(self.value)
        if self.sparse_value is not None:
            return of_sparse(self.sparse_value)
        for name, dtype in _LITERALS.items():
            literal = getattr(self, name)
            if literal is not None:
                return constant(literal, dtype)
        raise ValueError(f"none of the attributes value, sparse_value, {', '.join(_LITERALS)} is given")

    samples = [
        sample(value=np.array([[1.5, 2.0]], np.float32)),
        sample(value=np.array(3, np.uint8)),
        sample(value_float=0.5),
        sample(value_floats=[1.0, 2.5]),
        sample(value_int=-3),
        sample(value_ints=[1, 2]),
    ]


class ConstantOfShape(Operator, since=9):
    """A tensor of this shape filled with one number, float32 0 if none is given."""

    value: Tensor | None = None

    def expand(self, shape: Array) -> Array:
        sizes = tuple(known_sizes(shape))
        number = p.reshape(constant(0.0, dtypes.float32) if self.value is None else of_tensor(self.value), ())
        if number.value is not None and all(isinstance(size, int) for size in sizes) and product(sizes) <= SMALL:
            return Array(number.dtype, sizes, np.full(sizes, number.value))
        return p.broadcast_to(number, sizes)

    samples = [
        sample(np.array([2, 3])),
        sample(np.array([2, 50]), value=np.array([-1], np.int64)),
        sample(np.array([], np.int64), value=np.array([1.5], np.float32)),
        sample(np.array([0, 2]), value=np.array([True])),
    ]


class Range(Operator, since=11):
    """start, start + delta, start + 2 delta, ... as far as `limit`, which is left out."""

    stash_type: int = 1

    def expand(self, start: Array, limit: Array, delta: Array) -> Array:
        start, limit, delta = (p.reshape(operand, ()) for operand in (start, limit, delta))
        dtype = start.dtype
        whole = [_whole(operand) for operand in (start, limit, delta)]
        integers = [operand for operand in whole if operand is not None]
        if len(integers) == len(whole):
            (first,), (last,), (stride,) = map(known_sizes, integers)
            places = p.iota((_count(first, last, stride),), 0, dtype if dtype.is_int else dtypes.int64)
            return p.cast(places * stride + first, dtype)
        work = dtype
        if dtype in (dtypes.float16, dtypes.bfloat16):
            work = dtypes.float64 if self.stash_type == dtypes.float64.number else dtypes.float32
        if _is(start, 0) and _is(delta, 1):  # then float32 is exact
            steps = p.native(limit)
        else:
            begin, end, step = (p.cast(operand, dtypes.float64) for operand in (start, limit, delta))
            steps = (end - begin) / step
        (count,) = known_sizes(p.cast(p.ceil(steps), dtypes.int64))
        line = p.iota((count if count >= 0 else 0,), 0, work)
        return p.cast(p.cast(start, work) + line * p.cast(delta, work), dtype)

    samples = [
        sample(np.array(1), np.array(10), np.array(3)),
        sample(np.array(10, np.int32), np.array(4, np.int32), np.array(-2, np.int32)),
        sample(np.array(3), np.array(3), np.array(1)),
        sample(np.array(5), np.array(3), np.array(1)),
        sample(np.array(0.5, np.float32), np.array(2.1, np.float32), np.array(0.4, np.float32)),
        sample(np.array(2.0, np.float64), np.array(0.0, np.float64), np.array(-0.5, np.float64)),
        sample(np.array(0.0, np.float32), np.array(2.5, np.float32), np.array(1.0, np.float32)),
    ]


def _whole(x: Array) -> Array | None:
    """The integers that an Array is made of by casts; None where it is not known to have whole numbers.

    Shorter floats than those of 32 bits round them.
    """
    if x.dtype.is_int:
        return x
    if x.dtype not in (dtypes.float32, dtypes.float64):
        return None
    if x.value is not None:
        numbers = x.value.astype(np.float64)
        is_whole = bool((np.abs(numbers) < 1 << 24).all() and (numbers == np.trunc(numbers)).all())
        return constant(numbers.astype(np.int64)) if is_whole else None
    if x.equation is None or x.equation.primitive.name not in ("cast", "reshape"):
        return None
    found = _whole(x.equation.inputs[0])
    return None if found is None else p.reshape(found, x.shape)


def _is(x: Array, number: int) -> bool:
    return x.value is not None and bool(x.value == number)


def _count(first: Size, last: Size, step: Size) -> Size:
    """How many numbers a range of integers has."""
    if step == 0:
        raise ValueError("a range has a delta of 0; use a positive or a negative one")
    span, width = (last - first, step) if step > 0 else (first - last, -step)
    return (span + width - 1) // width if span >= 0 else 0


def _diagonal(x: Array) -> Array:
    """Column minus row of every place of a matrix, int64."""
    rows, columns = x.shape[-2:]
    return p.iota((1, columns), 1) - p.iota((rows, 1), 0)


class EyeLike(Operator, since=9):
    """Ones on diagonal `k` of a matrix of the operand's shape, zeros elsewhere."""

    dtype: int | None = None
    k: int = 0

    def expand(self, x: Array) -> Array:
        if x.rank != 2:
            raise ValueError(f"the operand is {p.show(x.shape)}, but a matrix is needed")
        dtype = x.dtype if self.dtype is None else dtypes.by_number(self.dtype)
        if dtype is None:
            raise ValueError(f"dtype {self.dtype} is none of ONNX's element types")
        return p.cast(p.equal(_diagonal(x), self.k), dtype)

    samples = [
        sample((3, 4)),
        sample((3, 4), k=1),
        sample((4, 3), k=-2, dtype=7),
        sample((0, 2)),
        sample(np.ones((2, 2), bool), dtype=11),
    ]


class Trilu(Operator, since=14):
    """The upper (or lower) triangle of matrices, from diagonal `k` on; zeros, or empty strings, elsewhere."""

    upper: int = 1

    def expand(self, x: Array, k: Array | None = None) -> Array:
        if x.rank < 2:
            raise ValueError(f"the operand is {p.show(x.shape)}, but a matrix or matrices are needed")
        first: Any = 0 if k is None else p.reshape(k, ())
        diagonal = _diagonal(x)
        nothing = constant("") if x.dtype is dtypes.string else 0
        return p.where(diagonal >= first if self.upper else diagonal <= first, x, nothing)

    samples = [
        sample((3, 4)),
        sample((2, 3, 3), np.array(1)),
        sample((4, 3), np.array(-1), upper=0),
        sample((2, 3), np.array(-7)),
        sample((3, 0)),
        sample(np.ones((2, 2), bool), upper=0),
        sample(np.arange(6).reshape(2, 3), np.array([1])),
    ]


class OneHot(Operator, since=9):
    """`values[1]` where a new axis of `depth` places equals the index, `values[0]` elsewhere."""

    axis: int = -1

    def expand(self, indices: Array, depth: Array, values: Array) -> Array:
        (size,) = known_sizes(p.cast(depth, dtypes.int64))
        axis = p.normalize_axis(self.axis, indices.rank + 1)
        index = p.cast(indices, dtypes.int64)
        if indices.dtype.kind != "uint":
            index = p.where(index < 0, index + size, index)
        places = p.iota([size if k == axis else 1 for k in range(indices.rank + 1)], axis)
        off, on = (p.reshape(p.slice_axis(values, 0, k, 1), ()) for k in (0, 1))
        return p.where(p.equal(p.unsqueeze(index, [axis]), places), on, off)

    samples = [
        sample(np.array([0, 2, -1, 5]), np.array(3), np.array([0.0, 1.0], np.float32)),
        sample(np.array([[1, 0]]), np.array([2]), np.array([5, 7]), axis=0),
        sample(np.array([1.0, 2.0], np.float32), np.array(3.0, np.float32), np.array([0, 1]), axis=-2),
        sample(np.array([1, 2]), np.array(3), np.array([2.0, -1.0], np.float32)),
    ]
