"""Gemm as MatMul and Add, which dynamic quantization knows; and its factors, which integers do not have."""

from __future__ import annotations

from sardonyx.model.ir import Graph, Node, Tensor, TensorType, Value
from sardonyx.quantization.network import Network, names


def replace_gemm(graph: Graph) -> None:
    """Replace, in place and in subgraphs, every Gemm without factors and without a transposed A.

    A transposed B that is an initializer of this node alone is transposed now, another one by a node.
    """
    graphs = [graph, *(inner for node in graph.all_nodes() for inner in node.subgraphs())]
    uses: dict[Value, int] = {}
    used = (value for node in graph.all_nodes() for value in node.inputs)
    for value in (*used, *(output for each in graphs for output in each.outputs)):
        if value is not None:
            uses[value] = uses.get(value, 0) + 1
    alone = {value: each for each in graphs for value in each.initializers if uses.get(value) == 1}
    for each in graphs:
        each.nodes[:] = [made for node in each.nodes for made in _replaced(node, alone)]


def scaled_bias(network: Network, node: Node, factor: float) -> str:
    """The name of the constant C of a Gemm times a factor, which the node takes from now on."""
    bias = names(node.inputs)[2]
    if factor == 1:
        return bias
    held = network.initializers[bias]
    name = f"{bias}_of_{node.outputs[0].name}"
    network.keep(name, (held.array() * factor).astype(held.dtype.storage), held.dtype, held.typed)
    network.set_input(node, 2, name)
    return name


def _replaced(node: Node, alone: dict[Value, Graph]) -> list[Node]:
    factors = (node.attribute("alpha", 1.0), node.attribute("beta", 1.0))
    right = node.inputs[1] if len(node.inputs) > 1 else None
    if node.op_type != "Gemm" or node.domain or factors != (1.0, 1.0) or node.attribute("transA", 0) or right is None:
        return [node]
    made: list[Node] = []
    if node.attribute("transB", 0):
        if right in alone:
            _transpose(alone[right], right)
        else:
            made.append(_node("Transpose", [right], Value(f"{right.name}_Transposed"), node.name))
            right = made[-1].outputs[0]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    result = node.outputs[0]
    product = result if bias is None else Value(f"{result.name}_MatMul")
    made.append(_node("MatMul", [node.inputs[0], right], product, node.name))
    if bias is not None:
        made.append(_node("Add", [product, bias], result, node.name))
    return made


def _node(op_type: str, inputs: list[Value | None], output: Value, name: str) -> Node:
    made = Node(op_type, list(inputs), [output], name=f"{name}_{op_type}" if name else "")
    output.producer = made
    return made


def _transpose(graph: Graph, value: Value) -> None:
    old = value.constant
    assert old is not None
    shape = old.shape[::-1]
    value.constant = Tensor.of(old.array().T.copy(), old.dtype, old.name)
    value.type = TensorType(old.dtype, shape)
    graph.inputs[:] = [each for each in graph.inputs if each is not value]
