"""onnxruntime's operators with an activation behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx import primitives as p
from sardonyx.ops.convolution import Conv
from sardonyx.ops.matmul import Gemm
from sardonyx.ops.operator import sample
from sardonyx.primitives.array import Array

ACTIVATIONS: dict[str, Callable[..., Array]] = {
    "Clip": lambda x, low, high: p.minimum(p.maximum(x, low), high),
    "Elu": lambda x, alpha=1.0: p.where(x < 0, alpha * (p.exp(p.minimum(x, 0)) - 1), x),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: p.minimum(p.maximum(alpha * x + beta, 0), 1),
    "LeakyRelu": lambda x, alpha=0.01: p.where(x < 0, alpha * x, x),
    "Relu": lambda x: p.maximum(x, 0),
    "Sigmoid": p.sigmoid,
    "Softsign": lambda x: x / (1.0 + p.absolute(x)),
    "Tanh": p.tanh,
    "ThresholdedRelu": lambda x, alpha=1.0: p.where(x > alpha, x, 0),
}
"""The activations by ONNX's names; their parameters are in ONNX's order."""


def activate(x: Array, name: str, parameters: Sequence[float]) -> Array:
    """The activation of this name, of x itself if there is no name."""
    if not name:
        return x
    if name not in ACTIVATIONS:
        raise NotImplementedError(f"activation {name!r} is unknown; use one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name](x, *parameters)


class FusedConv(Conv, domain="com.microsoft"):
    """The activation of a convolution, to which another tensor may have been added."""

    activation: str = ""
    activation_params: tuple[float, ...] = ()

    def expand(self, x: Array, w: Array, b: Array | None = None, z: Array | None = None) -> Array:
        y = super().expand(x, w, b)
        return activate(y if z is None else y + z, self.activation, self.activation_params)

    samples = [
        sample((1, 2, 5, 5), (3, 2, 3, 3), (3,), activation="Relu"),
        sample((1, 2, 5, 5), (3, 2, 3, 3), (3,), activation="LeakyRelu", activation_params=[0.3]),
        sample((1, 2, 5, 5), (3, 2, 3, 3), activation="Clip", activation_params=[-0.5, 0.5]),
        sample((1, 2, 5, 5), (3, 2, 3, 3), activation="HardSigmoid", activation_params=[0.3, 0.4], pads=[1, 1, 1, 1]),
        sample((1, 2, 5, 5), (3, 2, 3, 3), (3,), (1, 3, 3, 3), activation="Relu"),
    ]


class FusedGemm(Gemm, domain="com.microsoft"):
    """The activation of a Gemm."""

    activation: str = ""
    activation_alpha: float | None = None
    activation_beta: float | None = None
    activation_gamma: float | None = None

    def expand(self, a: Array, b: Array, c: Array | None = None) -> Array:
        parameters = (self.activation_alpha, self.activation_beta, self.activation_gamma)
        return activate(super().expand(a, b, c), self.activation, [value for value in parameters if value is not None])

    samples = [
        sample((3, 4), (4, 5), (5,), activation="Relu"),
        sample((3, 4), (5, 4), (5,), transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.2),
        sample((3, 4), (4, 5), activation="Tanh"),
    ]
