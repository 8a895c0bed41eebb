"""SmoothQuant: activations with outliers are divided by a factor for each channel, weights multiplied by it.

Xiao, Lin, Seznec, Wu, Demouth and Han, "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large
Language Models" (2022), equations 3 and 4: Y = (X diag(s)^-1) (diag(s) W), s_j = max|X_j|^a / max|W_j|^(1 - a). The
division is folded into the LayerNormalization that makes X where nothing else reads it; else it is a Mul before the
products, which stays in float.
"""

from __future__ import annotations

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.model.ir import Model, Node, TensorType, Value
from sardonyx.model.ir.build import constant, node
from sardonyx.model.ir.order import sort
from sardonyx.model.serde.writer import write
from sardonyx.passes.copy import copy_model
from sardonyx.passes.infer import infer_types
from sardonyx.quantization.tuning.preparation import by_name, plain
from sardonyx.quantization.tuning.samples import Samples

LEAST = 1e-5
"""Below that a largest value counts as this: a channel that is always 0 needs no factor."""
NORMS = ("LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization")


def smoothed(model: Model, samples: Samples, alpha: float, providers: list[str]) -> tuple[Model, list[str], list[str]]:
    """A model that computes the same: it, the products that changed, and the nodes that were added, by name."""
    result = copy_model(model)
    groups = _groups(result)
    if not groups:
        return model, [], []
    largest = _largest(model, [value.name for value in groups], samples, providers)
    changed: list[str] = []
    added: list[str] = []
    for value, products in groups.items():
        weights = [_array(product.inputs[1]) for product in products]
        rows = np.max([np.abs(weight).max(axis=1) for weight in weights], axis=0)
        factors = factors_of(largest[value.name], rows, alpha)
        for product, weight in zip(products, weights, strict=True):
            _set(result, product, 1, weight * factors[:, None], f"{product.name}_smoothed_weight")
        changed += [product.name for product in products]
        if not _folded(result, value, products, factors):
            added.append(_divided(result, value, products, factors))
    sort(result.graph)
    return result, changed, added


def factors_of(activations: np.ndarray, weights: np.ndarray, alpha: float) -> np.ndarray:
    """The factors s of channels, from the largest sizes of activations and of weights, each [channels].

    >>> factors_of(np.array([16.0, 1.0]), np.array([1.0, 4.0]), 0.5)
    array([4. , 0.5])
    """
    ratios = np.maximum(activations, LEAST) ** alpha / np.maximum(weights, LEAST) ** (1 - alpha)
    factors: np.ndarray = np.maximum(ratios, LEAST)
    return factors


def _groups(model: Model) -> dict[Value, list[Node]]:
    """The products with constant weights [channels, columns] by what they multiply."""
    groups: dict[Value, list[Node]] = {}
    for each in model.graph.nodes:
        is_gemm = each.op_type == "Gemm" and not each.attribute("transA", 0) and not each.attribute("transB", 0)
        if not is_gemm and each.op_type != "MatMul":
            continue
        value, weight = each.inputs[:2]
        if value is None or weight is None or weight.constant is None or value.constant is not None:
            continue
        if len(weight.constant.shape) == 2 and weight.constant.dtype is dtypes.float32:
            groups.setdefault(value, []).append(each)
    return groups


def _largest(model: Model, names: list[str], samples: Samples, providers: list[str]) -> dict[str, np.ndarray]:
    """The largest size of each channel, the last axis, of these tensors over all samples."""
    watched = plain(model)
    graph = watched.graph
    infer_types(graph)
    values = {value.name: value for each in graph.nodes for value in each.outputs}
    values |= {value.name: value for value in graph.inputs}
    graph.outputs.clear()
    flat = constant(np.array([-1], np.int64), "smooth flat")
    zero = constant(np.array([0], np.int64), "smooth axis")
    graph.initializers += [zero, flat]
    for number, name in enumerate(names):
        value = values[name]
        shape = node("Shape", [value], [f"smooth {number} shape"], {"start": -1})
        rows = node("Concat", [flat, shape.outputs[0]], [f"smooth {number} rows"], {"axis": 0})
        table = node("Reshape", [value, rows.outputs[0]], [f"smooth {number} table"])
        sizes = node("Abs", [table.outputs[0]], [f"smooth {number} sizes"])
        most = node("ReduceMax", [sizes.outputs[0], zero], [f"smooth {number}"], {"keepdims": 0})
        most.outputs[0].type = TensorType(dtypes.float32, (None,))
        graph.nodes += [shape, rows, table, sizes, most]
        graph.outputs.append(most.outputs[0])
    session = InferenceSession(write(watched), providers=providers)
    outputs = [value.name for value in graph.outputs]
    largest: list[np.ndarray] = []
    for number in range(len(samples)):
        found = [np.asarray(value, np.float64) for value in session.run(outputs, dict(samples[number]))]
        largest = [np.maximum(*pair) for pair in zip(largest, found, strict=True)] if largest else found
    return dict(zip(names, largest, strict=True))


def _array(value: Value | None) -> np.ndarray:
    assert value is not None
    assert value.constant is not None
    return value.constant.array().astype(np.float64)


def _set(model: Model, holder: Node, place: int, array: np.ndarray, name: str) -> None:
    """Give a node another constant; the old one stays for those that share it."""
    holder.inputs[place] = constant(array.astype(np.float32), name)
    made = holder.inputs[place]
    assert made is not None
    model.graph.initializers.append(made)


def _folded(model: Model, value: Value, products: list[Node], factors: np.ndarray) -> bool:
    """Whether the normalization that makes a value could take the division."""
    producer = value.producer
    readers = [each for each in model.graph.nodes if value in each.inputs]
    if producer is None or producer.op_type not in NORMS or value in model.graph.outputs:
        return False
    if set(map(id, readers)) != set(map(id, products)):
        return False
    constants = [each for each in producer.inputs[1:] if each is not None]
    if any(each.constant is None or each.constant.shape != factors.shape for each in constants):
        return False
    for place, each in enumerate(producer.inputs):
        if place and each is not None:
            _set(model, producer, place, _array(each) / factors, f"{producer.name}_smoothed_{place}")
    return True


def _divided(model: Model, value: Value, products: list[Node], factors: np.ndarray) -> str:
    """Put a Mul before products; its name."""
    scales = constant((1 / factors).astype(np.float32), f"{products[0].name}_smoothing_factors")
    model.graph.initializers.append(scales)
    taken = by_name(model)
    name = next(n for k in range(len(taken) + 1) if (n := f"{products[0].name}_smoothing{k or ''}") not in taken)
    made = node("Mul", [value, scales], [f"{name}_output"], name=name)
    model.graph.nodes.append(made)
    for product in products:
        product.inputs[0] = made.outputs[0]
    return name
