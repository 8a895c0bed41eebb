"""Which nodes run on which execution provider, as onnxruntime tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from sardonyx.plan import Plan


@dataclass(frozen=True)
class OrtEpAssignedNode:
    """A node of the optimized model; `domain` is "" for ai.onnx."""

    name: str
    domain: str
    op_type: str


@dataclass(frozen=True)
class OrtEpAssignedSubgraph:
    """Nodes that run in a row on one provider."""

    ep_name: str
    _nodes: list[OrtEpAssignedNode] = field(repr=False)

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        return list(self._nodes)


def assigned(plan: Plan) -> list[OrtEpAssignedSubgraph]:
    """Where the nodes of a plan run, in its order; those of which nothing is left are on no provider."""
    placed = [(plan.devices[device], label) for label, device in zip(plan.nodes, plan.placement) if device >= 0]
    return [
        OrtEpAssignedSubgraph(name, [_node(label) for _, label in group])
        for name, group in groupby(placed, lambda item: item[0])
    ]


def _node(label: str) -> OrtEpAssignedNode:
    """The node that errors call by this label (`Node.label`)."""
    operator, _, name = label.partition(" ")
    domain, _, op_type = operator.rpartition(".")
    return OrtEpAssignedNode(name[1:-1], domain, op_type)
