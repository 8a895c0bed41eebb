"""What ONNX tried before operator set 10 and gave up; onnxruntime runs it, and older converters wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.model.ir import Node, Value
from sardonyx.ops.operator import Operator, Rewriter

END = np.iinfo(np.int64).max
"""Where a slice ends that goes to the end of an axis."""


def _scaled(make: Rewriter, x: Value | None, by: float, plus: Any = 0.0) -> Value:
    """x * by + plus, in the type of x."""
    for op_type, number in (("Mul", by), ("Add", plus)):
        if np.any(np.asarray(number) != (op_type == "Mul")):
            (like,) = make.emit("CastLike", make.constant(number, np.float32), x)
            (x,) = make.emit(op_type, x, like)
    assert x is not None
    return x


def _required(node: Node, *names: str) -> list[Any]:
    """The values of attributes that have no defaults."""
    for name in names:
        if name not in node.attributes:
            raise ValueError(f"the attribute {name!r} is missing, which has no default")
    return [node.attribute(name) for name in names]


def _affine(node: Node, make: Rewriter) -> list[Value]:
    """Affine(x) -> alpha * x + beta"""
    return [_scaled(make, node.inputs[0], node.attribute("alpha", 1.0), node.attribute("beta", 0.0))]


def _scale(node: Node, make: Rewriter) -> list[Value]:
    """Scale(x) -> scale * x"""
    return [_scaled(make, node.inputs[0], node.attribute("scale", 1.0))]


def _image_scaler(node: Node, make: Rewriter) -> list[Value]:
    """ImageScaler(x) -> scale * x + bias, a bias for each channel"""
    (bias,) = _required(node, "bias")
    return [_scaled(make, node.inputs[0], node.attribute("scale", 1.0), np.reshape(bias, (-1, 1, 1)))]


def _parametric_softplus(node: Node, make: Rewriter) -> list[Value]:
    """ParametricSoftplus(x) -> alpha * Softplus(beta * x)"""
    alpha, beta = _required(node, "alpha", "beta")
    (y,) = make.emit("Softplus", _scaled(make, node.inputs[0], beta))
    return [_scaled(make, y, alpha)]


def _scaled_tanh(node: Node, make: Rewriter) -> list[Value]:
    """ScaledTanh(x) -> alpha * Tanh(beta * x)"""
    alpha, beta = _required(node, "alpha", "beta")
    (y,) = make.emit("Tanh", _scaled(make, node.inputs[0], beta))
    return [_scaled(make, y, alpha)]


def _crop(node: Node, make: Rewriter) -> Sequence[Value]:
    """Crop(x) -> Slice(x) of the last two axes: without a border, or as high and wide as `scale` from its corner"""
    (border,) = _required(node, "border")
    left, top, right, bottom = border
    size = node.attribute("scale")
    ends = [-bottom or END, -right or END] if not size else [top + size[0], left + size[1]]
    return make.emit("Slice", node.inputs[0], *map(make.constant, ([top, left], ends, [2, 3])))


def _dynamic_slice(node: Node, make: Rewriter) -> Sequence[Value]:
    """DynamicSlice(x, starts, ends, axes) -> Slice(x, starts, ends, axes)"""
    return make.emit("Slice", *node.inputs)


class Affine(Operator):
    """A factor, and a number that is added."""

    upgrades = {10: _affine}


class Scale(Operator):
    """A factor."""

    upgrades = {10: _scale}


class ImageScaler(Operator):
    """A factor for all of an image, and a number for each channel that is added."""

    upgrades = {10: _image_scaler}


class ParametricSoftplus(Operator):
    """Softplus with factors before and behind."""

    upgrades = {10: _parametric_softplus}


class ScaledTanh(Operator):
    """Tanh with factors before and behind."""

    upgrades = {10: _scaled_tanh}


class Crop(Operator):
    """What is inside the border of an image."""

    upgrades = {10: _crop}


class DynamicSlice(Operator):
    """What Slice is since operator set 10."""

    upgrades = {10: _dynamic_slice}
