"""The way from a graph and the sizes of one call to a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sardonyx import dtypes
from sardonyx.array import Array, Shape, Trace
from sardonyx.compiler.interpret import Environment, interpret
from sardonyx.compiler.schedule import Scheduler, WeightTable
from sardonyx.device import Provider
from sardonyx.ir import Graph, TensorType, Value
from sardonyx.plan import Plan
from sardonyx.symbolic import Guards, Size


class Compiler:
    """Makes plans for one graph. The graph is in the newest operator set and is not changed any more."""

    def __init__(self, graph: Graph, providers: Sequence[Provider], weights: WeightTable) -> None:
        self.graph = graph
        self.providers = providers
        self.weights = weights
        initialized = {id(value) for value in graph.initializers}
        self.inputs = [value for value in graph.inputs if id(value) not in initialized]
        self.labels = [node.label for node in graph.nodes]

    def compile(self, feeds: Sequence[np.ndarray], hints: Mapping[str, int] | None = None) -> Plan:
        """The plan for feeds of these shapes, and for whatever other sizes satisfy its guards.

        `hints` are numbers that an earlier run of this graph found for sizes that depend on data.
        """
        trace, symbols = self.trace(feeds, hints or {})
        device_of = self.partition(trace)
        plan = Scheduler(trace, self.providers, device_of, self.weights).plan(
            [value.name for value in self.inputs],
            [value.name for value in self.graph.outputs],
            symbols,
            self.labels,
        )
        plan.placement = self._placement(trace, device_of)
        return plan

    def trace(self, feeds: Sequence[np.ndarray], hints: Mapping[str, int]) -> tuple[Trace, dict[str, list[list[int]]]]:
        """The equations of the graph, and which input axes its symbols stand for."""
        guards = Guards()
        trace = Trace(guards, hints)
        symbols: dict[str, list[list[int]]] = {}
        names: dict[tuple[str, int], Size] = {}
        environment: Environment = {}
        for number, (value, feed) in enumerate(zip(self.inputs, feeds, strict=True)):
            shape = self._shape(number, value, feed.shape, guards, symbols, names)
            kind = value.type
            dtype = kind.dtype if isinstance(kind, TensorType) and kind.dtype else dtypes.of(feed.dtype)
            array = Array(dtype, shape, name=value.name)
            trace.inputs.append(array)
            trace.feeds[id(array)] = feed
            environment[id(value)] = array
        with trace:
            trace.outputs = [trace.materialise(array) for array in interpret(self.graph, environment)]
        return trace, symbols

    def _shape(
        self,
        number: int,
        value: Value,
        sizes: tuple[int, ...],
        guards: Guards,
        symbols: dict[str, list[list[int]]],
        names: dict[tuple[str, int], Size],
    ) -> Shape:
        declared = value.shape if value.shape is not None else (None,) * len(sizes)
        shape: list[Size] = []
        for axis, (dim, size) in enumerate(zip(declared, sizes, strict=True)):
            if isinstance(dim, int):
                shape.append(dim)
                continue
            key = (dim or f"{number}.{axis}", size)
            if key not in names:
                names[key] = guards.symbol(f"s{len(names)}", size)
            symbols.setdefault(str(names[key]), []).append([number, axis])
            shape.append(names[key])
        return tuple(shape)

    def partition(self, trace: Trace) -> dict[int, int]:
        """The provider of every equation: whole ONNX nodes go to the first provider that can do all of them."""
        able: dict[int, list[bool]] = {}
        for equation in trace.equations:
            inputs = [array.dtype for array in equation.inputs]
            outputs = [array.dtype for array in equation.outputs]
            row = able.setdefault(equation.origin, [True] * len(self.providers))
            for k, provider in enumerate(self.providers):
                row[k] = row[k] and provider.supports(equation.primitive.name, inputs, outputs, equation.params)
        chosen = {}
        for origin, row in able.items():
            if True not in row:
                label = self.labels[origin] if 0 <= origin < len(self.labels) else "the graph"
                names = ", ".join(provider.name for provider in self.providers)
                raise NotImplementedError(
                    f"{label}: none of {names} can run it; add NumpyExecutionProvider to the providers"
                )
            chosen[origin] = row.index(True)
        return {id(equation): chosen[equation.origin] for equation in trace.equations}

    def _placement(self, trace: Trace, device_of: dict[int, int]) -> list[int]:
        """The provider of every ONNX node, -1 for one that nothing is left of."""
        placement = [-1] * len(self.labels)
        for equation in trace.equations:
            if 0 <= equation.origin < len(placement):
                placement[equation.origin] = device_of[id(equation)]
        return placement
