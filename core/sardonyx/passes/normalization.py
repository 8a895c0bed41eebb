"""Rules that recognise normalisations where exporters spelled them out."""

from __future__ import annotations

from math import prod

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import constant
from sardonyx.passes.checks import array_of, axes_of, is_float, rank
from sardonyx.passes.pattern import NodePattern, Pattern, changed, constants, op, scalar, variables
from sardonyx.passes.rule import rule

x, scale, bias = variables("x scale bias")
axes, epsilon = constants("axes epsilon")

WORK = (dtypes.float32, dtypes.float16)
"""The types whose statistics are taken in float32, as these operators do."""

LARGEST = 1 << 16
"""Elements up to which a scale of ones is made, so that the true one can take its place."""


def _mean(value: Pattern) -> NodePattern:
    return op.ReduceMean(value, axes, keepdims=1)


def _divided(value: Pattern, square: Pattern) -> list[NodePattern]:
    """A Value divided by the root of what `square` is plus epsilon."""
    biased = square + epsilon
    root = op.Sqrt(biased)
    return [value / root, value * (op.Reciprocal(root) | 1.0 / root | biased**-0.5)]


def _last_axes(x: Value, mean: Node) -> int | None:
    """The first of the axes of a mean, counted from behind, if they are the last ones and their sizes are known."""
    places, size = axes_of(mean), rank(x)
    if not places or size is None or x.shape is None or not is_float(x, WORK):
        return None
    sizes = x.shape[places[0] :]
    if places != list(range(places[0], size)) or not all(isinstance(each, int) for each in sizes):
        return None
    return places[0] - size if prod(each for each in sizes if isinstance(each, int)) <= LARGEST else None


def _ones(x: Value, axis: int) -> Value:
    """A scale that changes nothing."""
    assert x.shape is not None
    assert x.dtype is not None
    return constant(np.ones([size for size in x.shape[axis:] if isinstance(size, int)], x.dtype.storage))


def _normalized(op_type: str, x: Value, mean: Node, epsilon: Value) -> Value | None:
    axis, number = _last_axes(x, mean), scalar(epsilon)
    if axis is None or number is None:
        return None
    output: Value = getattr(op, op_type)(x, _ones(x, axis), axis=axis, epsilon=number)
    return output


_CENTRED = x - _mean(x)
_VARIANCE = _mean(_CENTRED**2.0 | _CENTRED * _CENTRED).named("mean")


@rule(*_divided(_CENTRED, _VARIANCE))
def layer_normalization(x: Value, axes: Value, mean: Node, epsilon: Value) -> Value | None:
    """(x - mean) / Sqrt(variance + epsilon) -> LayerNormalization(x, 1), over the last axes"""
    return _normalized("LayerNormalization", x, mean, epsilon)


_FACTOR = (op.Reciprocal(op.Sqrt(_VARIANCE + epsilon)) | (_VARIANCE + epsilon) ** -0.5) * scale


@rule(x * _FACTOR + (bias - _mean(x) * _FACTOR))
def layer_normalization_of_products(
    x: Value, axes: Value, mean: Node, epsilon: Value, scale: Value, bias: Value
) -> Value | None:
    """x * factor + (bias - mean * factor) -> LayerNormalization(x, scale, bias), factor = scale / deviation"""
    normalized = _normalized("LayerNormalization", x, mean, epsilon)
    node = normalized.producer if normalized is not None else None
    if node is None or node.inputs[1] is None or not scale.type == bias.type == node.inputs[1].type:
        return None
    return changed(node, x, scale, bias)


@rule(*_divided(x, _mean(x**2.0 | x * x).named("mean")))
def rms_normalization(x: Value, axes: Value, mean: Node, epsilon: Value) -> Value | None:
    """x / Sqrt(ReduceMean(x ** 2) + epsilon) -> RMSNormalization(x, 1), over the last axes"""
    return _normalized("RMSNormalization", x, mean, epsilon)


_NORMS = [make(x, scale).named("norm").once for make in (op.LayerNormalization, op.RMSNormalization)]
_WIDE = [make(op.Cast(x), scale).named("norm").once for make in (op.LayerNormalization, op.RMSNormalization)]


def _is_one(scale: Value) -> bool:
    array = array_of(scale)
    return array is not None and array.dtype.kind == "f" and bool((array == 1).all())


@rule(*(op.Cast(norm).named("node") for norm in _WIDE))
def normalization_cast(x: Value, scale: Value, norm: Node, node: Node) -> Value | None:
    """Cast(LayerNormalization(Cast(x), 1)) -> LayerNormalization(x, 1), of float16 in float32; also RMSNormalization"""
    wide = norm.inputs[0]
    if x.dtype is not dtypes.float16 or node.attribute("to") != x.dtype.number or not _is_one(scale):
        return None
    if wide is None or wide.dtype is not dtypes.float32 or scale.constant is None:
        return None
    return changed(norm, x, constant(np.ones(scale.constant.shape, np.float16)))


_GAMMA = variables("gamma")[0]


@rule(*(norm * _GAMMA for norm in _NORMS))
def normalization_scale(x: Value, scale: Value, norm: Node, gamma: Value) -> Value | None:
    """LayerNormalization(x, 1) * gamma -> LayerNormalization(x, gamma), of the shape of the last axes; also RMS..."""
    if scale.type is None or gamma.dtype is not scale.dtype or not _is_one(scale):
        return None
    fitting = _of_shape(gamma, scale)
    return None if fitting is None else changed(norm, x, fitting)


def _of_shape(value: Value, scale: Value) -> Value | None:
    """A Value, in the shape of the scale if it is constant and has axes of size 1 before that."""
    if value.type == scale.type:
        return value
    array = array_of(value)
    if array is None or scale.constant is None:
        return None
    shape = scale.constant.shape
    same = array.size == prod(shape) and array.shape[array.ndim - len(shape) :] == shape
    return constant(array.reshape(shape)) if same else None


@rule(op.LayerNormalization(x, scale).named("norm").once + bias)
def layer_normalization_bias(x: Value, scale: Value, norm: Node, bias: Value) -> Value | None:
    """LayerNormalization(x, scale) + bias -> LayerNormalization(x, scale, bias)"""
    if bias.dtype is None or bias.dtype is not scale.dtype:
        return None
    fitting = _of_shape(bias, scale)
    return None if fitting is None else changed(norm, x, scale, fitting)


RULES = [
    layer_normalization,
    layer_normalization_of_products,
    rms_normalization,
    normalization_cast,
    normalization_scale,
    layer_normalization_bias,
]
