"""Operators that sum products of integers, whose scales are multiplied afterwards: for dynamic quantization."""

from __future__ import annotations

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Node
from sardonyx.quantization.network import MICROSOFT, names
from sardonyx.quantization.operators.kept import keep
from sardonyx.quantization.quantized_tensors import Inputs, QuantizedTensors


def mat_mul(q: QuantizedTensors, node: Node) -> None:
    """MatMul(x, w) -> Mul(Cast(MatMulInteger(x', w')), scales)"""
    inputs = _both(q.quantize_activation(node, [0]), q.quantize_weight(node, [1], True, axis=-1))
    if inputs is None:
        keep(q, node)
        return
    _scaled(q, node, "MatMulInteger", inputs, node.outputs[0].name, keep_attributes=False)
    q.emit(*inputs.nodes)


def conv(q: QuantizedTensors, node: Node) -> None:
    """Conv(x, w, b) -> Add(Mul(Cast(ConvInteger(x', w')), scales), Reshape(b))"""
    weight = names(node.inputs)[1]
    biased = len(node.inputs) == 3 and node.inputs[2] is not None
    inputs = None
    if not biased or weight in q.network.initializers:  # else the rank that the bias is shaped to is not known
        inputs = _both(q.quantize_activation(node, [0]), q.quantize_weight(node, [1], q.reduce_range))
    if inputs is None:
        keep(q, node)
        return
    output = node.outputs[0].name
    scaled = f"{output}quant_scaled_output" if biased else output
    _scaled(q, node, "ConvInteger", inputs, scaled)
    if biased:
        inputs.nodes += _bias(q, node, scaled)
    q.emit(*inputs.nodes)


def _both(activation: Inputs | None, weight: Inputs | None) -> Inputs | None:
    if activation is None or weight is None:
        return None
    return Inputs(activation.tensors + weight.tensors, activation.nodes + weight.nodes)


def _scaled(
    q: QuantizedTensors, node: Node, op_type: str, inputs: Inputs, output: str, keep_attributes: bool = True
) -> None:
    """Append the sum of products, its cast, the product of the scales, and the product of both."""
    name = f"{node.name}_quant" if node.name else ""
    summed = f"{node.outputs[0].name}_output_quantized"
    attributes = node.attributes if keep_attributes else {}
    make = q.network.node
    inputs.nodes.append(make(op_type, inputs.names + inputs.zeros, [summed], name, attributes))
    kind = q.type_of(node.outputs[0].name)
    cast = f"{summed}_cast_output"
    inputs.nodes.append(make("Cast", [summed], [cast], f"{summed}_cast", to=kind.number))
    label = f"{name}_scales_mul" if name else f"{'_'.join(inputs.scales)}_mul"
    product = q.find_node(label)
    if product is None:
        product = make("Mul", inputs.scales, [f"{label}:0"], label)
        inputs.nodes.append(product)
    factor = product.outputs[0].name
    inputs.nodes.append(make("Mul", [cast, factor], [output], f"{name}_output_scale_mul" if name else ""))


def _bias(q: QuantizedTensors, node: Node, scaled: str) -> list[Node]:
    """The bias, shaped so that it broadcasts along channels, and its sum with what was scaled."""
    output, (_, weight, bias) = node.outputs[0].name, names(node.inputs)
    shape = np.ones(len(q.network.initializers[weight].shape), np.int64)
    shape[1] = -1
    q.network.keep(f"{output}_bias_reshape_shape", shape, dtypes.int64, typed=True)
    reshaped = f"{output}_bias_reshape_output"
    return [
        q.network.node("Reshape", [bias, f"{output}_bias_reshape_shape"], [reshaped]),
        q.network.node("Add", [scaled, reshaped], [output], f"{output}_bias_add"),
    ]


def attention(q: QuantizedTensors, node: Node) -> None:
    """Attention(x, w, b, mask, past) -> QAttention(x', w', b, scales, mask, zeros, past)"""
    inputs = None
    if "qkv_hidden_sizes" not in node.attributes:  # QAttention has heads of one size
        inputs = _both(q.quantize_activation(node, [0]), q.quantize_weight(node, [1], True, axis=-1))
    if inputs is None:
        keep(q, node)
        return
    given = [*names(node.inputs), "", ""]
    taken = [*inputs.names, given[2], *inputs.scales, _at(node, 3), *inputs.zeros, _at(node, 4)]
    name = f"{node.name}_quant" if node.name else ""
    q.emit(*inputs.nodes, q.network.node("QAttention", taken, names(node.outputs), name, node.attributes, MICROSOFT))


def lstm(q: QuantizedTensors, node: Node) -> None:
    """LSTM(x, w, r, ...) -> DynamicQuantizeLSTM(x, w', r', ..., scales, zeros)"""
    weights = names(node.inputs[1:3])
    constants = [q.network.initializers.get(each) for each in weights if q.is_valid_quantize_weight(each)]
    if len(constants) < 2 or any(each is None or len(each.shape) != 3 for each in constants):
        keep(q, node)
        return
    held = [_recurrent(q, name) for name in weights]
    tail = [_at(node, index) for index in range(3, 8)]
    params = [name for each in held for name in (each[1], each[2])]
    taken = [names(node.inputs)[0], *(each[0] for each in held), *tail, *params]
    attributes = {key: value for key, value in node.attributes.items() if key != "layout"}
    name = f"{node.name}_quant" if node.name else ""
    q.emit(q.network.node("DynamicQuantizeLSTM", taken, names(node.outputs), name, attributes, MICROSOFT))
    q.restore(names(node.inputs)[0])


def _recurrent(q: QuantizedTensors, name: str) -> tuple[str, str, str]:
    """The names of a weight of a recurrent layer in int8, transposed, and of its scales and zero points.

    By channels there is a scale for each row of each direction, else one for each direction.
    """
    network = q.network
    directions, rows, columns = network.initializers[name].shape
    if name in q.quantized:
        done = q.quantized[name]
        return done.name, done.scale, done.zero
    if q.per_channel:
        network.reshape(name, (directions * rows, columns))
    made = q.quantize_channels(name, dtypes.int8, 0)
    network.reshape(name, (directions, rows, columns))
    integers = network.initializers[made.name].array().reshape(directions, rows, columns)
    network.drop(made.name)
    network.keep(made.name, np.ascontiguousarray(integers.transpose(0, 2, 1)), dtypes.int8)
    if q.per_channel:
        for each in (made.scale, made.zero):
            network.reshape(each, (directions, rows))
    return made.name, made.scale, made.zero


def embed_layer_normalization(q: QuantizedTensors, node: Node) -> None:
    """EmbedLayerNormalization(ids, segments, tables ..., mask) -> QEmbedLayerNormalization of tables in integers"""
    inputs = q.quantize_activation(node, [2, 3, 4, 5, 6]) if len(node.outputs) <= 2 else None
    if inputs is None:
        keep(q, node)
        return
    taken = [*names(node.inputs[:2]), *inputs.names, _at(node, 7), *inputs.scales, *inputs.zeros]
    name = f"{node.name}_quant" if node.name else ""
    made = q.network.node("QEmbedLayerNormalization", taken, names(node.outputs), name, node.attributes, MICROSOFT)
    q.emit(*inputs.nodes, made)


def _at(node: Node, index: int) -> str:
    """The name of an input, empty where the node has none."""
    return names(node.inputs)[index] if index < len(node.inputs) else ""
