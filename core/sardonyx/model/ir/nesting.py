"""How deeply graphs may nest: passes and tracing follow subgraphs by recursion, which must end before Python's does."""

from __future__ import annotations

from sardonyx.errors import InvalidGraph
from sardonyx.model.ir.model import Graph

DEPTH = 32
"""Levels of subgraphs, the model's own graph being the first; real models have five or six."""


def refuse_deep(graph: Graph) -> None:
    """Raises InvalidGraph, which names a node on the way down, where graphs nest more than `DEPTH` deep."""
    level = [graph]
    for _ in range(DEPTH):
        holders = [(node, inner) for each in level for node in each.nodes for inner in node.subgraphs()]
        if not holders:
            return
        level = [inner for _, inner in holders]
    node, _ = holders[0]
    raise InvalidGraph(f"{node.label}: graphs nest more than {DEPTH} deep; flatten the control flow")
