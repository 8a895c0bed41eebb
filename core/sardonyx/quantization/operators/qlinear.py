"""Operators of integers with scales: for static quantization in the form QOperator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Node
from sardonyx.quantization import scales
from sardonyx.quantization.gemm import scaled_bias
from sardonyx.quantization.network import MICROSOFT, names
from sardonyx.quantization.operators.kept import keep, move
from sardonyx.quantization.quantized_tensors import Inputs, Quantized, QuantizedTensors

SOFTMAX_ZERO = {dtypes.uint8: 0}
"""The zero point of what Softmax gives, by the type of activations; -128 for others. Its scale is 1/256."""


def _replace(
    q: QuantizedTensors,
    node: Node,
    op_type: str,
    inputs: Inputs | None,
    params: tuple[str, str] | None,
    taken: Sequence[str] = (),
    domain: str = MICROSOFT,
    without: Sequence[str] = (),
    **more: Any,
) -> None:
    """Emit a quantized operator, which takes these names and gives the output in integers; or keep the node."""
    if inputs is None or params is None:
        keep(q, node)
        return
    output = node.outputs[0].name
    made = Quantized(f"{output}_quantized", *params)
    q.quantized[output] = made
    attributes = {key: value for key, value in node.attributes.items() if key not in without}
    name = f"{node.name}_quant" if node.name else ""
    arguments = list(taken) or [*inputs.triples(), *params]
    q.emit(*inputs.nodes, q.network.node(op_type, arguments, [made.name], name, attributes, domain, **more))


def unary(q: QuantizedTensors, node: Node) -> None:
    """LeakyRelu(x), AveragePool(x) ... -> QLinearLeakyRelu(x', scale, zero)"""
    params = q.params_of(node.outputs[0].name)
    _replace(q, node, f"QLinear{node.op_type}", q.quantize_activation(node, [0]), params)


def binary(q: QuantizedTensors, node: Node) -> None:
    """Add(x, y) -> QLinearAdd(x', y', scale, zero)"""
    params = q.params_of(node.outputs[0].name)
    _replace(q, node, f"QLinear{node.op_type}", q.quantize_activation(node, [0, 1]), params)


def clip(q: QuantizedTensors, node: Node) -> None:
    """Relu(x), Clip(x) -> x', for the range of x was cut by it; of a symmetric range, and of floats, it stays"""
    found, output = q.quantized.get(names(node.inputs)[0]), node.outputs[0].name
    if found is None or q.is_activation_symmetric or output not in q.cut:
        keep(q, node)
        return
    q.quantized[output] = found


def sigmoid(q: QuantizedTensors, node: Node) -> None:
    """Sigmoid(x) -> QLinearSigmoid(x', scale, zero); with the option of NNAPI, 1/256 and 0"""
    fixed = (1 / 256.0, 0) if q.extra_options.get("extra.Sigmoid.nnapi") else (None, None)
    params = q.params_of(node.outputs[0].name, *fixed)
    _replace(q, node, "QLinearSigmoid", q.quantize_activation(node, [0]), params)


def softmax(q: QuantizedTensors, node: Node) -> None:
    """Softmax(x) -> QLinearSoftmax(x', 1/256, the least integer)"""
    params = q.params_of(node.outputs[0].name, 1 / 256.0, SOFTMAX_ZERO.get(q.activation, -128))
    _replace(q, node, "QLinearSoftmax", q.quantize_activation(node, [0]), params, opset=q.opset_version)


def global_average_pool(q: QuantizedTensors, node: Node) -> None:
    """GlobalAveragePool(x) -> QLinearGlobalAveragePool(x', scale, zero), where x has a version in integers"""
    found = q.quantized.get(names(node.inputs)[0])
    if found is None:
        keep(q, node)
        return
    params = q.params_of(node.outputs[0].name) or (found.scale, found.zero)
    _replace(q, node, "QLinearGlobalAveragePool", Inputs([found]), params, channels_last=0)


def concat(q: QuantizedTensors, node: Node) -> None:
    """Concat(x, y ...) -> QLinearConcat(scale, zero, x', y' ...)"""
    params = q.params_of(node.outputs[0].name)
    inputs = q.quantize_activation(node, range(len(node.inputs)))
    _replace(q, node, "QLinearConcat", inputs, params, [*(params or ()), *(inputs.triples() if inputs else ())])


def where(q: QuantizedTensors, node: Node) -> None:
    """Where(c, x, y) -> QLinearWhere(c, x', y', scale, zero), where operators are forced to take integers"""
    if not q.force_quantize_no_input_check:
        keep(q, node)
        return
    params = q.params_of(node.outputs[0].name)
    inputs = q.quantize_activation(node, [1, 2])
    condition = names(node.inputs)[0]
    taken = [condition, *(inputs.triples() if inputs else ()), *(params or ())]
    _replace(q, node, "QLinearWhere", inputs, params, taken)


def conv(q: QuantizedTensors, node: Node) -> None:
    """Conv(x, w, b) -> QLinearConv(x', w', scale, zero, b')"""
    params = q.params_of(node.outputs[0].name)
    inputs = q.quantize_activation(node, [0])
    weight = names(node.inputs)[1]
    if weight in q.network.initializers and q.per_channel:
        held = q.weight_by_channels(weight, dtypes.int8, 0)
    else:
        held = q.quantize_weight(node, [1], q.reduce_range)
    both = _both(inputs, held)
    taken, _, name = [*names(node.inputs), ""][:3]
    if both is None or params is None or (name and name not in q.network.initializers):
        keep(q, node)
        return
    bias = [q.quantize_bias_static(name, taken, both.tensors[1])] if name else []
    _replace(q, node, "QLinearConv", both, params, [*both.triples(), *params, *bias], domain="")


def mat_mul(q: QuantizedTensors, node: Node) -> None:
    """MatMul(x, w) -> QLinearMatMul(x', w', scale, zero)"""
    both = _both(q.quantize_activation(node, [0]), q.quantize_weight(node, [1], True, axis=-1))
    params = q.params_of(node.outputs[0].name)
    _replace(q, node, "QLinearMatMul", both, params, domain="", without=list(node.attributes))


def gemm(q: QuantizedTensors, node: Node) -> None:
    """Gemm(x, w, c) -> QGemm(x', w', c', scale, zero), where c is an initializer"""
    params = q.params_of(node.outputs[0].name)
    inputs = q.quantize_activation(node, [0])
    given = names(node.inputs)
    if given[1] in q.network.initializers and q.per_channel:
        axis = 0 if node.attribute("transB", 0) > 0 else 1
        held = q.weight_by_channels(given[1], q.weight, axis)
    else:
        held = q.quantize_weight(node, [1], q.reduce_range)
    both = _both(inputs, held)
    biased = len(given) == 3 and bool(given[2])
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    floating = biased and (alpha == 0 or given[2] not in q.network.initializers)
    if both is None or params is None or floating:
        keep(q, node)
        return
    bias = ""
    if biased:  # sums of products and C are multiplied by alpha
        bias = q.quantize_bias_static(scaled_bias(q.network, node, beta / alpha), given[0], both.tensors[1])
    _replace(q, node, "QGemm", both, params, [*both.triples(), bias, *params], without=["beta"])


def split(q: QuantizedTensors, node: Node) -> None:
    """Split(x) -> Split of integers, with the scale of x"""
    inputs = q.quantize_activation(node, [0])
    if inputs is None:
        keep(q, node)
        return
    (taken,) = inputs.tensors
    outputs = []
    for name in names(node.outputs):
        q.quantized[name] = Quantized(f"{name}quantized", taken.scale, taken.zero)
        outputs.append(q.quantized[name].name)
    arguments = [taken.name, *names(node.inputs[1:])]
    name = f"{node.name}_quant" if node.name else ""
    q.emit(*inputs.nodes, q.network.node(node.op_type, arguments, outputs, name, node.attributes))


def pad(q: QuantizedTensors, node: Node) -> None:
    """Pad(x, pads, value) -> Pad of integers, with the scale of x, where x has a version in integers"""
    given = [*names(node.inputs), ""]
    found = q.quantized.get(given[0])
    if q.opset_version < 11 or found is None or not _pad_value(q, node, found, given[2]):
        keep(q, node)
        return
    move(q, node, found)
    q.emit(node)


def _pad_value(q: QuantizedTensors, node: Node, found: Quantized, value: str) -> bool:
    """Have a Pad take what it fills with in integers; False where its scale is not known."""
    if node.attribute("mode", "constant") != "constant":
        return True
    network = q.network
    if not value:
        network.set_input(node, 2, found.zero)  # 0 is the zero point
        return True
    if found.scale not in network.initializers or found.zero not in network.initializers:
        return False
    filled = network.initializers.get(value)
    name = f"{value}_quantized"
    if filled is None:
        label = f"{value}_QuantizeLinear"
        q.quantized[value] = Quantized(name, found.scale, found.zero)
        q.emit(network.node("QuantizeLinear", [value, found.scale, found.zero], [name], label))
    else:
        scale, zero = (network.initializers[each].array().reshape(-1)[0] for each in (found.scale, found.zero))
        with np.errstate(over="ignore"):
            level = float(filled.array().item() / scale + zero)
        least, greatest = scales.limits(q.activation)
        if not least - 0.5 <= level <= greatest + 0.5:  # the range of what is filled does not hold what fills it
            return False
        integers = scales.quantized(np.asarray(filled.array()), q.activation, scale, zero)
        network.keep(name, integers, q.activation)
    network.set_input(node, 2, name)
    return True


def _both(activation: Inputs | None, weight: Inputs | None) -> Inputs | None:
    if activation is None or weight is None:
        return None
    return Inputs(activation.tensors + weight.tensors, activation.nodes + weight.nodes)
