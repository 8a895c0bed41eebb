"""What was trained, as the integers and scales of the quantized model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sardonyx.model.ir import Graph, Model, Node, Tensor, Value
from sardonyx.passes.copy import copy_model
from sardonyx.training.aware.rounded import SLOWER, Rounded, Weight, bounds

Arrays = Mapping[str, NDArray[np.float32]]


def written(quantized: Model, found: Rounded, trained: Arrays) -> Model:
    """A copy of the quantized model with other integers and scales: what was trained, by the names of parameters."""
    result = copy_model(quantized)
    constants = {value.name: value for value in result.graph.initializers}
    for scale in found.scales.values():
        _store(constants[scale.initializer], scale.after(trained[scale.parameter]))
    for weight in found.weights:
        value = constants[weight.integers]
        steps = trained[weight.parameter].astype(np.float64)
        if weight.scale is not None:
            grown = trained[weight.scale.parameter].reshape(weight.shape).astype(np.float64)
            _store_integers(value, steps * np.exp(-grown / SLOWER) + weight.zero.reshape(weight.shape))
        else:
            size = _bias_scale(result.graph, constants, weight)
            _store_integers(value, steps * weight.step / size + weight.zero.reshape(weight.shape))
    return result


def _bias_scale(graph: Graph, constants: Mapping[str, Value], weight: Weight) -> NDArray[np.float64]:
    """The scale of a bias: the product of those of the image and of the weights, which is stored; else as it was."""
    pairs = {node.outputs[0].name: node for node in graph.nodes if node.op_type == "DequantizeLinear"}
    own = pairs[weight.node.outputs[0].name]
    held = own.inputs[1]
    assert held is not None
    for node in graph.nodes:
        if len(node.inputs) > 2 and node.inputs[2] is own.outputs[0]:
            sides = [_of(constants, pairs.get(value.name)) for value in node.inputs[:2] if value is not None]
            if all(side is not None for side in sides):
                product = np.prod(
                    np.broadcast_arrays(*(side.reshape(-1) for side in sides if side is not None)), axis=0
                )
                before = _array(constants[held.name])
                if before.size == product.size:
                    _store(constants[held.name], product.reshape(before.shape).astype(np.float32))
    return _array(constants[held.name]).astype(np.float64).reshape(weight.shape)


def _of(constants: Mapping[str, Value], pair: Node | None) -> NDArray[np.float64] | None:
    scale = pair.inputs[1] if pair is not None else None
    return None if scale is None else _array(constants[scale.name]).astype(np.float64)


def _array(value: Value) -> NDArray[np.generic]:
    assert value.constant is not None
    found: NDArray[np.generic] = value.constant.array()
    return found


def _store(value: Value, array: NDArray[np.float32]) -> None:
    assert value.constant is not None
    value.constant = Tensor.of(array, value.constant.dtype, value.name)


def _store_integers(value: Value, numbers: NDArray[np.float64]) -> None:
    assert value.constant is not None
    dtype = value.constant.dtype
    low, high = bounds(dtype)
    integers = np.clip(np.round(numbers), low, high)
    value.constant = Tensor.of(integers.astype(value.constant.array().dtype), dtype, value.name)
