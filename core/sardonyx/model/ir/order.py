"""The order of nodes: whether every Value is made before it is used, and how to bring it about."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain

from sardonyx.errors import InvalidGraph
from sardonyx.model.ir.model import Graph, Node, Value


def is_sorted(graph: Graph) -> bool:
    """Whether every node, in subgraphs too, comes after those that make what it uses."""
    defined: set[Value] = set()
    stack: list[tuple[Iterator[Node], Node | None]] = [(iter(graph.nodes), None)]
    while stack:
        nodes, holder = stack[-1]
        node = next(nodes, None)
        if node is None:
            stack.pop()
            if holder is not None:
                if not _all_defined(chain.from_iterable(inner.outputs for inner in holder.subgraphs()), defined):
                    return False
                defined.update(holder.outputs)
            continue
        if not _all_defined(node.inputs, defined):
            return False
        inner_nodes = [inner.nodes for inner in node.subgraphs()]
        if inner_nodes:
            stack.append((chain.from_iterable(inner_nodes), node))
        else:
            defined.update(node.outputs)
    return True


def _all_defined(values: chain[Value] | list[Value | None], defined: set[Value]) -> bool:
    return all(value is None or value.producer is None or value in defined for value in values)


def sort(graph: Graph) -> None:
    """Sorts the nodes of a graph and of its subgraphs, in place; nodes that are ready stay in their present order.

    InvalidGraph names the nodes of a cycle.
    """
    for each in [graph, *(inner for node in graph.all_nodes() for inner in node.subgraphs())]:
        each.nodes[:] = _sorted(each.nodes)


def _sorted(nodes: list[Node]) -> list[Node]:
    index = {value: position for position, node in enumerate(nodes) for value in node.outputs}
    needs = [{index[value] for value in uses(node) if value in index} for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for position, needed in enumerate(needs):
        for maker in needed:
            users[maker].append(position)
    waiting = [len(needed) for needed in needs]
    ready = [position for position, count in enumerate(waiting) if not count]
    ordered: list[Node] = []
    while ready:
        position = heapq.heappop(ready)
        ordered.append(nodes[position])
        for user in users[position]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    if len(ordered) < len(nodes):
        raise InvalidGraph(f"nodes wait for each other: {' needs '.join(_cycle(nodes, needs, waiting))}")
    return ordered


def _cycle(nodes: list[Node], needs: list[set[int]], waiting: list[int]) -> list[str]:
    """The labels along one cycle, the first of them again at the end."""
    position = next(position for position, count in enumerate(waiting) if count)
    path: list[int] = []
    seen: set[int] = set()
    while position not in seen:
        seen.add(position)
        path.append(position)
        position = next(maker for maker in needs[position] if waiting[maker])
    cycle = [nodes[each].label for each in path[path.index(position) :]]
    return [*cycle[:8], *(["..."] if len(cycle) > 8 else []), cycle[0]]


def uses(node: Node) -> Iterator[Value]:
    """Every Value that a node uses: its inputs, and whatever its subgraphs use or give back."""
    yield from (value for value in node.inputs if value is not None)
    graphs = list(node.subgraphs())
    for graph in graphs:
        yield from graph.outputs
        for inner in graph.nodes:
            yield from (value for value in inner.inputs if value is not None)
            graphs.extend(inner.subgraphs())
