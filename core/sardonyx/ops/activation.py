"""Activations: functions that networks put between layers, element-wise or along one axis."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import attribute
from sardonyx.ops.lift import defaulted, each
from sardonyx.ops.operator import Operator, Rewriter, sample
from sardonyx.primitives.array import Array

MICROSOFT = "com.microsoft"
STEEP = np.array([-200, -20, -1e-3, 0, 1e-3, 20, 200], np.float32)
HALF = np.array([-5, -0.5, 0, 0.25, 6], np.float16)


def in_float32(expand: Callable[..., Array]) -> Callable[..., Array]:
    """Expands an element-wise operator on 16-bit floats by way of float32, rounding once."""

    @functools.wraps(expand)
    def wide(self: Operator, x: Array, *others: Array | None) -> Array:
        widened = (None if other is None else p.widen(other) for other in others)
        return p.cast(expand(self, p.widen(x), *widened), x.dtype)

    return wide


class Relu(Operator):
    """max(x, 0)."""

    def expand(self, x: Array) -> Array:
        return p.maximum(x, 0)

    samples = [sample((3, 4)), sample((0,)), sample(()), sample(np.array([-3, 0, 5], np.int8)), sample(HALF)]


class LeakyRelu(Operator):
    """`x` where positive, `alpha * x` below zero."""

    alpha: float = 0.01

    def expand(self, x: Array) -> Array:
        return p.where(x < 0, self.alpha * x, x)

    samples = [sample((3, 4)), sample((5,), alpha=0.2)]


class PRelu(Operator):
    """`x` where positive, `slope * x` below zero."""

    def expand(self, x: Array, slope: Array) -> Array:
        return p.where(x < 0, slope * x, x)

    @staticmethod
    def slopes_of_channels(node: Node, make: Rewriter) -> Sequence[Value]:
        """The slopes used to be those of axis 1: with the axes reversed, the last but one."""
        x, slope = node.inputs
        (x_reversed,) = make.emit("Transpose", x)
        column = make.emit("Reshape", slope, make.constant([-1, 1], np.int64))
        return make.emit("Transpose", *make.emit("PRelu", x_reversed, *column))

    upgrades = {7: slopes_of_channels}
    samples = [
        sample((2, 3, 4), (3, 1)),
        sample((2, 3), (1,)),
        sample(np.array([-4, 3], np.int32), np.array([2], np.int32)),
    ]


class Elu(Operator):
    """`x` where positive, `alpha * (exp(x) - 1)` below zero."""

    alpha: float = 1.0

    @in_float32
    def expand(self, x: Array) -> Array:
        return p.where(x < 0, self.alpha * (p.exp(p.minimum(x, 0.0)) - 1.0), x)

    samples = [sample((3, 4)), sample(STEEP, alpha=2.0)]


class Selu(Operator):
    """`gamma * x` where positive, `gamma * alpha * (exp(x) - 1)` below zero (Klambauer et al., 2017)."""

    alpha: float = 1.67326319217681884765625
    gamma: float = 1.05070102214813232421875

    @in_float32
    def expand(self, x: Array) -> Array:
        return self.gamma * p.where(x > 0, x, self.alpha * (p.exp(p.minimum(x, 0.0)) - 1.0))

    upgrades = {6: each(defaulted("alpha", 1.6732), defaulted("gamma", 1.0507))}
    samples = [sample((3, 4)), sample(STEEP, alpha=2.0, gamma=3.0)]


class Celu(Operator, since=12):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    alpha: float = 1.0

    @in_float32
    def expand(self, x: Array) -> Array:
        return p.maximum(x, 0.0) + p.minimum(self.alpha * (p.exp(p.minimum(x, 0.0) / self.alpha) - 1.0), 0.0)

    samples = [sample((3, 4)), sample(STEEP, alpha=2.0)]


def gelu(x: Array) -> Array:
    """x * P(X <= x) for a standard normal X (Hendrycks and Gimpel, 2016)."""
    return 0.5 * x * (1.0 + p.erf(x * math.sqrt(0.5)))


def gelu_by_tanh(x: Array) -> Array:
    """The same by a tanh of a cubic, within 5e-4."""
    return 0.5 * x * (1.0 + p.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


class Gelu(Operator, since=20):
    """x * P(X <= x) for a standard normal X, exactly or by tanh."""

    approximate: str = "none"

    @in_float32
    def expand(self, x: Array) -> Array:
        if self.approximate not in ("none", "tanh"):
            raise ValueError(f"approximate {self.approximate!r} is unknown; use none or tanh")
        return gelu_by_tanh(x) if self.approximate == "tanh" else gelu(x)

    samples = [sample((3, 4)), sample((3, 4), approximate="tanh"), sample(STEEP)]


class MicrosoftGelu(Operator, domain=MICROSOFT, name="Gelu"):
    """Gelu before ONNX had it."""

    @in_float32
    def expand(self, x: Array) -> Array:
        return gelu(x)

    samples = [sample((3, 4))]


class BiasGelu(Operator, domain=MICROSOFT):
    """Gelu of x + bias."""

    @in_float32
    def expand(self, x: Array, bias: Array) -> Array:
        return gelu(x + bias)

    samples = [sample((2, 3, 4), (4,))]


class FastGelu(Operator, domain=MICROSOFT):
    """Gelu of x + bias, by tanh."""

    @in_float32
    def expand(self, x: Array, bias: Array | None = None) -> Array:
        return gelu_by_tanh(x if bias is None else x + bias)

    samples = [sample((2, 3, 4), (4,)), sample((3, 4))]


class QuickGelu(Operator, domain=MICROSOFT):
    """x * sigmoid(alpha * x)."""

    alpha: float = 1.702

    @in_float32
    def expand(self, x: Array) -> Array:
        return x * p.sigmoid(self.alpha * x)

    samples = [sample((3, 4)), sample((3, 4), alpha=1.0)]


class Sigmoid(Operator):
    """1 / (1 + exp(-x))."""

    @in_float32
    def expand(self, x: Array) -> Array:
        return p.sigmoid(x)

    samples = [sample((3, 4)), sample(STEEP), sample(HALF, tolerance=1e-3)]


class Swish(Operator, since=24):
    """x * sigmoid(alpha * x) (Ramachandran et al., 2017)."""

    alpha: float = 1.0

    @in_float32
    def expand(self, x: Array) -> Array:
        return x * p.sigmoid(self.alpha * x)

    samples = [sample((3, 4)), sample(STEEP, alpha=0.5)]


class HardSigmoid(Operator):
    """alpha * x + beta, kept between 0 and 1."""

    alpha: float = 0.2
    beta: float = 0.5

    @in_float32
    def expand(self, x: Array) -> Array:
        return p.minimum(p.maximum(self.alpha * x + self.beta, 0.0), 1.0)

    samples = [sample((3, 4)), sample(STEEP, alpha=0.5, beta=0.6)]


class HardSwish(Operator, since=14):
    """x * (x / 6 + 1/2, kept between 0 and 1) (Howard et al., 2019)."""

    @in_float32
    def expand(self, x: Array) -> Array:
        return x * p.minimum(p.maximum(x * (1 / 6) + 0.5, 0.0), 1.0)

    samples = [sample((3, 4)), sample(STEEP)]


class Softplus(Operator):
    """log(1 + exp(x)), exact to the last digits on both sides: log(1 + u) is 2 atanh(u / (2 + u))."""

    @in_float32
    def expand(self, x: Array) -> Array:
        u = p.exp(-p.absolute(x))
        return p.maximum(x, 0.0) + 2.0 * p.atanh(u / (2.0 + u))

    samples = [sample((3, 4)), sample(STEEP), sample(HALF, tolerance=1e-3)]


class Mish(Operator, since=18):
    """x * tanh(softplus(x)) (Misra, 2019), in powers of u = exp(-|x|), which cannot overflow."""

    @in_float32
    def expand(self, x: Array) -> Array:
        u = p.exp(-p.absolute(x))
        below, above = u * (u + 2.0), 1.0 + 2.0 * u
        return x * p.where(x < 0, below / (below + 2.0), above / (above + 2.0 * u * u))

    samples = [sample((3, 4)), sample(STEEP)]


class Softsign(Operator):
    """x / (1 + |x|)."""

    @in_float32
    def expand(self, x: Array) -> Array:
        return x / (1.0 + p.absolute(x))

    samples = [sample((3, 4)), sample(STEEP)]


class ThresholdedRelu(Operator, since=10):
    """`x` above alpha, else 0."""

    alpha: float = 1.0

    def expand(self, x: Array) -> Array:
        return p.where(x > self.alpha, x, 0.0)

    samples = [sample((3, 4)), sample((5,), alpha=-0.2)]


class Shrink(Operator, since=9):
    """`x - bias` above lambd, `x + bias` below -lambd, else 0; of integers without the fraction."""

    bias: float = 0.0
    lambd: float = 0.5

    def expand(self, x: Array) -> Array:
        real = p.cast(x, dtypes.float64) if x.dtype.is_int else x
        less, more = (p.cast(real + by, x.dtype) if self.bias else x for by in (-self.bias, self.bias))
        return p.where(real > self.lambd, less, p.where(real < -self.lambd, more, 0))

    samples = [
        sample((3, 4)),
        sample((3, 4), bias=0.5, lambd=0.2),
        sample(np.array([-3, -1, 2], np.int32), lambd=1.5),
        sample(np.array([-3, -1, 2], np.int8), bias=0.25),
        sample(np.array([0, 1, 2, 255], np.uint8), lambd=1.5),
    ]


def flat_from_axis(node: Node, make: Rewriter) -> Sequence[Value] | None:
    """Before operator set 13 `axis` (1 by default) began the rows of a matrix, along which softmax was taken."""
    axis = node.attribute("axis", 1)
    x = node.inputs[0]
    if axis == -1 or (x is not None and x.shape is not None and axis == len(x.shape) - 1):
        node.attributes["axis"] = attribute("axis", -1)
        return None
    (shape,) = make.emit("Shape", x)
    result = make.emit(node.op_type, *make.emit("Flatten", x, axis=axis), axis=-1)
    return make.emit("Reshape", *result, shape, allowzero=1)


def last_axis(node: Node) -> bool:
    """The downgrade for the last axis, written from the front: along it the older form has the same result."""
    x = node.inputs[0]
    axis = node.attribute("axis", -1)
    if x is None or x.shape is None or axis % len(x.shape) != len(x.shape) - 1:
        return False
    node.attributes["axis"] = attribute("axis", len(x.shape) - 1)
    return True


AXES = [sample((3, 4)), sample((2, 3, 4), axis=1), sample((2, 3, 4), axis=-3), sample((0, 4)), sample(STEEP, axis=0)]


class Softmax(Operator):
    """exp(x) divided by its sum along an axis."""

    axis: int = -1

    def expand(self, x: Array) -> Array:
        axis = [p.normalize_axis(self.axis, x.rank)]
        wide = p.widen(x)
        powers = p.exp(wide - p.max_(wide, axis, keepdims=True))
        return p.cast(powers * (1.0 / p.sum_(powers, axis, keepdims=True)), x.dtype)

    upgrades = {13: flat_from_axis}
    downgrades = {13: last_axis}
    samples = [*AXES, sample(HALF, axis=0, tolerance=1e-3)]


class LogSoftmax(Operator):
    """The logarithm of softmax, without its underflow."""

    axis: int = -1

    def expand(self, x: Array) -> Array:
        axis = [p.normalize_axis(self.axis, x.rank)]
        wide = p.widen(x)
        shifted = wide - p.max_(wide, axis, keepdims=True)
        return p.cast(shifted - p.log(p.sum_(p.exp(shifted), axis, keepdims=True)), x.dtype)

    upgrades = {13: flat_from_axis}
    downgrades = {13: last_axis}
    samples = [*AXES, sample(HALF, axis=0, tolerance=1e-3)]


class Hardmax(Operator):
    """1 where the first of the largest elements along an axis is, else 0."""

    axis: int = -1

    def expand(self, x: Array) -> Array:
        axis = p.normalize_axis(self.axis, x.rank)
        places = p.iota(x.shape, axis)
        return p.cast(p.equal(places, p.arg(x, "argmax", axis, keepdims=True)), x.dtype)

    upgrades = {13: flat_from_axis}
    downgrades = {13: last_axis}
    samples = [*AXES, sample(np.array([[1, 3, 3], [2, 2, 2]], np.float64), axis=1)]
