"""Rewriting the equations of a trace, before they are fused: how a provider brings in primitives of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sardonyx.common.dtypes import DType
from sardonyx.primitives.array import Array, Equation, Primitive, Shape
from sardonyx.primitives.movement import RESHAPE, TRANSPOSE
from sardonyx.primitives.trace import Trace


class Rewriter:
    """Goes over the equations of a trace in order: each is kept, or others take its place.

    Arrays stay what they are for everything that reads them: `define` says anew how one is computed. Primitives that
    are called in a turn are recorded at its place.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._constants: dict[Array, bool] = {}

    def run(self, rule: Callable[[Equation], bool]) -> None:
        """Ask the rule for each equation; where it returns False, the equation is kept."""
        with self._recording() as equations:
            for equation in equations:
                self.trace.origin = equation.origin
                if not rule(equation):
                    self.trace.equations.append(equation)

    @contextmanager
    def _recording(self) -> Iterator[list[Equation]]:
        trace, origin = self.trace, self.trace.origin
        equations, trace.equations = trace.equations, []
        trace.forget()
        with trace:
            yield equations
        trace.origin = origin

    def record(
        self, primitive: Primitive, inputs: Sequence[Array], params: dict[str, Any], dtype: DType, shape: Shape
    ) -> Array:
        """The result of a new equation."""
        return self.trace.append(primitive, tuple(inputs), params, [(dtype, shape)])[0]

    def define(self, array: Array, primitive: Primitive, inputs: Sequence[Array], params: dict[str, Any]) -> None:
        """Have an Array be the output of a new equation from now on."""
        made = self.record(primitive, inputs, params, array.dtype, array.shape).equation
        assert made is not None
        made.outputs, array.equation = (array,), made

    def define_reshaped(self, array: Array, source: Array) -> None:
        """Have an Array be another one under its own shape."""
        self.define(array, RESHAPE, (source,), {"shape": array.shape})

    def define_transposed(self, array: Array, source: Array, perm: Sequence[int]) -> None:
        """Have an Array be another one with its axes in the order of `perm`."""
        self.define(array, TRANSPOSE, (source,), {"perm": tuple(perm)})

    def renamed(self, equation: Equation) -> Array:
        """The equation's one result under a new identity, so that `define` can say what the old one is."""
        (array,) = equation.outputs
        return self.record(equation.primitive, equation.inputs, equation.params, array.dtype, array.shape)

    def is_constant(self, array: Array) -> bool:
        """Whether an Array depends on weights alone."""
        stack = [array]
        while stack:
            top = stack[-1]
            equation = top.equation
            if top in self._constants:
                stack.pop()
            elif top.value is not None:
                self._constants[top] = True
            elif equation is None or not equation.primitive.pure or not equation.inputs:
                self._constants[top] = False
            elif waiting := [item for item in equation.inputs if item not in self._constants]:
                stack += reversed(waiting)
            else:
                self._constants[top] = all(self._constants[item] for item in equation.inputs)
        return self._constants[array]


def in_order(equations: Sequence[Equation]) -> list[Equation]:
    """The equations, each behind those that make what it reads, and otherwise in the order that they have."""
    makers = {output: equation for equation in equations for output in equation.outputs}
    done: set[Equation] = set()
    result: list[Equation] = []
    for equation in equations:
        stack = [equation]
        while stack:
            top = stack[-1]
            needed = [makers[x] for x in top.inputs if x in makers]
            waiting = [maker for maker in needed if maker not in done]
            if top in done or not waiting:
                stack.pop()
                if top not in done:
                    done.add(top)
                    result.append(top)
            else:
                stack += reversed(waiting)
    return result


def expand_composites(trace: Trace, keeps: Callable[[Equation], bool]) -> None:
    """Spell primitives in others, where that is how they are made and `keeps` does not say that there is a routine."""
    rewriter = Rewriter(trace)

    def rule(equation: Equation) -> bool:
        expand = equation.primitive.expand
        if expand is None or keeps(equation):
            return False
        results = expand(*equation.inputs, **equation.params)
        for output, result in zip(equation.outputs, results, strict=True):
            rewriter.define_reshaped(output, result)
        return True

    if any(equation.primitive.expand and not keeps(equation) for equation in trace.equations):
        rewriter.run(rule)
