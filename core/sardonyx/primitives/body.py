"""Bodies of control flow: functions over Arrays, each traced by itself into a sub-plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record
from sardonyx.primitives.array import Array, Shape
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards

Outputs: TypeAlias = Sequence[Any]
"""Arrays; of branches also what `sardonyx.model.structure` arranges of them."""


@record
class Body:
    """A function traced for certain arguments; `retrace` does it again for other sizes.

    `arguments` are (dtype, shape) of the values that are passed at each call, their varying sizes being symbols that
    the sub-plan takes from the shapes it is given.
    """

    function: Callable[..., Outputs]
    arguments: list[tuple[DType, Shape]]
    outer: Trace
    symbols: dict[str, list[list[int]]] = field(default_factory=dict)
    captured: list[Array] = field(default_factory=list)
    repeated: bool = False
    """Whether it is the body of a loop,"""
    compares: bool = False
    """and whether its sizes are compared by the run."""

    def trace(self, hints: Mapping[str, int] | None = None) -> Trace:
        """The equations of the body; what it captures comes in the order of `captured`, which may grow."""
        guards = Guards(hints or active_hints(self.outer))
        outer = self.outer
        trace = Trace(guards, outer, early=outer.early, strings=outer.strings, repeated=self.repeated)
        trace.narrow, trace.compares = outer.narrow, outer.compares or self.compares
        with trace:
            arguments = [trace.input(dtype, shape) for dtype, shape in self.arguments]
            for array in self.captured:
                trace.materialise(array)
            results = self.function(*arguments)
            trace.give(results)
        self.captured = [outer for _, outer in trace.lifted.values()]
        return trace


def active_hints(trace: Trace) -> dict[str, int]:
    return dict(trace.guards.hints)
