"""The rule of discrete Fourier transforms: the way back is a transform of the other direction."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.ops.gradient.rule import Gradients, Rule, of_one
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.fourier import fourier


def _fourier(equation: Equation, g: Array) -> Gradients:
    """Root t k of unity is what bin k has of element t, so its conjugate is what element t has of bin k."""
    (x,), n, inverse = equation.inputs, equation.params["n"], equation.params["inverse"]
    back = fourier(g, n, x.shape[-2], not inverse)
    scaled = back / n if inverse else back * n
    return [p.slice_axis(scaled, -1, 0, x.shape[-1])]


RULES: dict[str, Rule] = {"fourier": of_one(_fourier)}
