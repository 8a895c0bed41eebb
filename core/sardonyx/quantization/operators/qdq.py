"""Which tensors of a node get pairs of QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import numpy as np

from sardonyx.model.ir import Node
from sardonyx.model.ir.build import attribute
from sardonyx.quantization.base_quantizer import LOG
from sardonyx.quantization.gemm import scaled_bias
from sardonyx.quantization.network import names
from sardonyx.quantization.qdq_marks import QDQMarks

NEW_VALUES = ("reflect", "edge", "wrap")
"""Modes of Pad that fill with what is in the tensor."""


def every_tensor(q: QDQMarks, node: Node) -> None:
    """All of what a node takes and makes: the rule for operators that have none of their own."""
    for name in (*names(node.inputs), *_made(q, node)):
        if name:
            q.quantize_activation_tensor(name)


def conv(q: QDQMarks, node: Node) -> None:
    """Conv, ConvTranspose: what comes in, the weight by output channels, the bias."""
    _weighted(q, node, 0 if node.op_type == "Conv" else 1)
    given = names(node.inputs)
    if len(given) == 3:
        q.quantize_bias_tensor(node.name, given[2], given[0], given[1])


def gemm(q: QDQMarks, node: Node) -> None:
    """Gemm: what comes in, the weight by output channels, and a constant C, which takes beta in."""
    _weighted(q, node, 0 if node.attribute("transB", 0) > 0 else 1)
    given = names(node.inputs)
    if len(given) < 3:
        return
    if not q.is_input_a_initializer(given[2]):
        LOG.warning(
            f"Bias of Gemm node '{node.name}' is not constant. Please exclude this node for better performance."
        )
        return
    bias = given[2]
    if not q.tensor_quant_overrides.overrides.get(bias):
        bias = scaled_bias(q.network, node, node.attribute("beta", 1.0))
        if "beta" in node.attributes:
            node.attributes["beta"] = attribute("beta", 1.0)
    q.quantize_bias_tensor(node.name, bias, given[0], given[1])


def _weighted(q: QDQMarks, node: Node, axis: int) -> None:
    taken, weight = names(node.inputs)[:2]
    q.quantize_activation_tensor(taken)
    for name in _made(q, node)[:1]:
        q.quantize_activation_tensor(name)
    channels, axis_of_channels = q.is_tensor_per_channel(weight, default_axis=axis)
    if channels:
        q.quantize_weight_tensor_per_channel(weight, axis_of_channels)
    else:
        q.quantize_weight_tensor(weight)


def mat_mul(q: QDQMarks, node: Node) -> None:
    """MatMul: constants as weights, by columns, and the rest."""
    for name in (*names(node.inputs), *_made(q, node)):
        if not q.is_input_a_initializer(name):
            q.quantize_activation_tensor(name)
            continue
        channels, axis = q.is_tensor_per_channel(name, default_axis=1, op_type=node.op_type)
        if channels:
            q.quantize_weight_tensor_per_channel(name, axis)
        else:
            q.quantize_weight_tensor(name)


def normalization(q: QDQMarks, node: Node) -> None:
    """Normalizations: what comes in, the factor as a weight, the offset as a bias."""
    given = names(node.inputs)
    q.quantize_activation_tensor(given[0])
    channels, axis = q.is_tensor_per_channel(given[1], default_axis=1, op_type=node.op_type)
    if channels:
        q.quantize_weight_tensor_per_channel(given[1], axis)
    elif q.is_input_a_initializer(given[1]):
        q.quantize_weight_tensor(given[1])
    else:
        q.quantize_activation_tensor(given[1])
    if len(given) > 2 and given[2]:
        q.quantize_bias_tensor(node.name, given[2], given[0], given[1])
    for name in _made(q, node):
        q.quantize_activation_tensor(name)


def clip(q: QDQMarks, node: Node) -> None:
    """Relu, Clip: removed where the range of an asymmetric tensor says the same; not where nothing is marked."""
    taken, output = names(node.inputs)[0], node.outputs[0].name
    if not q.is_tensor_quantized(taken):
        return
    removable = not q.is_activation_symmetric and not q.qdq_keep_removable_activations and output in q.cut
    if removable and q.try_replacing_upstream_output(taken, output):
        q.network.remove([node])
    else:
        q.quantize_activation_tensor(taken)
    for name in _made(q, node)[:1]:
        q.quantize_activation_tensor(name)


def movement(q: QDQMarks, node: Node) -> None:
    """Reshape, Transpose ...: what comes out has the scale of what comes in, where that is marked."""
    taken = names(node.inputs)[0]
    if q.force_quantize_no_input_check:
        q.quantize_activation_tensor(taken)
    elif not q.is_tensor_quantized(taken):
        return
    for name in _made(q, node)[:1]:
        q.quantize_output_same_as_input(name, taken, node.name)


def max_pool(q: QDQMarks, node: Node) -> None:
    """MaxPool, which takes integers from operator set 12 on."""
    if q.opset_version >= 12:
        movement(q, node)


def resize(q: QDQMarks, node: Node) -> None:
    """Resize, which takes integers from operator set 11 on."""
    if q.opset_version >= 11:
        movement(q, node)


def gather(q: QDQMarks, node: Node) -> None:
    """Gather, GatherElements: of a constant of floats, or of what is marked; with its scale."""
    taken = names(node.inputs)[0]
    if q.is_valid_quantize_weight(taken) or q.force_quantize_no_input_check:
        q.quantize_activation_tensor(taken)
    elif not q.is_tensor_quantized(taken):
        return
    q.quantize_output_same_as_input(node.outputs[0].name, taken, node.name)


def split(q: QDQMarks, node: Node) -> None:
    """Split: all parts have the scale of the whole."""
    taken = names(node.inputs)[0]
    if not q.is_tensor_quantized(taken):
        q.quantize_activation_tensor(taken)
    for name in _made(q, node):
        q.quantize_output_same_as_input(name, taken, node.name)


def where(q: QDQMarks, node: Node) -> None:
    """Where: what comes out, if both of what it may be are marked."""
    choices = names(node.inputs)[1:3]
    if q.force_quantize_no_input_check:
        for name in choices:
            if not q.is_tensor_quantized(name):
                q.quantize_activation_tensor(name)
    elif not all(map(q.is_tensor_quantized, choices)):
        return
    for name in _made(q, node):
        q.quantize_activation_tensor(name)


def pad(q: QDQMarks, node: Node) -> None:
    """Pad: with the scale of what comes in, if what it is filled with is 0 or in it."""
    given = names(node.inputs)
    for name in filter(None, given):
        q.quantize_activation_tensor(name)
    for name in _made(q, node)[:1]:
        if _fills_with_the_same(q, node):
            q.quantize_output_same_as_input(name, given[0], node.name)
        else:
            q.quantize_activation_tensor(name)


def _fills_with_the_same(q: QDQMarks, node: Node) -> bool:
    mode = node.attribute("mode", "constant")
    if mode != "constant":
        return mode in NEW_VALUES
    given = names(node.inputs)
    if given[0] not in q.network.types:
        return False
    if q.opset_version < 11:
        return float(node.attribute("value", 0.0)) == 0
    if len(given) < 3 or not given[2]:
        return True
    value = q.network.constant(given[2])
    return value is not None and value.dtype in (np.float32, np.float16) and float(value.item()) == 0


def _made(q: QDQMarks, node: Node) -> list[str]:
    """What a node makes, if that is to be marked."""
    return [] if q.gives_floats(node) else names(node.outputs)
