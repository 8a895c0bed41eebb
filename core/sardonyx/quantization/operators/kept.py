"""Nodes that stay as they are: what they take is there in floats, or is integers that they do not mind."""

from __future__ import annotations

from sardonyx.model.ir import Node
from sardonyx.quantization.network import names
from sardonyx.quantization.quantized_tensors import Quantized, QuantizedTensors


def keep(q: QuantizedTensors, node: Node) -> None:
    """The node itself, after what gives it floats."""
    for name in names(node.inputs):
        q.restore(name)
    for graph in node.subgraphs():
        for value in graph.captures():
            q.restore(value.name)
    q.emit(node)


def arg_max(q: QuantizedTensors, node: Node) -> None:
    """ArgMax(DequantizeLinear(x)) -> ArgMax(x)"""
    found = q.find_quantized_value(node.inputs[0].name)  # type: ignore[union-attr]
    if found is not None:
        q.network.set_input(node, 0, found.name)
    q.emit(node)


def movement(q: QuantizedTensors, node: Node) -> None:
    """Reshape(x), Transpose(x) ... -> the same of integers, with the scale of x; where x has none, the node stays."""
    taken = node.inputs[0].name  # type: ignore[union-attr]
    if not q.force_quantize_no_input_check:
        found = q.find_quantized_value(taken)
        if found is None:
            q.emit(node)
            return
        move(q, node, found)
        q.emit(node)
        return
    inputs = q.quantize_activation(node, [0]) if q.is_valid_quantize_weight(taken) else None
    if inputs is None:
        keep(q, node)
        return
    move(q, node, inputs.tensors[0])
    q.emit(*inputs.nodes, node)


def max_pool(q: QuantizedTensors, node: Node) -> None:
    """MaxPool of integers, which there is from operator set 12 on."""
    (keep if q.opset_version < 12 else movement)(q, node)


def resize(q: QuantizedTensors, node: Node) -> None:
    """Resize of integers, which there is from operator set 11 on."""
    (keep if q.opset_version < 11 else movement)(q, node)


def gather(q: QuantizedTensors, node: Node) -> None:
    """Gather(w, i) -> Gather of integers, with the scale of w"""
    inputs = q.quantize_activation(node, [0])
    if inputs is None:
        keep(q, node)
        return
    move(q, node, inputs.tensors[0])
    q.emit(*inputs.nodes, node)


def move(q: QuantizedTensors, node: Node, taken: Quantized) -> None:
    """Have a node take and give integers, with the same scale."""
    output = node.outputs[0].name
    made = Quantized(f"{output}_quantized", taken.scale, taken.zero)
    q.quantized[output] = made
    q.network.set_input(node, 0, taken.name)
    q.network.set_output(node, 0, made.name)
