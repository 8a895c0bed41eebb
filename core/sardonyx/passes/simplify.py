"""Rules that leave out what does nothing."""

from __future__ import annotations

import math

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import constant
from sardonyx.passes.checks import array_of, like, rank, same_type
from sardonyx.passes.pattern import changed, constants, op, variables
from sardonyx.passes.rule import rule

x, y, z = variables("x y z")
(c,) = constants("c")


@rule(op.Identity(x))
def identity(x: Value) -> Value:
    """Identity(x) -> x"""
    return x


@rule(op.Dropout(x, ...).named("node"))
def dropout(x: Value, node: Node) -> Value | None:
    """Dropout(x) -> x, at inference"""
    training = node.inputs[2] if len(node.inputs) > 2 else None
    flag = array_of(training)
    return x if training is None or (flag is not None and not flag.any()) else None


@rule(*(make(x) for make in (op.Concat, op.Max, op.Min, op.Sum, op.Mean)))
def variadic_of_one(x: Value) -> Value:
    """Concat(x) -> x, and Max, Min, Sum, Mean of one operand"""
    return x


@rule(op.Sum(x, y))
def sum_of_two(x: Value, y: Value) -> Value:
    """Sum(x, y) -> x + y"""
    return op.Add(x, y)


# ---- casts


def _target(node: Node) -> DType | None:
    return dtypes.by_number(node.attribute("to"))


@rule(op.Cast(x).named("node"))
def cast_to_own_type(x: Value, node: Node) -> Value | None:
    """Cast(x) -> x, where x has the type already"""
    return x if x.dtype is not None and x.dtype is _target(node) else None


@rule(op.Cast(op.Cast(x).named("inner")).named("outer"))
def cast_of_cast(x: Value, inner: Node, outer: Node) -> Value | None:
    """Cast(Cast(x)) -> Cast(x), where the inner cast loses nothing"""
    source, between, target = x.dtype, _target(inner), _target(outer)
    if source is None or between is None or target in (None, dtypes.string) or not keeps_all(source, between):
        return None
    if source.is_int and between.is_float and target.is_int and not keeps_all(source, target):
        return None  # integers wrap, floats saturate
    return changed(outer, x)


@rule(op.CastLike(x, y).named("node"))
def cast_like(x: Value, y: Value, node: Node) -> Value | None:
    """CastLike(x, y) -> Cast(x), where the type of y is known"""
    return None if y.dtype is None else changed(node, x, factory=op.Cast, to=y.dtype.number)


_MANTISSA = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}
_WIDER = {
    dtypes.float16: (dtypes.float32, dtypes.float64),
    dtypes.bfloat16: (dtypes.float32, dtypes.float64),
    dtypes.float32: (dtypes.float64,),
}


def keeps_all(source: DType, target: DType) -> bool:
    """Whether the target type has all values of the source type.

    >>> keeps_all(dtypes.uint8, dtypes.int16), keeps_all(dtypes.int32, dtypes.float32)
    (True, False)
    """
    if source is target or source is dtypes.bool_:
        return target.kind != "string"
    if not source.is_int:
        return target in _WIDER.get(source, ())
    bits = source.bits - (source.kind == "int")
    if target in _MANTISSA:
        return bits <= _MANTISSA[target]
    if source.kind == "int" and target.kind == "uint":
        return False
    return target.is_int and bits <= target.bits - (target.kind == "int")


# ---- arithmetic


@rule(
    *(make(x, c).named("node") for make in (op.Add, op.Sub, op.Mul, op.Div, op.Pow, op.Max, op.Min)),
    *(make(c, x).named("node") for make in (op.Sub, op.Div, op.Pow)),
)
def scalar_constant(x: Value, c: Value, node: Node) -> Value | None:
    """x + c[1, 1] -> x + c, a scalar, where x has the larger rank; likewise other arithmetic"""
    number, size, own = _scalar(c), rank(x), rank(c)
    if number is None or size is None or own is None or size < own:
        return None
    return changed(node, *(number if value is c else value for value in node.inputs))


