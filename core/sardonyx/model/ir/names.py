"""Names for files: every Value of a graph has one, and within its sight no other Value has the same."""

from __future__ import annotations

from itertools import chain

from sardonyx.model.ir.model import Graph, Node, Value


def new_names(graph: Graph) -> dict[Value, str]:
    """The names of those Values that cannot keep their own: it is empty, or taken within sight.

    Inputs and outputs choose first. An unused output with an empty name keeps it. Those of a graph that onnxruntime
    knows by their names keep them, unless the graph uses a Value around it that has the same.
    """
    renamed: dict[Value, str] = {}
    seen: set[Value] = set()
    used: set[Value] | None = None
    counts: dict[str, int] = {}
    pending: list[tuple[Graph, tuple[set[str], ...], set[str]]] = [(graph, (), set())]
    for current, outer, fixed in pending:
        own: set[str] = set()
        sight = (*outer, own)
        unnamed: list[Value] = []
        for value in _values(current):
            if value in seen:
                continue
            seen.add(value)
            if not value.name:
                unnamed.append(value)
                continue
            if any(value.name in names for names in ((own,) if value.name in fixed else sight)):
                renamed[value] = _fresh(value.name, sight, counts)
            own.add(renamed.get(value, value.name))
        for value in unnamed:
            if used is None:
                used = _used(graph)
            if value in used or value.producer is None:
                renamed[value] = _fresh("value", sight, counts)
                own.add(renamed[value])
        pending.extend((inner, sight, _fixed(node, inner)) for node in current.nodes for inner in node.subgraphs())
    return renamed


def _fixed(node: Node, graph: Graph) -> set[str]:
    """The names of inputs and outputs that a graph of this node keeps."""
    if node.domain != "com.microsoft":
        return set()
    captured = {value.name for value in graph.captures()}
    return {value.name for value in chain(graph.inputs, graph.outputs)} - captured


def _values(graph: Graph) -> chain[Value]:
    sparse = (value for value, _ in graph.sparse_initializers)
    outputs = chain.from_iterable(node.outputs for node in graph.nodes)
    return chain(graph.inputs, graph.outputs, graph.initializers, sparse, outputs)


def _used(graph: Graph) -> set[Value]:
    used = set(graph.outputs)
    for node in graph.all_nodes():
        used.update(value for value in node.inputs if value is not None)
        for inner in node.subgraphs():
            used.update(inner.outputs)
    return used


def _fresh(name: str, sight: tuple[set[str], ...], counts: dict[str, int]) -> str:
    number = counts.get(name, 1)
    while any(f"{name}_{number}" in names for names in sight):
        number += 1
    counts[name] = number + 1
    return f"{name}_{number}"
