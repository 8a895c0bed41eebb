"""Rules that recognise normalisations where exporters spelled them out."""

from __future__ import annotations

from sardonyx import dtypes
from sardonyx.ir import Node, Value
from sardonyx.passes.checks import axes_of, is_float, rank
from sardonyx.passes.pattern import changed, constants, op, scalar, variables
from sardonyx.passes.rule import rule

x, scale, bias = variables("x scale bias")
axes, epsilon = constants("axes epsilon")

WORK = (dtypes.float32, dtypes.float16)
"""The types whose statistics are taken in float32, as these operators do."""


def _last_axes(x: Value, mean: Node, scale: Value) -> int | None:
    """The first of the axes of a mean, counted from behind, if they are the last ones and `scale` is of their shape."""
    places, size = axes_of(mean), rank(x)
    if not places or size is None or x.shape is None or scale.shape is None or not is_float(x, WORK):
        return None
    if places != list(range(places[0], size)) or scale.dtype is not x.dtype:
        return None
    wanted = x.shape[places[0] :]
    return places[0] - size if wanted == scale.shape and None not in wanted else None


_CENTRED = x - op.ReduceMean(x, axes, keepdims=1)
_SQUARES = [_CENTRED**2.0, _CENTRED * _CENTRED]
_VARIANCES = [op.ReduceMean(square, axes, keepdims=1).named("mean") for square in _SQUARES]
_NORMAL = [
    normal
    for variance in _VARIANCES
    for root in [op.Sqrt(variance + epsilon)]
    for normal in (_CENTRED / root, _CENTRED * (1.0 / root), _CENTRED * op.Reciprocal(root))
]


@rule(*(normal * scale for normal in _NORMAL))
def layer_normalization(x: Value, axes: Value, mean: Node, epsilon: Value, scale: Value) -> Value | None:
    """(x - mean) / Sqrt(variance + epsilon) * scale -> LayerNormalization(x, scale), over the last axes"""
    axis, number = _last_axes(x, mean, scale), scalar(epsilon)
    return None if axis is None or number is None else op.LayerNormalization(x, scale, axis=axis, epsilon=number)


@rule(op.LayerNormalization(x, scale).named("norm").once + bias)
def layer_normalization_bias(x: Value, scale: Value, norm: Node, bias: Value) -> Value | None:
    """LayerNormalization(x, scale) + bias -> LayerNormalization(x, scale, bias)"""
    return changed(norm, x, scale, bias) if bias.type is not None and bias.type == scale.type else None


_MEANS = [op.ReduceMean(square, axes, keepdims=1).named("mean") for square in (x**2.0, x * x)]
_RMS = [
    normal
    for mean in _MEANS
    for root in [op.Sqrt(mean + epsilon)]
    for normal in (x / root, x * (1.0 / root), x * op.Reciprocal(root))
]


@rule(*(normal * scale for normal in _RMS))
def rms_normalization(x: Value, axes: Value, mean: Node, epsilon: Value, scale: Value) -> Value | None:
    """x / Sqrt(ReduceMean(x ** 2) + epsilon) * scale -> RMSNormalization(x, scale), over the last axes"""
    axis, number = _last_axes(x, mean, scale), scalar(epsilon)
    return None if axis is None or number is None else op.RMSNormalization(x, scale, axis=axis, epsilon=number)


RULES = [layer_normalization, layer_normalization_bias, rms_normalization]
