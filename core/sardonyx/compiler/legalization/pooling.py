"""Max pooling before what is done to each element: a rising function of the largest is the largest of its results.

So bias and activation are computed for what is left of a convolution, and the whole of it is read once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Size, hint, same_shape

_RISING = frozenset({"add", "max", "min"})
"""Functions that never fall where one operand grows, if the other is finite."""


class Pooling:
    """The rule for one trace: it looks through what only a window reads."""

    def __init__(self, trace: Trace) -> None:
        self._uses = Counter(x for equation in trace.equations for x in equation.inputs)
        self._uses.update(x for x in trace.outputs)

    def write(self, rewriter: Rewriter, equation: Equation) -> bool:
        """reduce_window of rising functions and joined channels -> those of reduce_window"""
        if equation.primitive.name != "reduce_window" or not _applies(equation):
            return False
        (x,), (output,) = equation.inputs, equation.outputs
        if not self._inside(x, output.rank - len(equation.params["window"])):
            return False
        made = self._pooled(rewriter, x, equation)
        assert made.equation is not None
        rewriter.define(output, made.equation.primitive, made.equation.inputs, made.equation.params)
        return True

    def _inside(self, x: Array, outer: int) -> list[Array]:
        """What is below a rising function or joined channels, if a window may go there instead."""
        equation = x.equation
        if equation is None or self._uses[x] != 1:
            return []
        if equation.primitive.name == "concat":
            return list(equation.inputs) if equation.params["axis"] < outer else []
        if equation.primitive.name != "elementwise" or equation.params["function"] not in _RISING:
            return []
        moving = [y for y in equation.inputs if same_shape(y.shape, x.shape) and y.dtype == x.dtype]
        others = [y for y in equation.inputs if _is_even(y, len(x.shape) - outer)]
        return moving if len(moving) == 1 and len(moving) + len(others) == len(equation.inputs) else []

    def _pooled(self, rewriter: Rewriter, x: Array, window: Equation) -> Array:
        """The window's result for x instead of its own operand."""
        (result,) = window.outputs
        outer = result.rank - len(window.params["window"])
        inner = self._inside(x, outer)
        shape = (*x.shape[:outer], *result.shape[outer:])
        if not inner:
            return rewriter.record(window.primitive, [x], window.params, x.dtype, shape)
        below = {y: self._pooled(rewriter, y, window) for y in inner}
        equation = x.equation
        assert equation is not None
        operands = [below.get(y, y) for y in equation.inputs]
        return rewriter.record(equation.primitive, operands, equation.params, x.dtype, shape)


def _applies(equation: Equation) -> bool:
    """Whether a window takes the largest of floats, has an element everywhere, and leaves fewer than there were."""
    (x,), (output,), params = equation.inputs, equation.outputs, equation.params
    borders = zip(params["window"], params["dilations"], params["low"], params["high"], strict=True)
    return (
        params["function"] == "max"
        and x.dtype.is_float
        and all(step == 1 and _between(low, size) and _between(high, size) for size, step, low, high in borders)
        and 0 < 2 * hint(output.size) <= hint(x.size)
    )


def _between(border: Size, window: Size) -> bool:
    return isinstance(border, int) and isinstance(window, int) and 0 <= border < window


def _is_even(x: Array, inner: int) -> bool:
    """Whether an Array is of known finite numbers, the same ones along the last axes."""
    axes: Sequence[Size] = x.shape[max(0, x.rank - inner) :]
    return x.value is not None and all(size == 1 for size in axes) and bool(np.isfinite(x.value).all())
