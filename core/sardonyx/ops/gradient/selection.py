"""Rules of what sorts and selects: gradients go back to where the elements came from."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.ops.gradient.rule import Gradients, Rule, zeros_like
from sardonyx.primitives.array import Equation


def _sorted(equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    g, (x,), (_, places), axis = gs[0], equation.inputs, equation.outputs, equation.params["axis"]
    if g is None:
        return [None]
    grid = [
        places if k == axis else p.iota([size if k == other else 1 for other in range(x.rank)], k)
        for k, size in enumerate(places.shape)
    ]
    return [p.scatter(zeros_like(x), g, grid, range(x.rank), "add")]


RULES: dict[str, Rule] = {"sort": _sorted, "top_k": _sorted}
