"""Gradients: what a sum of elements changes by with each element that it was computed from.

Equations of a trace are walked backwards from the result; `rules` says what each primitive makes of the gradients of
its outputs (reverse accumulation: Linnainmaa, 1970). The gradient is made of primitives, so that every provider runs
it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.ops.gradient.backward import pulled_back
from sardonyx.ops.gradient.rule import MOST_STORED, memory_limit
from sardonyx.primitives.array import Array
from sardonyx.primitives.trace import active_trace


def gradient(y: Array, xs: Sequence[Array], fixed: Sequence[Array] = (), most_stored: int | None = None) -> list[Array]:
    """The derivative of the sum of y by each element of each of xs, in their shapes; 0 where y does not depend on it.

    What is `fixed` counts as constant. Loops store the values between their turns, or compute them anew where they
    would be more than `most_stored` bytes and the number of turns is known; that is half of the trace's memory limit,
    and `MOST_STORED` at most, if it is left out. NotImplementedError names a primitive on the way that has no rule, and
    an x that is constant.
    """
    known = [number for number, x in enumerate(xs) if x.value is not None]
    if known:
        said = "is a constant, and so is what is made of it; make it an input"
        raise NotImplementedError(f"tensor {known[0]} of xs {said}")
    trace = active_trace()
    if trace is not None:
        trace.backward.add(trace.origin)
        y, *arrays = (trace.materialise(array) for array in (y, *xs, *fixed))
        xs, fixed = arrays[: len(xs)], arrays[len(xs) :]
        if y.equation is None and any(y is inner for inner, _ in trace.lifted.values()):
            raise NotImplementedError("y is computed in a graph around; take the gradient there")
    if most_stored is None:
        limit = 0 if trace is None else trace.root.memory_limit
        most_stored = min(MOST_STORED, limit // 2) if limit else MOST_STORED
    ones = p.full(y.shape, 1.0, y.dtype)
    with memory_limit.within(most_stored):
        found = pulled_back([y], [ones], xs, fixed)
    return [p.full(x.shape, 0.0, x.dtype) if own is None else own for x, own in zip(xs, found, strict=True)]
