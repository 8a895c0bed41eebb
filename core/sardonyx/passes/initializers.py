"""Where constants are listed: as initializers of the innermost graph around all that use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sardonyx.common.record import replace
from sardonyx.model.ir import Graph, Value

Path = tuple[Graph, ...]
"""A graph, after those around it."""


def place_constants(graph: Graph) -> None:
    """List the constants that are in use, in this graph and in those inside it, as their initializers.

    The order is that of the present initializers, then that of first use.
    """
    homes: dict[Value, Path] = {}
    listed: list[Value] = []
    pending: list[Path] = [(graph,)]
    for path in pending:
        current = path[-1]
        listed += current.initializers
        for value in current.outputs:
            if value.constant is not None:
                homes[value] = path
        for node in current.nodes:
            for used in node.inputs:
                if used is not None and used.constant is not None:
                    homes[used] = _common(homes.get(used, path), path)
            pending += ((*path, inner) for inner in node.subgraphs())
    for path in pending:
        path[-1].initializers = []
        for place, value in enumerate(path[-1].outputs):
            if value.constant is not None and homes[value] != path:
                path[-1].outputs[place] = own = replace(value)
                homes[own] = path
    for value in dict.fromkeys([*listed, *homes]):
        if value in homes:
            homes[value][-1].initializers.append(value)


def _common(one: Path, other: Path) -> Path:
    count = sum(1 for a, b in zip(one, other) if a is b)
    return one[:count]


@contextmanager
def fed_apart(graph: Graph) -> Iterator[None]:
    """Within the block, initializers that are inputs too hold no constants, since they can be fed.

    Afterwards they hold them again, and come first.
    """
    inputs = set(graph.inputs)
    fed = {value: value.constant for value in graph.initializers if value in inputs}
    for value in fed:
        value.constant = None
    yield
    for value, tensor in fed.items():
        value.constant = tensor
    graph.initializers[:0] = fed