def _scalar(value: Value | None) -> Value | None:
    """A constant of one element and rank 0 for one of any other rank."""
    array = array_of(value)
    return None if array is None or not array.ndim or array.size != 1 else constant(array.reshape(()))


@rule(op.Clip(x, y.optional, z.optional))
def scalar_bounds(x: Value, y: Value | None, z: Value | None) -> Value | None:
    """Clip(x, y[1], z[1]) -> Clip(x, y, z), with scalar bounds"""
    bounds = [_scalar(bound) or bound for bound in (y, z)]
    return None if bounds == [y, z] else op.Clip(x, *bounds)


def _filled(value: Value, number: float) -> bool:
    array = array_of(value)
    if array is None or array.dtype.kind not in "iuf" or not array.size:
        return False
    return bool(array.reshape(-1)[0] == number) and bool((array == number).all())


_NEUTRAL = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1, "Pow": 1}


@rule(*((getattr(op, name)(x, c)).named("node") for name in _NEUTRAL))
def neutral_operand(x: Value, c: Value, node: Node) -> Value | None:
    """x + 0 -> x, and x - 0, x * 1, x / 1, x ** 1"""
    if not _filled(c, _NEUTRAL[node.op_type]):
        return None
    return x if c.shape == () or same_type(x, node.outputs[0]) else None


@rule(x / c)
def division_by_power_of_two(x: Value, c: Value) -> Value | None:
    """x / c -> x * (1 / c), where 1 / c is exact"""
    array = array_of(c)
    if array is None or array.dtype.kind != "f" or not array.size or not np.isfinite(array).all():
        return None
    mantissa, exponent = np.frexp(np.abs(array))
    smallest = math.frexp(float(np.finfo(array.dtype).tiny))[1]
    if not (mantissa == 0.5).all() or (exponent < smallest).any() or (2 - exponent < smallest).any():
        return None
    return op.Mul(x, like(1 / array, c))


@rule(x * (1.0 / y).once)
def product_of_reciprocal(x: Value, y: Value) -> Value:
    """x * (1 / y) -> x / y"""
    return op.Div(x, y)


@rule(op.Clip(op.Relu(x).once, y.optional, z.optional))
def clip_of_relu(x: Value, y: Value | None, z: Value | None) -> Value | None:
    """Clip(Relu(x), low, high) -> Clip(x, low, high), with a lower bound of at least 0"""
    low = array_of(y)
    if x.dtype is None or not x.dtype.is_native or (y is not None and (low is None or low.size != 1)):
        return None
    zero = np.zeros((), x.dtype.storage)
    return op.Clip(x, y if low is not None and low.reshape(()) >= 0 else constant(zero), z)


@rule(op.Where(op.Not(x), y, z))
def where_not(x: Value, y: Value, z: Value) -> Value:
    """Where(Not(x), y, z) -> Where(x, z, y)"""
    return op.Where(x, z, y)


@rule(op.Where(c, y, z).named("node"))
def where_decided(c: Value, y: Value, z: Value, node: Node) -> Value | None:
    """Where(c, y, z) -> y or z, where all of c is the same"""
    array = array_of(c)
    if array is None or not array.size or array.any() != array.all():
        return None
    branch = y if array.all() else z
    return branch if same_type(branch, node.outputs[0]) else None


@rule(op.Shape(op.Cast(x)).named("node"))
def shape_of_cast(x: Value, node: Node) -> Value:
    """Shape(Cast(x)) -> Shape(x)"""
    return changed(node, x)


RULES = [
    identity,
    dropout,
    variadic_of_one,
    sum_of_two,
    cast_to_own_type,
    cast_of_cast,
    cast_like,
    scalar_constant,
    scalar_bounds,
    neutral_operand,
    division_by_power_of_two,
    product_of_reciprocal,
    clip_of_relu,
    where_not,
    where_decided,
    shape_of_cast,
]
