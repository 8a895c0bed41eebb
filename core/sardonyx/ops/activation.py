"""Activations: element-wise functions that networks put between layers."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.array import Array
from sardonyx.ops.operator import Operator, sample


class Relu(Operator, since=14):
    """max(x, 0)."""

    def expand(self, x: Array) -> Array:
        return p.maximum(x, 0)

    samples = [sample((3, 4)), sample((0,)), sample(())]


class LeakyRelu(Operator, since=16):
    """`x` where positive, `alpha * x` below zero."""

    alpha: float = 0.01

    def expand(self, x: Array) -> Array:
        return p.where(x < 0, self.alpha * x, x)

    samples = [sample((3, 4)), sample((5,), alpha=0.2)]


class Gelu(Operator, since=20):
    """x * P(X <= x) for a standard normal X (Hendrycks and Gimpel, 2016)."""

    approximate: str = "none"

    def expand(self, x: Array) -> Array:
        if self.approximate == "tanh":
            return 0.5 * x * (1.0 + p.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
        return 0.5 * x * (1.0 + p.erf(x * 0.7071067811865476))

    samples = [sample((3, 4)), sample((3, 4), approximate="tanh")]
