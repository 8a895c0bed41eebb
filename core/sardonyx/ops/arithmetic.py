"""Arithmetic: element-wise operators on numbers, broadcast as NumPy does it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import attribute
from sardonyx.ops.lift import constant_array
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.primitives.array import Array

INTEGERS = np.array([-128, -7, -2, -1, 0, 1, 2, 7, 127], np.int8)
DIVISORS = np.array([[-128], [-3], [-1], [2], [5], [127]], np.int8)


def broadcast_from_axis(node: Node, make: Rewriter) -> Sequence[Value] | None:
    """Before operator set 7 the axes of B were those of A from the attribute `axis` on, by default the last ones.

    Where ranks are not known the operands are transposed: counted from the back, it is B that lacks `axis` axes.
    """
    node.attributes.pop("broadcast", None)
    attribute = node.attributes.pop("axis", None)
    a, b = node.inputs
    assert a is not None
    assert b is not None
    rank_a, rank_b = _rank(a), _rank(b)
    if attribute is None or (attribute.value < 0 and rank_a is None):
        return None
    axis = int(attribute.value)
    if rank_a is not None and rank_b is not None:
        behind = rank_a - axis % rank_a - rank_b if rank_a else 0
        node.inputs[1] = _append_axes(make, b, behind)
        return None
    (a_reversed,), (b_reversed,) = make.emit("Transpose", a), make.emit("Transpose", b)
    result = make.emit(node.op_type, a_reversed, _append_axes(make, b_reversed, axis))
    return make.emit("Transpose", *result)


def _rank(value: Value) -> int | None:
    shape = value.shape if value.constant is None else value.constant.shape
    return None if shape is None else len(shape)


def _append_axes(make: Rewriter, value: Value, count: int) -> Value:
    return make.emit("Unsqueeze", value, make.constant(range(-count, 0), np.int64))[0] if count > 0 else value


def number_like(make: Rewriter, number: float, value: Value) -> Value:
    """A constant of the dtype that another Value has."""
    if value.dtype is not None and value.dtype.is_native:
        return make.constant(number, value.dtype.storage.type)
    return make.emit("CastLike", make.constant(number, np.float32), value)[0]


class Add(Operator):
    """The sum; integers wrap."""

    expand = staticmethod(operator.add)
    upgrades = {7: broadcast_from_axis}
    samples = [sample((3, 4), (4,)), sample((3, 1), (1, 4)), sample((), (2, 3)), sample(INTEGERS, DIVISORS)]


class Sub(Operator):
    """The difference; integers wrap."""

    expand = staticmethod(operator.sub)
    upgrades = {7: broadcast_from_axis}
    samples = [sample((3, 4), (4,)), sample((0, 4), (1,)), sample(INTEGERS, DIVISORS)]


class Mul(Operator):
    """The product; integers wrap."""

    expand = staticmethod(operator.mul)
    upgrades = {7: broadcast_from_axis}
    samples = [sample((3, 4), (4,)), sample((), ()), sample(INTEGERS, DIVISORS)]


class Div(Operator):
    """The quotient; of integers it is truncated, and 0 by 0."""

    expand = staticmethod(operator.truediv)
    upgrades = {7: broadcast_from_axis}
    samples = [
        sample((3, 4), (4,)),
        sample(np.array([1, -1, 0], np.float32), np.zeros(1, np.float32)),
        sample(np.array([7, 9, 250], np.uint8), np.array([[2], [255]], np.uint8)),
        sample(np.array([-7, 7, -8, 2**40], np.int64), np.array([[2], [-2]], np.int64)),
    ]


class Mod(Operator, since=10):
    """The remainder, with the sign of B, or of A where `fmod` is 1 (as C has it)."""

    fmod: int = 0

    def expand(self, a: Array, b: Array) -> Array:
        rest = a % b
        if self.fmod or a.dtype.kind == "uint":
            return rest
        if b.value is not None and b.dtype.is_int and (b.value > 0).all():
            return p.where(rest < 0, rest + b, rest)
        apart = ((rest < 0) & (b > 0)) | ((rest > 0) & (b < 0))
        if a.dtype.is_float:  # A zero takes the sign of B.
            size = p.absolute(rest)
            return p.where(apart, rest + b, p.where(b < 0, -size, size))
        return p.where(apart, rest + b, rest)

    samples = [
        sample(INTEGERS, DIVISORS),
        sample(INTEGERS, np.array([3], np.int8)),
        sample(INTEGERS, DIVISORS, fmod=1),
        sample(np.array([7, 200, 9], np.uint8), np.array([[2], [255]], np.uint8)),
        sample((3, 4), (4,), fmod=1),
        sample((3, 4), (4,)),
        sample(np.array([0, -0.0, 3, -3], np.float32), np.array([[2], [-2], [np.inf], [-np.inf], [0]], np.float32)),
    ]


class Pow(Operator):
    """X raised to Y, in the dtype of X."""

    def expand(self, x: Array, y: Array) -> Array:
        power = _number(y) if y.rank <= x.rank else None
        if power == 2:
            return x * x
        if power == 3:
            return x * x * x
        if y.dtype.is_float and x.dtype.is_int:
            return p.cast(p.cast(x, dtypes.float64) ** p.cast(y, dtypes.float64), x.dtype)
        return x ** p.cast(y, x.dtype)

    upgrades = {7: broadcast_from_axis}
    samples = [
        sample((3, 4), np.array(2, np.float32)),
        sample((3, 4), np.array([3], np.int64)),
        sample(np.array([1, 4, 2.5], np.float32), (2, 3)),
        sample(np.array([1, 4, 9], np.int32), np.array([0.5, 2, 1.5], np.float32)),
        sample(np.array([-3, 4, 9], np.int64), np.array([0, 3, 5], np.int32)),
        sample(np.array([0, -1, np.inf], np.float32), np.array([[0], [1], [0.5]], np.float32)),
        sample(np.array([0.5, 3], np.float16), np.array([2.5, 3], np.float32), tolerance=1e-3),
    ]


def _number(array: Array) -> Any:
    """The element of an Array that is known and has only one."""
    is_scalar = array.value is not None and array.value.size == 1 and array.dtype.is_native
    return array.value.item() if is_scalar and array.value is not None else None


class Neg(Operator):
    """-x."""

    expand = staticmethod(p.negative)
    samples = [sample((3, 4)), sample(INTEGERS)]


class Abs(Operator):
    """The magnitude; that of the lowest integer is itself."""

    expand = staticmethod(p.absolute)
    samples = [sample((3, 4)), sample(INTEGERS), sample(np.array([3, 255], np.uint8))]


class Sign(Operator, since=9):
    """-1, 0 or 1."""

    expand = staticmethod(p.sign)
    samples = [sample((3, 4)), sample(INTEGERS), sample(np.array([0, 255], np.uint8))]


class Reciprocal(Operator):
    """1 / x."""

    def expand(self, x: Array) -> Array:
        return 1.0 / x

    samples = [sample((3, 4)), sample(np.array([0, -0.0, np.inf], np.float32))]


class Sqrt(Operator):
    """The square root; NaN below zero."""

    expand = staticmethod(p.sqrt)
    samples = [sample((3, 4)), sample(np.array([0, 4, np.inf], np.float16))]


class Exp(Operator):
    """e raised to x."""

    expand = staticmethod(p.exp)
    samples = [sample((3, 4)), sample(np.array([-200, 0, 100, np.nan], np.float32)), sample(np.array(1.0))]


class Log(Operator):
    """The natural logarithm; NaN below zero."""

    expand = staticmethod(p.log)
    samples = [sample((3, 4)), sample(np.array([0, 1, 1e-30, np.inf], np.float32))]


class Erf(Operator, since=9):
    """The error function."""

    expand = staticmethod(p.erf)
    samples = [sample((3, 4)), sample(np.array([-9, -0.3, 0, 1e-20, np.inf, np.nan])), sample((0,))]


class Floor(Operator):
    """Rounded down."""

    expand = staticmethod(p.floor)
    samples = [sample((3, 4)), sample(np.array([-0.5, 2.5, -np.inf], np.float64))]


class Ceil(Operator):
    """Rounded up."""

    expand = staticmethod(p.ceil)
    samples = [sample((3, 4)), sample(np.array([-0.5, 2.5, -np.inf], np.float64))]


class Round(Operator, since=11):
    """Rounded to the nearest integer, halves to the even one."""

    expand = staticmethod(p.round_even)
    samples = [sample((3, 4)), sample(np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9], np.float32))]


class Sum(Operator):
    """The sum of any number of operands."""

    def expand(self, *inputs: Array) -> Array:
        return functools.reduce(operator.add, inputs)

    samples = [sample((3, 4)), sample((3, 1), (4,), ())]


class Mean(Operator):
    """The mean of any number of operands."""

    def expand(self, *inputs: Array) -> Array:
        return functools.reduce(operator.add, inputs) / len(inputs)

    samples = [sample((3, 4)), sample((3, 1), (4,), ())]


class Max(Operator):
    """The largest of any number of operands; NaN if one is."""

    def expand(self, *inputs: Array) -> Array:
        return functools.reduce(p.maximum, inputs)

    samples = [
        sample((3, 4)),
        sample((3, 1), (4,), ()),
        sample(INTEGERS, DIVISORS),
        sample(np.array([1, np.nan, 3], np.float32), np.array([np.nan, 2, 4], np.float32)),
    ]


class Min(Operator):
    """The smallest of any number of operands; NaN if one is."""

    def expand(self, *inputs: Array) -> Array:
        return functools.reduce(p.minimum, inputs)

    samples = [
        sample((3, 4)),
        sample((3, 1), (4,), ()),
        sample(np.array([3, 250], np.uint64), np.array([[4], [100]], np.uint64)),
    ]


def _bounds_to_inputs(node: Node, make: Rewriter) -> None:
    x = node.inputs[0]
    assert x is not None
    bounds = [node.attributes.pop(name, None) for name in ("min", "max")]
    node.inputs = [x, *(None if bound is None else number_like(make, bound.value, x) for bound in bounds)]


def _bounds_to_attributes(node: Node) -> bool:
    bounds = [constant_array(bound) for bound in node.inputs[1:]]
    for name, value, bound in zip(("min", "max"), node.inputs[1:], bounds, strict=False):
        if value is not None:
            if bound is None or bound.dtype != np.float32:
                return False
            node.attributes[name] = attribute(name, float(bound.item()))
    node.inputs = node.inputs[:1]
    return True


class Clip(Operator):
    """min(max(x, low), high), where either bound may be left out."""

    def expand(self, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
        x = x if low is None else p.maximum(x, low)
        return x if high is None else p.minimum(x, high)

    upgrades = {11: _bounds_to_inputs}
    downgrades = {11: _bounds_to_attributes}
    samples = [
        sample((3, 4), np.array(-0.5, np.float32), np.array(0.5, np.float32)),
        sample((3, 4), None, np.array(0, np.float32)),
        sample((3, 4), np.array(1, np.float32), np.array(-1, np.float32)),
        sample(INTEGERS, np.array(-3, np.int8)),
        sample((2, 0)),
    ]
