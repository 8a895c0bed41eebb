"""Types by inference: what is known of Values before the model runs.

A node is expanded under a trace whose sizes are symbols, so that inference and execution cannot disagree. Where the
expansion compares sizes that the algebra cannot order, every answer is tried, and what all of them agree on is known;
answers for which the expansion raises are left out, since no run survives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from sardonyx.array import Array, Trace
from sardonyx.compiler.interpret import Environment, expand
from sardonyx.dtypes import DType
from sardonyx.errors import RuntimeException
from sardonyx.ir import DimLike, Graph, Node, TensorType, Value
from sardonyx.symbolic import Dim, Guards, Poly, Size, UndecidedSizeError, poly, size, symbol

MOST_CASES = 16
"""Combinations of answers that are tried for one node."""

SMALL = 1 << 12
"""Elements up to which constants take part with their values; larger ones are not even read."""


class Inference:
    """Records `Value.type` node by node; `array` and `elements` tell what a type cannot say.

    Dimensions get names: those of the graph's inputs, expressions of these, or new names for sizes of which nothing is
    known. Equal names are equal sizes. A type without a shape is one whose rank is not known.
    """

    def __init__(self, graph: Graph) -> None:
        self._arrays: dict[Value, Array | None] = {}
        self._symbols: dict[str, Poly] = {}
        self._shown: dict[str, Poly] = {}
        self._count = 0
        declared = [dim for value in graph.inputs for dim in value.shape or ()]
        self._reserved = {dim for dim in declared if isinstance(dim, str)}
        for value in graph.inputs:
            if value.dtype is not None and value.shape is not None:
                self._arrays[value] = Array(value.dtype, tuple(map(self._size, value.shape)))

    # ---- asking

    def array(self, value: Value) -> Array | None:
        """What is known of a Value: element type, sizes and, if they are sizes themselves or constant, elements."""
        if value not in self._arrays and value.constant is not None:
            tensor = value.constant
            small = tensor.size <= SMALL and tensor.dtype.kind != "string"
            self._arrays[value] = Array(tensor.dtype, tensor.shape, tensor.array() if small else None)
        return self._arrays.get(value)

    def elements(self, value: Value) -> list[Size] | None:
        """The elements of an integer Value that is constant or computed from sizes."""
        array = self.array(value)
        if array is None or not array.dtype.is_int:
            return None
        known = array.sizes if array.sizes is not None else array.value
        return None if known is None else list(known.reshape(-1).tolist())

    # ---- telling

    def infer(self, node: Node) -> None:
        """Find out what the outputs of a node are; its inputs and its subgraphs come before it."""
        branches = list(node.subgraphs())
        found: Sequence[Array | None] = ()
        if branches:
            if node.op_type == "If":
                cases = [[self.array(value) for value in graph.outputs] for graph in branches]
                found = [self._join([_Case(arrays) for arrays in column]) for column in _columns(cases)]
        elif all(value is None or self.array(value) is not None for value in node.inputs):
            found = self._expand(node)
        for value, array in zip(node.outputs, [*found, *[None] * len(node.outputs)], strict=False):
            self.record(value, array)

    def record(self, value: Value, array: Array | None) -> None:
        self._arrays[value] = array
        if array is not None:
            value.type = TensorType(array.dtype, tuple(map(self._show, array.shape)))
        elif isinstance(value.type, TensorType):
            value.type = TensorType(value.type.dtype)

    def enter(self, graph: Graph) -> None:
        """Forget the shapes of a subgraph's inputs: those declared may not hold for every iteration."""
        for value in graph.inputs:
            self.record(value, None)

    def adopt(self, value: Value, old: Value) -> None:
        """Let a Value that replaces another be known at least as well."""
        if self.array(value) is None and old in self._arrays:
            if self._arrays[old] is not None:
                self.record(value, self._arrays[old])
            elif value.type is None:
                value.type = old.type

    # ---- sizes

    def _size(self, dim: DimLike) -> Size:
        """The size that a declared dimension stands for."""
        if isinstance(dim, int):
            return dim
        if dim is None:
            return size(self._fresh())
        if dim not in self._symbols:
            self._symbols[dim] = made = self._fresh()
            if dim.isidentifier():
                self._shown[str(made)] = symbol(dim)
        return size(self._symbols[dim])

    def _fresh(self, stem: str = "s") -> Poly:
        name = f"{stem}{self._count}"
        self._count += 1
        return self._fresh(stem) if name in self._reserved else symbol(name)

    def _show(self, dim: Size) -> DimLike:
        if not isinstance(dim, Dim):
            return dim
        return str(dim.poly.substitute(self._shown))

    # ---- expanding

    def _expand(self, node: Node) -> list[Array | None]:
        cases: list[list[_Case]] = []
        answers: list[bool] | None = []
        tried = 0
        while answers is not None:
            guards = _Answers(answers)
            try:
                arrays = self._run(node, guards)
            except RuntimeException:
                arrays = None
            except Exception:  # what cannot be inferred must not keep a model from running
                return []
            if arrays is not None:
                cases.append([_Case(array, guards.equations()) for array in arrays])
            answers = guards.next()
            tried += 1
            if tried == MOST_CASES:
                return []
        return [self._merge(column) for column in zip(*cases, strict=True)]

    def _run(self, node: Node, guards: Guards) -> list[Array | None]:
        trace = Trace(guards)
        environment: Environment = {}
        for value in node.inputs:
            if value is not None and (array := self.array(value)) is not None:
                known = array.value is not None or array.sizes is not None
                environment[id(value)] = array if known else trace.input(array.dtype, array.shape)
        with trace, np.errstate(all="ignore"):
            expand(node, environment)
        renamed = {name: self._fresh("?s" if name.startswith("?") else "s") for name in trace.fresh}
        return [_detached(environment.get(id(value)), renamed) for value in node.outputs]


