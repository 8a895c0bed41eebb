"""Optimized models, put back into the operator set in which they came: what is written has to be read elsewhere.

Inside, only the newest form of an operator exists. Each node says how far back it can be put; the model keeps its
operator set, or gets the first one in which all of its nodes can be said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from math import prod
from os.path import basename

from sardonyx import ops
from sardonyx.model.ir import Graph, Model, Node
from sardonyx.model.serde.writer import LIMIT, save
from sardonyx.ops.operator import Downgrade, Lift, Operator
from sardonyx.passes.copy import copy_model
from sardonyx.passes.upgrade import NEWEST

IR_VERSIONS = {21: 10, 22: 10, 23: 11, 24: 12, 25: 12, 26: 13, 27: 14, 28: 14}
"""The first IR version that goes with an operator set of ai.onnx, where a later one than `OLDEST` is asked for."""
OLDEST = 8


def lower(model: Model, imports: Mapping[str, int]) -> Model:
    """Put a model of the newest operator sets back, in place, as near to `imports` as its nodes allow.

    Domains that `imports` does not name, as of fused nodes, get the oldest operator set that has all of their nodes.
    """
    wanted = {"" if domain == "ai.onnx" else domain: version for domain, version in imports.items()}
    versions: dict[str, int] = {}
    for node in _nodes(model.graph):
        domain = "" if node.domain == "ai.onnx" else node.domain
        versions[domain] = max(versions.get(domain, wanted.get(domain, 1)), _oldest(node))
    for node in _nodes(model.graph):
        domain = "" if node.domain == "ai.onnx" else node.domain
        for _, downgrade in _forms(node, versions[domain]):
            downgrade(node)
    _drop_unused(model.graph)
    _name(model.graph)
    model.opset_imports = {**wanted, **versions}
    newest = model.opset_imports.setdefault("", 1)
    if newest > wanted.get("", 1):
        model.ir_version = max(model.ir_version, IR_VERSIONS.get(newest, OLDEST))
    return model


def save_lowered(
    model: Model, imports: Mapping[str, int], path: str, external_data: str = "", threshold: int = 1024
) -> None:
    """Write a copy of a model of the newest operator sets, as near to `imports` as its nodes allow.

    With `external_data`, a file name, initializers of `threshold` bytes and more go into that file in the same folder.
    What protobuf does not take, 2 GiB and more, has its tensors in a file beside it, named like it with `.data`.
    """
    tensors = [value.constant for value in model.graph.initializers if value.constant is not None]
    sizes = [prod(tensor.shape) * tensor.dtype.bits // 8 for tensor in tensors]
    beside = external_data if external_data and max(sizes, default=-1) >= threshold else None
    if beside is None and sum(sizes) > LIMIT * 0.9:
        beside = f"{basename(path)}.data"
    save(lower(copy_model(model), imports), path, external_data=beside, threshold=threshold)


def _drop_unused(graph: Graph) -> None:
    """Remove constants that no node uses any more, since attributes hold them."""
    used = {value for node in _nodes(graph) for value in node.inputs if value is not None}
    used |= {*graph.inputs, *graph.outputs}
    for node in _nodes(graph):
        used |= {value for inner in node.subgraphs() for value in inner.outputs}
    graph.initializers = [value for value in graph.initializers if value in used]


def _name(graph: Graph) -> None:
    """Let no two nodes have one name, which onnxruntime refuses."""
    taken: set[str] = set()
    for node in _nodes(graph):
        name, count = node.name, 1
        while name and name in taken:
            count += 1
            name = f"{node.name}_{count}"
        taken.add(name)
        node.name = name


def _nodes(graph: Graph) -> Iterator[Node]:
    graphs = [graph]
    while graphs:
        for node in graphs.pop().nodes:
            yield node
            graphs += node.subgraphs()


def _oldest(node: Node) -> int:
    """The oldest operator set that can say what a node of the newest form says."""
    operator = ops.find(node.domain, node.op_type)
    trial = copy(node)
    trial.inputs, trial.attributes = list(node.inputs), dict(node.attributes)
    for form, downgrade in _forms(node, 0):
        if not downgrade(trial):
            return max(form, operator.since if operator else 1)
    return operator.since if operator else 1


def _forms(node: Node, version: int) -> list[tuple[int, Downgrade]]:
    """The changes of form after an operator set, the last one first, with the way back before each."""
    operator = ops.find(node.domain, node.op_type)
    if operator is None or operator.domain not in NEWEST:
        return []
    forms = {*operator.upgrades, *operator.downgrades}
    return [(form, _downgrade(operator, form)) for form in sorted(forms, reverse=True) if form > version]


def _downgrade(operator: type[Operator], form: int) -> Downgrade:
    if form in operator.downgrades:
        return operator.downgrades[form]
    upgrade = operator.upgrades[form]
    return upgrade.lower if isinstance(upgrade, Lift) else _impossible


def _impossible(node: Node) -> bool:
    return False
