"""Which operators are quantized, in each form, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sardonyx.common.record import record
from sardonyx.model.ir import Node
from sardonyx.quantization.enums import QuantizationMode
from sardonyx.quantization.network import names
from sardonyx.quantization.operators import integer, kept, qdq, qlinear
from sardonyx.quantization.qdq_marks import QDQMarks
from sardonyx.quantization.quantized_tensors import QuantizedTensors

Test: TypeAlias = Callable[[QuantizedTensors, Node], bool]


def of_floats(q: QuantizedTensors, node: Node) -> bool:
    """Whether a node is chosen, and its first input is known to hold floats."""
    return q.should_quantize_node(node) and q.is_float_tensor(names(node.inputs)[0])


def chosen(q: QuantizedTensors, node: Node) -> bool:
    """Whether a node is chosen."""
    return q.should_quantize_node(node)


def of_constant(q: QuantizedTensors, node: Node) -> bool:
    """Whether a node is chosen, and its first input is an initializer of floats."""
    return q.should_quantize_node(node) and q.is_valid_quantize_weight(names(node.inputs)[0])


def product(q: QuantizedTensors, node: Node) -> bool:
    """Whether a product is chosen, one of its inputs holds floats, and the second is constant if that is asked."""
    if not q.should_quantize_node(node):
        return False
    first, second = names(node.inputs)[:2]
    if not q.is_float_tensor(second) and not q.is_float_tensor(first):
        return False
    return not q.q_matmul_const_b_only or q.find_initializer_in_path(second)


def always(q: QuantizedTensors, node: Node) -> bool:
    """Yes: the operator decides by itself."""
    return True


@record(frozen=True)
class Operator:
    """What becomes of a node, and whether it applies to it; where it does not, the node stays in floats."""

    quantize: Callable[[QuantizedTensors, Node], None]
    applies: Test = of_floats


CommonOpsRegistry = {
    "Gather": Operator(kept.gather, of_constant),
    "Transpose": Operator(kept.movement),
    "EmbedLayerNormalization": Operator(integer.embed_layer_normalization, chosen),
}
IntegerOpsRegistry = {
    "Conv": Operator(integer.conv),
    "MatMul": Operator(integer.mat_mul, product),
    "Attention": Operator(integer.attention, chosen),
    "LSTM": Operator(integer.lstm),
    **CommonOpsRegistry,
}
"""Operators that are quantized dynamically."""
QLinearOpsRegistry = {
    "ArgMax": Operator(kept.arg_max),
    "Conv": Operator(qlinear.conv),
    "Gemm": Operator(qlinear.gemm, product),
    "MatMul": Operator(qlinear.mat_mul, product),
    "Add": Operator(qlinear.binary),
    "Mul": Operator(qlinear.binary),
    "Relu": Operator(qlinear.clip),
    "Clip": Operator(qlinear.clip),
    "LeakyRelu": Operator(qlinear.unary),
    "Sigmoid": Operator(qlinear.sigmoid),
    "MaxPool": Operator(kept.max_pool),
    "GlobalAveragePool": Operator(qlinear.global_average_pool),
    "Split": Operator(qlinear.split),
    "Pad": Operator(qlinear.pad),
    "Reshape": Operator(kept.movement),
    "Squeeze": Operator(kept.movement),
    "Unsqueeze": Operator(kept.movement),
    "Flatten": Operator(kept.movement),
    "Resize": Operator(kept.resize),
    "AveragePool": Operator(qlinear.unary),
    "Concat": Operator(qlinear.concat),
    "Softmax": Operator(qlinear.softmax),
    "Where": Operator(qlinear.where, always),
    **CommonOpsRegistry,
}
"""Operators that have a form of integers with scales."""
QDQRegistry: dict[str, Callable[[QDQMarks, Node], None]] = {
    "Conv": qdq.conv,
    "ConvTranspose": qdq.conv,
    "Gemm": qdq.gemm,
    "Clip": qdq.clip,
    "Relu": qdq.clip,
    "Reshape": qdq.movement,
    "Transpose": qdq.movement,
    "Squeeze": qdq.movement,
    "Unsqueeze": qdq.movement,
    "Flatten": qdq.movement,
    "Resize": qdq.resize,
    "MaxPool": qdq.max_pool,
    "AveragePool": qdq.movement,
    "Slice": qdq.movement,
    "Pad": qdq.pad,
    "MatMul": qdq.mat_mul,
    "Split": qdq.split,
    "Gather": qdq.gather,
    "GatherElements": qdq.gather,
    "Where": qdq.where,
    "InstanceNormalization": qdq.normalization,
    "LayerNormalization": qdq.normalization,
    "BatchNormalization": qdq.normalization,
    "TopK": qdq.movement,
    "CumSum": qdq.every_tensor,
}
"""Operators around which pairs of QuantizeLinear and DequantizeLinear do more, or less, than around all others."""


def find_operator(q: QuantizedTensors, node: Node) -> Operator | None:
    """What becomes of a node; None where it stays in floats."""
    table = IntegerOpsRegistry if q.mode is QuantizationMode.IntegerOps else QLinearOpsRegistry
    found = table.get(node.op_type)
    return found if found is not None and found.applies(q, node) else None
