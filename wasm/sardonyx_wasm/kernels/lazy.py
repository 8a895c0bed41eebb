"""Where a condition that is the same for all lanes decides, only one side of a `where` need be computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sardonyx.code.cost import cost
from sardonyx.common.record import record

from .graph import Graph

Test: TypeAlias = Callable[[int], bool]
_WORTH = 4
"""A branch costs about as much as this many operations."""


@record(frozen=True)
class Branch:
    """The nodes that only one side of a `where` needs, in order."""

    yes: tuple[int, ...]
    no: tuple[int, ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        return self.yes + self.no


def branches(graph: Graph, levels: list[int], is_vector: Test, is_spread: Test) -> dict[int, Branch]:
    """The `where` nodes that are worth a branch."""
    result: dict[int, Branch] = {}
    for node, (function, _, operands, _) in enumerate(graph.nodes):
        if function != "where" or not is_vector(node) or is_spread(operands[0]):
            continue
        condition, *sides = operands
        yes, no = (alone(graph, levels, node, side) if sides.count(side) == 1 else () for side in sides)
        if condition not in sides and sum(cost(graph.nodes[one][0]) for one in yes + no) >= _WORTH:
            result[node] = Branch(yes, no)
    return result


def alone(graph: Graph, levels: list[int], node: int, side: int) -> tuple[int, ...]:
    """What only this side of the node needs, of what is computed in the same loop."""
    only: set[int] = set()
    for number in range(side, -1, -1):
        users = graph.users[number]
        if levels[number] != levels[node] or graph.nodes[number][0] == "const":
            continue
        if users == [node] if number == side else users and all(user in only for user in users):
            only.add(number)
    return tuple(sorted(only))
