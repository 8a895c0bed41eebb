"""Which equations of a trace are computed at all."""

from __future__ import annotations

from sardonyx.compiler.halts import STEPS
from sardonyx.primitives.array import Equation
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Dim


def live_equations(trace: Trace) -> list[Equation]:
    """The equations that the outputs, or the host, need."""
    needed = set(trace.outputs)
    kept = []
    for equation in reversed(trace.equations):
        if any(array in needed for array in equation.outputs) or _defines(equation, trace):
            needed.update(equation.inputs)
            kept.append(equation)
    return kept[::-1]


def _defines(equation: Equation, trace: Trace) -> bool:
    """Whether sizes are found out by this step: other shapes may depend on them, though nothing reads the results."""
    if equation.primitive.name in ("read", "host"):
        return bool(equation.params["symbols"])
    sizes = (str(size) for array in equation.outputs for size in array.shape if isinstance(size, Dim))
    return equation.primitive.name in STEPS and not trace.fresh.isdisjoint(sizes)
