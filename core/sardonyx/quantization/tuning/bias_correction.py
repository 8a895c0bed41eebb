"""Bias correction: what rounding weights adds to the mean of a product is taken from its bias.

Nagel, van Baalen, Blankevoort and Welling, "Data-Free Quantization Through Weight Equalization and Bias Correction"
(2019), section 4.2. With e = W' - W, the error of the rounded weights, a product gives E[W'x] = E[Wx] + E[ex], so each
channel's bias becomes b - E[ex]. They derive E[ex] from the normalization before; here it is the mean of the same
operator on the same inputs with e for its weights, measured on samples, borders of convolutions included.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.model.ir import Model, Node, TensorType, Value
from sardonyx.model.ir.build import constant, node
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.copy import copy_model
from sardonyx.passes.infer import infer_types
from sardonyx.quantization.tuning.preparation import by_name, plain
from sardonyx.quantization.tuning.samples import Samples

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def shifts(model: Model, built: Path, samples: Samples, providers: list[str]) -> dict[str, np.ndarray]:
    """How far the mean of each quantized product lies above that of the float one, [channels], by the node's name.

    Nodes whose weights are no constant, or were not quantized, or that have no bias to change, are left out.
    """
    errors = _errors(model, read(built))
    measured = plain(model)
    infer_types(measured.graph)
    graph, names = measured.graph, []
    graph.outputs.clear()
    for each in list(graph.nodes):
        if each.name not in errors:
            continue
        weight = constant(errors[each.name], f"{each.name} error")
        graph.initializers.append(weight)
        attributes = {name: found for name, found in each.attributes.items() if name != "beta"}
        product = Node(each.op_type, [each.inputs[0], weight], [Value(f"{each.name} ex")], attributes, each.domain)
        rank = len(each.outputs[0].shape or ()) or (2 if each.op_type == "Gemm" else 0)
        if not rank:
            continue
        axes = [axis for axis in range(rank) if axis != _channel(each, rank)]
        listed = constant(np.array(axes, np.int64), f"{each.name} axes")
        graph.initializers.append(listed)
        mean = node("ReduceMean", [product.outputs[0], listed], [f"{each.name} shift"], {"keepdims": 0})
        mean.outputs[0].type = TensorType(dtypes.float32, (errors[each.name].shape[_output_axis(each)],))
        graph.nodes += [product, mean]
        graph.outputs.append(mean.outputs[0])
        names.append(each.name)
    if not names:
        return {}
    session = InferenceSession(write(measured), providers=providers)
    outputs = [value.name for value in graph.outputs]
    totals: list[np.ndarray] = []
    for number in range(len(samples)):
        found = [np.asarray(value, np.float64) for value in session.run(outputs, dict(samples[number]))]
        totals = [total + value for total, value in zip(totals, found, strict=True)] if totals else found
    return {name: total / len(samples) for name, total in zip(names, totals, strict=True)}


def corrected(model: Model, amounts: Mapping[str, np.ndarray]) -> Model:
    """A copy whose products have biases that are smaller by these amounts, or the model itself if there are none."""
    if not amounts:
        return model
    result = copy_model(model)
    initializers = dict.fromkeys(result.graph.initializers)
    nodes = by_name(result)
    for name, amount in amounts.items():
        holder, place = _bias_place(nodes[name], _readers(result))
        old = holder.inputs[place] if place < len(holder.inputs) else None
        before = 0.0 if old is None or old.constant is None else old.constant.array().astype(np.float64)
        scale = float(holder.attribute("beta", 1.0)) if holder.op_type == "Gemm" else 1.0
        bias = constant((before - amount / scale).astype(np.float32), f"{name}_corrected_bias")
        holder.inputs += [None] * (place + 1 - len(holder.inputs))
        holder.inputs[place] = bias
        initializers[bias] = None
    result.graph.initializers = list(initializers)
    return result


def _errors(model: Model, built: Model) -> dict[str, np.ndarray]:
    """The rounded weights minus the weights, for each product that has both and a bias."""
    known = {value.name: value for value in built.graph.initializers}
    readers = _readers(model)
    found = {}
    for each in model.graph.nodes:
        weight = each.inputs[1] if each.op_type in PRODUCTS and len(each.inputs) > 1 else None
        if weight is None or weight.constant is None or not _has_bias(each, readers):
            continue
        floats = weight.constant.array().astype(np.float64)
        parts = [known.get(f"{weight.name}_{part}") for part in ("quantized", "scale", "zero_point")]
        arrays = [part.constant.array() for part in parts if part is not None and part.constant is not None]
        if len(arrays) != len(parts) or arrays[0].shape != floats.shape:
            continue
        integers, scale, zero = (array.astype(np.float64) for array in arrays)
        if scale.size > 1:
            axes = [axis for axis, size in enumerate(floats.shape) if size == scale.size]
            axis = _output_axis(each) if _output_axis(each) % floats.ndim in axes else axes[0]
            shape = [1] * floats.ndim
            shape[axis] = scale.size
            scale, zero = scale.reshape(shape), zero.reshape(shape)
        found[each.name] = ((integers - zero) * scale - floats).astype(np.float32)
    return found


def _output_axis(product: Node) -> int:
    """The axis of weights along which the channels of the result lie."""
    if product.op_type == "Conv":
        return 0
    if product.op_type == "Gemm":
        return 0 if product.attribute("transB", 0) else 1
    return 1 if product.op_type == "ConvTranspose" else -1


def _channel(product: Node, rank: int) -> int:
    return 1 if product.op_type in ("Conv", "ConvTranspose") else rank - 1


def _readers(model: Model) -> dict[Value, list[Node]]:
    readers: dict[Value, list[Node]] = {}
    for each in model.graph.nodes:
        for value in each.inputs:
            if value is not None:
                readers.setdefault(value, []).append(each)
    return readers


def _has_bias(product: Node, readers: Mapping[Value, list[Node]]) -> bool:
    """Whether there is a bias, or room for one."""
    if product.op_type == "ConvTranspose" and product.attribute("group", 1) != 1:
        return False
    if product.op_type != "MatMul":
        old = product.inputs[2] if len(product.inputs) > 2 else None
        return old is None or old.constant is not None
    return _added(product, readers) is not None


def _added(product: Node, readers: Mapping[Value, list[Node]]) -> tuple[Node, int] | None:
    """The Add of a constant to a MatMul, which is all that reads it, and the constant's place."""
    users = readers.get(product.outputs[0], [])
    weight = product.inputs[1]
    if (
        len(users) != 1
        or users[0].op_type != "Add"
        or weight is None
        or (weight.shape is None and weight.constant is None)
    ):
        return None
    (user,) = users
    channels = weight.constant.shape[-1] if weight.constant is not None else 0
    for place, value in enumerate(user.inputs):
        if value is not None and value.constant is not None and value.constant.shape == (channels,):
            return user, place
    return None


def _bias_place(product: Node, readers: Mapping[Value, list[Node]]) -> tuple[Node, int]:
    if product.op_type != "MatMul":
        return product, 2
    added = _added(product, readers)
    assert added is not None, product
    return added
