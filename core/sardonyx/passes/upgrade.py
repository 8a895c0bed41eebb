"""Models of every operator set, lifted to the newest: the only one that the rest of the engine knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sardonyx import errors, ops
from sardonyx.model.ir import Graph, Model, Node, Value
from sardonyx.model.ir.build import node as new_node
from sardonyx.ops.operator import Rewriter, Upgrade

NEWEST = {"": 28, "ai.onnx.ml": 5}
"""The newest operator set of each domain that has more than one."""


def upgrade(model: Model) -> Model:
    """Lift the nodes of the graph, its subgraphs and the functions to the newest operator sets, in place.

    Every node goes through the `upgrades` of its operator from the model's operator set on, in order of versions; new
    nodes stand just before the one they belong to. Values keep their names. Unknown operators stay as they are; an
    operator set newer than `NEWEST` raises NotImplemented.
    """
    model.opset_imports = _lift([model.graph], model.opset_imports)
    for function in model.functions.values():
        function.opset_imports = _lift([function.graph], function.opset_imports or model.opset_imports)
    return model


def _lift(graphs: list[Graph], imports: Mapping[str, int]) -> dict[str, int]:
    """Lift these graphs and those inside them; the list grows. Gives the new imports."""
    versions = _versions(imports)
    if any(version < NEWEST.get(domain, version) for domain, version in versions.items()):
        for graph in graphs:
            graph.nodes = [lifted for node in graph.nodes for lifted in _lift_node(graph, node, versions)]
            graphs += (inner for node in graph.nodes for inner in node.subgraphs())
    return versions | {domain: NEWEST[domain] for domain in versions if domain in NEWEST}


def lift(graph: Graph, node: Node, imports: Mapping[str, int]) -> Iterator[Node]:
    """The nodes that stand in the newest operator sets for one of these; new constants become the graph's."""
    return _lift_node(graph, node, _versions(imports))


def _versions(imports: Mapping[str, int]) -> dict[str, int]:
    """The version of each domain; NotImplemented where one is too new."""
    versions = {"" if domain == "ai.onnx" else domain: version for domain, version in imports.items()}
    versions.setdefault("", 1)
    for domain, version in versions.items():
        newest = NEWEST.get(domain, version)
        if version > newest:
            raise errors.NotImplemented(
                f"the model is written in operator set {version} of {domain or 'ai.onnx'}, and {newest} is the newest "
                f"that is known; export it with opset_version={newest} or lower"
            )
    return versions


def _lift_node(graph: Graph, node: Node, versions: Mapping[str, int]) -> Iterator[Node]:
    """The nodes that stand for a node of older operator sets."""
    version = versions.get("" if node.domain == "ai.onnx" else node.domain, 1)
    if version < 6:
        node.attributes.pop("consumed_inputs", None)
    make = Rewriter()
    replaced = False
    while not replaced and (due := _next(node, version)):
        version, lift = due
        try:
            replacement = lift(node, make)
        except errors.SardonyxError:
            raise
        except Exception as error:
            own = versions.get(node.domain, 1)
            raise errors.InvalidGraph(f"{node.label} is no {node.op_type} of operator set {own}: {error}") from error
        if replacement is not None:
            _take_over(node, replacement, make)
            replaced = True
    lifted = make.nodes if replaced else [*make.nodes, node]
    for each in make.nodes:
        each.name = each.name or node.name
    graph.initializers += dict.fromkeys(
        value
        for each in lifted
        for value in each.inputs
        if value is not None and value.constant is not None and not value.name
    )
    yield from lifted


def _next(node: Node, version: int) -> tuple[int, Upgrade] | None:
    """The first form of the node's operator after this version, and what leads to it."""
    operator = ops.find(node.domain, node.op_type)
    later = [form for form in operator.upgrades if form > version] if operator else []
    return (min(later), operator.upgrades[min(later)]) if operator and later else None


def _take_over(node: Node, replacement: Sequence[Value], make: Rewriter) -> None:
    """Make the outputs of a node, which others use, the outputs of the nodes that replace it."""
    taken: dict[Value, Value] = {}
    for old, new in zip(node.outputs, replacement, strict=False):
        producer = new.producer
        if producer in make.nodes and new not in taken:
            assert producer is not None
            producer.outputs[producer.outputs.index(new)] = old
            old.producer = producer
            taken[new] = old
        else:
            copy = new_node("Identity", [taken.get(new, new)])
            copy.outputs, old.producer = [old], copy
            make.nodes.append(copy)
    for each in make.nodes:
        each.inputs = [value if value is None else taken.get(value, value) for value in each.inputs]
