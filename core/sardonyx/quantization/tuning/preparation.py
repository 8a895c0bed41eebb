"""A model as quantizers want it: constants folded, normalization in convolutions, every node with a name of its own."""

from __future__ import annotations

from sardonyx.api.options import SessionOptions
from sardonyx.model.ir import Model, Node
from sardonyx.passes.downgrade import lower
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.passes.optimize import optimize
from sardonyx.passes.pipeline import prepare

OLDEST = 13
"""The first operator set of ai.onnx in which each channel may have a scale."""


def plain(model: Model) -> Model:
    """A copy in the newest operator sets, without functions, and with nothing optimized."""
    result = prepare(model, SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL))
    result.graph.initializers = list(dict.fromkeys(result.graph.initializers))  # upgrades add one for each use
    return result


def prepared(model: Model) -> Model:
    """A copy, optimized as any runtime gains by, in the model's operator set or the first that quantizing needs."""
    optimized = optimize(plain(model), GraphOptimizationLevel.ORT_ENABLE_BASIC)
    imports = {"" if domain == "ai.onnx" else domain: version for domain, version in model.opset_imports.items()}
    result = lower(optimized, imports | {"": max(imports.get("", 1), OLDEST)})
    _name(result)
    return result


def _name(model: Model) -> None:
    """Give each node without a name one that tells what it is."""
    taken = {node.name for node in model.graph.all_nodes()}
    for node in model.graph.all_nodes():
        if not node.name:
            first = next((value.name for value in node.outputs if value.name), "node")
            name, number = f"{node.op_type}_{first}", 1
            while name in taken:
                number += 1
                name = f"{node.op_type}_{first}_{number}"
            node.name = name
            taken.add(name)


def by_name(model: Model) -> dict[str, Node]:
    """The nodes of a model's own graph by their names."""
    return {node.name: node for node in model.graph.nodes}
