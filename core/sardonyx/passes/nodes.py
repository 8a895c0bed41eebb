"""New nodes of a graph, one after another, with the constants that they take."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.model.ir import Graph, Node, Value
from sardonyx.model.ir.build import constant, node


class Nodes:
    """Nodes that are `made` for a graph, named `prefix/0`, `prefix/1` ...; constants become initializers at once."""

    def __init__(self, graph: Graph, prefix: str) -> None:
        self._graph = graph
        self._prefix = prefix
        self._known = set(graph.initializers)
        self.made: list[Node] = []

    def add(self, op_type: str, *inputs: Value, **attributes: Any) -> Value:
        """What a new node makes."""
        (value,) = self.add_many(1, op_type, *inputs, **attributes)
        return value

    def add_many(self, count: int, op_type: str, *inputs: Value, **attributes: Any) -> list[Value]:
        """All `count` things that a new node makes."""
        name = f"{self._prefix}/{len(self.made)}"
        made = node(op_type, inputs, [name, *(f"{name}/{k}" for k in range(1, count))], attributes, name=name)
        self.made.append(made)
        for value in inputs:
            if value.constant is not None and value not in self._known:
                self._known.add(value)
                self._graph.initializers.append(value)
                value.name = value.name or f"{made.name}/constant{len(self._graph.initializers)}"
        return made.outputs


def floats(values: Any) -> Value:
    """A constant of float32."""
    return constant(np.asarray(values, np.float32))


def integers(values: Any) -> Value:
    """A constant of int64."""
    return constant(np.asarray(values, np.int64))
