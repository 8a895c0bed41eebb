"""Which initializers of a network are its parameters, and which of them are its head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Node, Value

HEADS = ("Gemm", "MatMul", "Conv", "ConvTranspose")
"""The layers of which one is the head."""
PLACES = {
    **dict.fromkeys(("Gemm", "Conv", "ConvTranspose"), (1, 2)),
    **dict.fromkeys(("MatMul", "Add", "Mul"), (0, 1)),
    **dict.fromkeys(
        ("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"), (1, 2)
    ),
    **dict.fromkeys(("RMSNormalization", "PRelu"), (1,)),
    "Gather": (0,),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (1, 2, 3)),
}
"""The inputs of operators that are parameters, if initializers are given."""
VIEWS = ("Identity", "Transpose", "Reshape", "Unsqueeze", "Squeeze", "Cast")
"""What may stand between a parameter and its layer."""


def parameters_of(graph: Graph, nodes: Sequence[Node] | None = None) -> list[Value]:
    """The parameters of a network, or of some of its nodes, in the order of its initializers: floats of more than one
    element that layers are given.
    """
    found = {value for node in (graph.nodes if nodes is None else nodes) for value in _given(graph, node)}
    return [value for value in graph.initializers if value in found]


def _given(graph: Graph, node: Node) -> Iterator[Value]:
    """The parameters that a node is given."""
    constants = set(graph.initializers)
    for place in PLACES.get(node.op_type, ()) if node.domain in ("", "ai.onnx") else ():
        value = node.inputs[place] if place < len(node.inputs) else None
        while value is not None and value.producer is not None and value.producer.op_type in VIEWS:
            value = value.producer.inputs[0]
        tensor = value.constant if value in constants and value is not None else None
        if tensor is not None and tensor.dtype.is_float and tensor.size > 1:
            assert value is not None
            yield value


def head_of(graph: Graph) -> list[Node]:
    """The last layer of a network, with the nodes behind it. Raises InvalidArgument where there is none."""
    for node in reversed(graph.nodes):
        if node.op_type in HEADS and any(True for _ in _given(graph, node)):
            return dependent(graph, {node})
    raise InvalidArgument(f"--train head: the model has no {', '.join(HEADS[:-1])} or {HEADS[-1]} with weights")


def dependent(graph: Graph, first: set[Node]) -> list[Node]:
    """These nodes, and those that depend on them, in the graph's order."""
    reached: set[Value] = set()
    nodes = []
    for node in graph.nodes:
        read = {*node.inputs, *(value for inner in node.subgraphs() for value in _outer(inner))}
        if node in first or read & reached:
            nodes.append(node)
            reached.update(node.outputs)
    return nodes


def _outer(graph: Graph) -> Iterator[Value]:
    """All values that a subgraph names."""
    for node in graph.all_nodes():
        yield from (value for value in node.inputs if value is not None)
    yield from graph.outputs
