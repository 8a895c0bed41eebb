"""Which initializers of a network are its parameters, and which of them are its head."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.model.ir import Graph, Node, Tensor, Value
from sardonyx.training.reach import dependent

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


def parameters_of(graph: Graph, nodes: Sequence[Node]) -> list[Value]:
    """The parameters of these nodes of a network: the weights among its initializers, in their order."""
    found = {value for node in nodes for value in weights_of(node).values()}
    return [value for value in graph.initializers if value in found]


def weights_of(node: Node) -> dict[int, Value]:
    """By the places of its inputs, what a layer's weights are: constants of floats, of more than one element."""
    found = {}
    for place in PLACES.get(node.op_type, ()) if node.domain in ("", "ai.onnx") else ():
        value = node.inputs[place] if place < len(node.inputs) else None
        while value is not None and value.producer is not None and value.producer.op_type in VIEWS:
            value = value.producer.inputs[0]
        if value is None or not is_constant(value):
            continue
        tensor = value.constant if value.producer is None else value.producer.attribute("value")
        if isinstance(tensor, Tensor) and tensor.dtype.is_float and tensor.size > 1:
            found[place] = value
    return found


def is_constant(value: Value) -> bool:
    """Whether a value is an initializer, or the output of a node Constant."""
    return value.constant is not None or (value.producer is not None and value.producer.op_type == "Constant")


def head_of(nodes: Sequence[Node]) -> list[Node]:
    """The head of a network of these nodes: its last layer with weights, and what depends on that; empty without one.

    The nodes are in the graph's order.
    """
    layer = next((node for node in reversed(nodes) if node.op_type in HEADS and weights_of(node)), None)
    return dependent(nodes, [layer]) if layer is not None else []
