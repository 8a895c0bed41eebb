"""Which nodes of a graph others depend on, and which depend on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sardonyx.model.ir import Node, Value


def read_by(node: Node) -> set[Value]:
    """What a node reads, its subgraphs included."""
    read = {value for value in node.inputs if value is not None}
    return read.union(*(inner.captures() for inner in node.subgraphs()))


def dependent(nodes: Sequence[Node], first: Collection[Node]) -> list[Node]:
    """Those of the nodes, which are in a graph's order, that are among `first` or depend on one that is."""
    reached: set[Value] = set()
    found = []
    for node in nodes:
        if node in first or read_by(node) & reached:
            found.append(node)
            reached.update(node.outputs)
    return found


def makers(nodes: Sequence[Node], values: Iterable[Value]) -> list[Node]:
    """Those of the nodes, which are in a graph's order, by which these values are made."""
    wanted = set(values)
    found = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            found.append(node)
            wanted |= read_by(node)
    return found[::-1]
