"""Rules for activations: recognised where exporters spelled them out, and put into the layer before them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.model.ir import Attribute, Graph, Node, Value
from sardonyx.passes.checks import is_float, same_type
from sardonyx.passes.pattern import NodePattern, changed, constants, microsoft, op, scalar, variables
from sardonyx.passes.rule import rule

x, w, b, z, low, high = variables("x w b z low high")
(c,) = constants("c")

_SIXTH = float(np.float32(1 / 6))
"""As a file holds it."""

# ---- recognised

_RELU6 = op.Clip(x + 3.0, 0.0, 6.0)


@rule(_RELU6 / 6.0, _RELU6 * (1 / 6))
def hard_sigmoid(x: Value) -> Value:
    """Clip(x + 3, 0, 6) / 6 -> HardSigmoid(x)"""
    return op.HardSigmoid(x, alpha=_SIXTH, beta=0.5)


def _sixth(value: float) -> bool:
    return abs(value - 1 / 6) < 1e-4


@rule(x * op.HardSigmoid(x, alpha=_sixth, beta=0.5), (x * _RELU6) / 6.0, (x * _RELU6) * (1 / 6), (x * (1 / 6)) * _RELU6)
def hard_swish(x: Value) -> Value:
    """x * Clip(x + 3, 0, 6) / 6 -> HardSwish(x)"""
    return op.HardSwish(x)


def _halves(x: Any, factor: NodePattern) -> list[NodePattern]:
    """x * factor / 2, in every order."""
    return [x * factor * 0.5, x * (factor * 0.5), x * 0.5 * factor]


_ERF = op.Erf(x / 2**0.5 | x * 0.5**0.5) + 1.0


@rule(*_halves(x, _ERF))
def gelu(x: Value) -> Value | None:
    """x * (1 + Erf(x / sqrt(2))) / 2 -> Gelu(x)"""
    return op.Gelu(x) if is_float(x) else None


_ROOT = (2 / 3.141592653589793) ** 0.5
_SQUARE = x**2.0 | x * x
_SMALL = 0.044715
_CUBE = x**3.0 * _SMALL | _SQUARE * x * _SMALL | x * _SMALL * _SQUARE | x * _SMALL * x * x | x * (_SQUARE * _SMALL)
_FACTOR = (_SQUARE * _SMALL | x * _SMALL * x) + 1.0
_BENT = (x + _CUBE) * _ROOT | x * _FACTOR * _ROOT | x * _ROOT * _FACTOR | x * (_FACTOR * _ROOT)


@rule(*_halves(x, op.Tanh(_BENT) + 1.0))
def tanh_gelu(x: Value) -> Value | None:
    """x * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2 -> Gelu(x, approximate="tanh")"""
    return op.Gelu(x, approximate="tanh") if is_float(x) else None


@rule(x * op.Sigmoid(x).once)
def swish(x: Value) -> Value | None:
    """x * Sigmoid(x) -> Swish(x)"""
    return op.Swish(x) if is_float(x) else None


@rule(x * op.Sigmoid(x * c).once)
def swish_of_multiple(x: Value, c: Value) -> Value | None:
    """x * Sigmoid(c * x) -> Swish(x, alpha=c), which QuickGelu is too"""
    number = scalar(c)
    return op.Swish(x, alpha=number) if number is not None and is_float(x) else None


@rule(x * op.Tanh(op.Softplus(x).once).once)
def mish(x: Value) -> Value | None:
    """x * Tanh(Softplus(x)) -> Mish(x)"""
    return op.Mish(x) if is_float(x) else None


# ---- fused

_CONV = op.Conv(x, w, b.optional).named("layer").once
_GEMM = op.Gemm(x, w, b.optional).named("layer").once
_DEFAULTS = {"LeakyRelu": (0.01,), "HardSigmoid": (0.2, 0.5)}
"""Of the parameters that some activations have: alpha, beta."""

_SIMPLE = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")


def _parameters(node: Node) -> list[float]:
    defaults = _DEFAULTS.get(node.op_type, ())
    return [float(node.attribute(name, default)) for name, default in zip(("alpha", "beta"), defaults)]


@rule(*(getattr(op, name)(_CONV).named("node") for name in _SIMPLE))
def conv_activation(layer: Node, x: Value, w: Value, b: Value | None, node: Node) -> Value | None:
    """Relu(Conv(x, w, b)) -> FusedConv(x, w, b, activation="Relu"); likewise other activations"""
    return _fused_conv(layer, node.op_type, _parameters(node))


@rule(*(getattr(op, name)((_CONV + z).named("sum").once).named("node") for name in _SIMPLE))
def conv_add_activation(
    layer: Node, x: Value, w: Value, b: Value | None, z: Value, sum: Node, node: Node
) -> Value | None:
    """Relu(Conv(x, w, b) + z) -> FusedConv(x, w, b, z, activation="Relu"), where z has the shape of the convolution"""
    if not same_type(layer.outputs[0], z) or not is_float(z):
        return None
    more = {"activation_params": parameters} if (parameters := _parameters(node)) else {}
    return changed(layer, x, w, b, z, factory=microsoft.FusedConv, activation=node.op_type, **more)


@rule(op.Clip(_CONV, low.optional, high.optional))
def conv_clip(layer: Node, x: Value, w: Value, b: Value | None, low: Value | None, high: Value | None) -> Value | None:
    """Clip(Conv(x, w, b), low, high) -> FusedConv(x, w, b, activation="Clip"), where the bounds are constant"""
    largest = float(np.finfo(np.float32).max)
    bounds = [-largest if low is None else scalar(low), largest if high is None else scalar(high)]
    return None if None in bounds else _fused_conv(layer, "Clip", bounds)


def _fused_conv(conv: Node, activation: str, parameters: Any) -> Value | None:
    if not is_float(conv.outputs[0]):
        return None
    more = {"activation_params": list(parameters)} if parameters else {}
    return changed(conv, *conv.inputs, factory=microsoft.FusedConv, activation=activation, **more)


@rule(*(getattr(op, name)(_GEMM).named("node") for name in _SIMPLE))
def gemm_activation(layer: Node, x: Value, w: Value, b: Value | None, node: Node) -> Value | None:
    """Relu(Gemm(x, w, b)) -> FusedGemm(x, w, b, activation="Relu"); likewise other activations"""
    if not is_float(layer.outputs[0]):
        return None
    more = dict(zip(("activation_alpha", "activation_beta"), _parameters(node)))
    return changed(layer, *layer.inputs, factory=microsoft.FusedGemm, activation=node.op_type, **more)


RULES = [
    hard_sigmoid,
    hard_swish,
    gelu,
    tanh_gelu,
    swish,
    swish_of_multiple,
    mish,
    conv_activation,
    conv_add_activation,
    conv_clip,
    gemm_activation,
]


def approximate_gelu(graph: Graph) -> None:
    """Gelu(x) -> Gelu(x, approximate="tanh"), in place, and the same for Gelu with a bias: faster, and less exact."""
    for node in graph.all_nodes():
        if node.op_type == "Gelu" and node.attribute("approximate", "none") == "none":
            node.domain = ""
            node.attributes["approximate"] = Attribute("approximate", "string", "tanh")
        elif node.op_type == "BiasGelu":
            node.op_type = "FastGelu"
