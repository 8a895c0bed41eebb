"""Rules that leave out what does nothing."""

from __future__ import annotations

import math

import numpy as np

from sardonyx import dtypes
from sardonyx.dtypes import DType
from sardonyx.ir import Node, Value
from sardonyx.ir.build import constant
from sardonyx.passes.checks import array_of, integers, is_float, like, rank, same_type
from sardonyx.passes.pattern import constants, op, variables
from sardonyx.passes.rule import rule

x, y = variables("x y")
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
    between = _target(inner)
    if x.dtype is None or between is None or not keeps_all(x.dtype, between):
        return None
    return op.Cast(x, to=outer.attribute("to"))


@rule(op.CastLike(x, y))
def cast_like(x: Value, y: Value) -> Value | None:
    """CastLike(x, y) -> Cast(x), where the type of y is known"""
    return None if y.dtype is None else op.Cast(x, to=y.dtype.number)


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
    if source.is_float:
        return target in _WIDER.get(source, ())
    if not source.is_int:
        return False
    bits = source.bits - (source.kind == "int")
    if target in _MANTISSA:
        return bits <= _MANTISSA[target] and target is not dtypes.float16
    return target.is_int and bits <= target.bits - (target.kind == "int") and (target.kind, source.kind) != ("uint", "int")


# ---- arithmetic


@rule(
    *(make(x, c).named("node") for make in (op.Add, op.Sub, op.Mul, op.Div, op.Pow, op.Max, op.Min)),
    *(make(c, x).named("node") for make in (op.Sub, op.Div, op.Pow)),
)
def scalar_constant(x: Value, c: Value, node: Node) -> Value | None:
    """x + c[1, 1] -> x + c, a scalar, where x has the larger rank; likewise other arithmetic"""
    size, own = rank(x), c.constant
    if own is None or not own.shape or own.size != 1 or size is None or size < len(own.shape) or not own.dtype.is_native:
        return None
    number = constant(own.array().reshape(()))
    left, right = (number if value is c else value for value in node.inputs)
    return getattr(op, node.op_type)(left, right)


@rule(op.Clip(x, y.optional, c), op.Clip(x, c, y.optional))
def scalar_bound(x: Value, y: Value | None, c: Value) -> Value | None:
    """Clip(x, c[1], y) -> Clip(x, c, y), with scalar bounds"""
    return None


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


RULES = [
    identity,
    dropout,
    variadic_of_one,
    cast_to_own_type,
    cast_of_cast,
    cast_like,
    scalar_constant,
    neutral_operand,
    division_by_power_of_two,
]
