"""LpNormalization where exporters spelled it out."""

from __future__ import annotations

from sardonyx.model.ir import Node, Value
from sardonyx.passes.checks import axes_of, integers, is_float, maker
from sardonyx.passes.pattern import constants, op, scalar, variables
from sardonyx.passes.rule import rule
from sardonyx.quantization.fusions.fusion import Fusion

LARGEST = 1e-12
"""The bound below which a norm is as good as 0, which LpNormalization does not divide by."""

x, shape = variables("x shape")
axes, epsilon = constants("axes epsilon")
_NORM = op.ReduceL2(x, axes, keepdims=1).named("norm").once


def _normalized(x: Value, norm: Node, epsilon: Value) -> Value | None:
    places, least = axes_of(norm), scalar(epsilon)
    if not is_float(x) or places is None or len(places) != 1 or least is None or not 0 < least <= LARGEST * 1.0001:
        return None
    return op.LpNormalization(x, axis=places[0], p=2)


@rule(x / op.Expand(op.Clip(_NORM, epsilon).once, shape))
def lp_normalization(x: Value, axes: Value, norm: Node, epsilon: Value, shape: Value) -> Value | None:
    """x / Expand(Clip(ReduceL2(x), epsilon), shape) -> LpNormalization(x, p=2), where epsilon is 1e-12 or less"""
    return _normalized(x, norm, epsilon) if _fits(x, shape) else None


@rule(x / op.Clip(_NORM, epsilon).once)
def lp_normalization_unexpanded(x: Value, axes: Value, norm: Node, epsilon: Value) -> Value | None:
    """x / Clip(ReduceL2(x), epsilon) -> LpNormalization(x, p=2), where epsilon is 1e-12 or less"""
    return _normalized(x, norm, epsilon)


def _fits(x: Value, shape: Value) -> bool:
    """Whether what is expanded to this shape leaves a quotient of x in the shape of x."""
    sizes, producer = integers(shape), maker(shape, "Shape")
    if sizes is None:
        return producer is not None and producer.inputs[0] is x
    if x.shape is None or len(sizes) > len(x.shape):
        return False
    return all(size in (1, own) for size, own in zip(reversed(sizes), reversed(x.shape), strict=False))


class FusionLpNormalization(Fusion):
    """A division by the norm along one axis becomes LpNormalization."""

    fused_op_type = "LpNormalization"
    rules = (lp_normalization, lp_normalization_unexpanded)
