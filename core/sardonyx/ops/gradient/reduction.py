"""Rules of what combines many elements into one."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.gradient.indexing import others
from sardonyx.ops.gradient.rule import Gradients, Rule, of_one
from sardonyx.primitives.array import Array, Equation


def _reduce(equation: Equation, g: Array) -> Gradients:
    (x,), function, axes = equation.inputs, equation.params["function"], equation.params["axes"]
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    spread, y = p.reshape(g, kept), p.reshape(equation.outputs[0], kept)
    if function == "sum":
        return [p.broadcast_to(spread, x.shape)]
    if function == "prod":
        zero = p.equal(x, 0.0)
        zeros = p.sum_(p.cast(zero, g.dtype), axes, keepdims=True)
        return [spread * others(x, zeros, p.reduce(p.where(zero, 1.0, x), "prod", axes, keepdims=True))]
    best = p.cast(p.equal(x, y), g.dtype)  # of equal ones each gets the same
    return [spread * best / p.sum_(best, axes, keepdims=True)]


def _cumulative(equation: Equation, g: Array) -> Gradients:
    (x,), params = equation.inputs, equation.params
    axis, reverse, exclusive = params["axis"], params["reverse"], params["exclusive"]
    if params["function"] == "sum":
        return [p.cumulative(g, "sum", axis, exclusive, not reverse)]
    zero = p.equal(x, 0.0)
    before = p.cumulative(p.cast(zero, dtypes.int32), "sum", axis, True, reverse)

    def sums(y: Array) -> Array:
        return p.cumulative(g * y, "sum", axis, exclusive, not reverse)

    # The first zero of a line counts as 1 for its own gradient; behind it all is 0.
    of_zero = sums(p.cumulative(p.where(zero & p.equal(before, 0), 1.0, x), "prod", axis, exclusive, reverse))
    own = p.where(zero, of_zero, sums(equation.outputs[0]) / p.where(zero, 1.0, x))
    return [p.where(p.equal(before, 0), own, 0.0)]


RULES: dict[str, Rule] = {"reduce": of_one(_reduce), "cumulative": of_one(_cumulative)}
