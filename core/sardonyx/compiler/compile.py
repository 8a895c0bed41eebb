"""The way from a graph and the sizes of one call to a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sardonyx import dtypes
from sardonyx.array import Shape, TooEarlyError, Trace
from sardonyx.compiler.interpret import Environment, interpret
from sardonyx.compiler.schedule import WeightTable, schedule
from sardonyx.device import Provider
from sardonyx.ir import Graph, Value
from sardonyx.plan import Plan
from sardonyx.symbolic import Guards, Size


class Compiler:
    """Makes plans for one graph, which is in the newest operator set and is not changed any more.

    `fed` names initializers that are inputs here: the call gives them.
    """

    def __init__(
        self, graph: Graph, providers: Sequence[Provider], weights: WeightTable, fed: Collection[str] = ()
    ) -> None:
        self.graph = graph
        self.providers = providers
        self.weights = weights
        initialized = {id(value) for value in graph.initializers if value.name not in fed}
        self.inputs = [value for value in graph.inputs if id(value) not in initialized]

    def compile_early(self) -> Plan | None:
        """The plan that a model needs no call for: all of its sizes are declared, and none depends on data."""
        if not all(isinstance(size, int) for value in self.inputs for size in value.shape or (None,)):
            return None
        try:
            return self.compile([_blank(value) for value in self.inputs], {}, early=True)
        except TooEarlyError:
            return None

    def compile(self, feeds: Sequence[np.ndarray], hints: Mapping[str, int], early: bool = False) -> Plan:
        """The plan for feeds of these shapes, and for whatever other sizes satisfy its guards.

        `hints` are numbers that an earlier run of this graph found for sizes that depend on data.
        """
        trace, symbols = self.trace(feeds, hints, early)
        names = [value.name for value in self.graph.outputs]
        return schedule(trace, self.providers, self.weights, [value.name for value in self.inputs], names, symbols)

    def trace(
        self, feeds: Sequence[np.ndarray], hints: Mapping[str, int], early: bool = False
    ) -> tuple[Trace, dict[str, list[list[int]]]]:
        """The equations of the graph, and which input axes its symbols stand for."""
        trace = Trace(Guards(hints), early=early)
        symbols: dict[str, list[list[int]]] = {}
        names: dict[tuple[str, int], Size] = {}
        environment: Environment = {}
        for number, (value, feed) in enumerate(zip(self.inputs, feeds, strict=True)):
            shape = _shape(number, value, feed.shape, trace.guards, symbols, names)
            array = trace.input(value.dtype or dtypes.of(feed.dtype), shape, value.name)
            trace.feeds[id(array)] = feed
            environment[id(value)] = array
        with trace:
            trace.outputs = [trace.materialise(array) for array in interpret(self.graph, environment)]
        return trace, symbols


def _blank(value: Value) -> np.ndarray:
    """An array of an input's declared type; only its shape and type are looked at."""
    shape = [size for size in value.shape or () if isinstance(size, int)]
    return np.broadcast_to(np.zeros((), (value.dtype or dtypes.float32).storage), shape)


def _shape(
    number: int,
    value: Value,
    sizes: tuple[int, ...],
    guards: Guards,
    symbols: dict[str, list[list[int]]],
    names: dict[tuple[str, int], Size],
) -> Shape:
    """The shape of an input: a symbol for each name of a dimension, unless this call feeds it two different sizes."""
    declared = value.shape if value.shape is not None else (None,) * len(sizes)
    shape: list[Size] = []
    for axis, (dim, given) in enumerate(zip(declared, sizes, strict=True)):
        if isinstance(dim, int):
            shape.append(dim)
            continue
        key = (dim or f"{number}.{axis}", given)
        if key not in names:
            names[key] = guards.symbol(f"s{len(names)}", given)
        symbols.setdefault(str(names[key]), []).append([number, axis])
        shape.append(names[key])
    return tuple(shape)
