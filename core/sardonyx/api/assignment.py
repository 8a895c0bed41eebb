"""Which nodes run on which execution provider, as onnxruntime tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sardonyx.common.record import field, record
from sardonyx.model.ir import Graph, Node
from sardonyx.plans.plan import Plan


@record(frozen=True)
class OrtEpAssignedNode:
    """A node of the optimized model; `domain` is "" for ai.onnx."""

    name: str
    domain: str
    op_type: str


@record(frozen=True)
class OrtEpAssignedSubgraph:
    """Nodes that run on one provider: each stands alone, since none is compiled with others into one."""

    ep_name: str
    _nodes: list[OrtEpAssignedNode] = field(repr=False)

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        return list(self._nodes)


def assigned(graph: Graph, plan: Plan, titles: Mapping[str, str]) -> list[OrtEpAssignedSubgraph]:
    """Where the nodes of a graph run by a plan, those inside a node before it; `titles` renames providers.

    A node of which nothing is left is on the first provider, and constants are no nodes, as in onnxruntime.
    """
    places = _placement(plan)
    subgraphs = []
    for node in _nodes(graph):
        name = places.get(node.label, plan.devices[0])
        told = OrtEpAssignedNode(node.name, node.domain, node.op_type)
        subgraphs.append(OrtEpAssignedSubgraph(titles.get(name, name), [told]))
    return subgraphs


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        for inner in node.subgraphs():
            yield from _nodes(inner)
        if node.op_type != "Constant":
            yield node


def _placement(plan: Plan) -> dict[str, str]:
    """The providers of nodes by their labels, those in control flow, too."""
    providers: dict[str, str] = {}
    for function in plan.functions:
        for inner in function:
            providers |= _placement(inner)
    labels = zip(plan.nodes, plan.placement, strict=True)
    return providers | {label: plan.devices[device] for label, device in labels if device >= 0}
