"""The activations of recurrent layers, written once for all that computes them: Arrays, NumPy, vectors of a backend.

A formula takes `call(function, *operands)` for the functions of `sardonyx.code.scalar`, the element x, alpha and beta;
operators on x do the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Call: TypeAlias = Callable[..., Any]
Formula: TypeAlias = Callable[[Call, Any, float, float], Any]
Activation: TypeAlias = tuple[str, float, float]
"""A name of `ACTIVATIONS`, alpha and beta."""


def _softplus(f: Call, x: Any, alpha: float, beta: float) -> Any:
    """log(1 + exp(x)), exact to the last digits on both sides: log(1 + u) is 2 atanh(u / (2 + u))."""
    u = f("exp", -f("abs", x))
    return f("max", x, 0.0) + 2.0 * f("atanh", u / (2.0 + u))


ACTIVATIONS: dict[str, Formula] = {
    "affine": lambda f, x, alpha, beta: alpha * x + beta,
    "elu": lambda f, x, alpha, beta: f("where", x < 0.0, alpha * (f("exp", f("min", x, 0.0)) - 1.0), x),
    "hardsigmoid": lambda f, x, alpha, beta: f("min", f("max", alpha * x + beta, 0.0), 1.0),
    "leakyrelu": lambda f, x, alpha, beta: f("where", x < 0.0, alpha * x, x),
    "relu": lambda f, x, alpha, beta: f("max", x, 0.0),
    "scaledtanh": lambda f, x, alpha, beta: alpha * f("tanh", beta * x),
    "sigmoid": lambda f, x, alpha, beta: f("sigmoid", x),
    "softplus": _softplus,
    "softsign": lambda f, x, alpha, beta: x / (1.0 + f("abs", x)),
    "tanh": lambda f, x, alpha, beta: f("tanh", x),
    "thresholdedrelu": lambda f, x, alpha, beta: f("where", x > alpha, x, 0.0),
}
