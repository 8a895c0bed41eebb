"""ONNX models evaluated node by node: what the operators mean, without compiler, plan or provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from sardonyx.common import dtypes
from sardonyx.common.strings import StringTable, active_strings
from sardonyx.model.ir import Graph
from sardonyx.model.serde.reader import read
from sardonyx.model.structure import fill, form, leaves, present
from sardonyx.ops.interpret import Environment, interpret
from sardonyx.passes.upgrade import upgrade
from sardonyx.primitives.array import Array
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.expression import evaluate as evaluate_size
from sardonyx.sizes.symbolic import Dim, Guards

Feeds = Mapping[str, Any]
"""Arrays by input name; for sequences lists of them, and None for optionals without element."""


def load(model: onnx.ModelProto) -> Graph:
    """The model's graph in the newest operator set."""
    return upgrade(read(model.SerializeToString())).graph


def evaluate(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    """The outputs for these inputs; types that NumPy lacks come and go as `ml_dtypes`."""
    graph = load(model)
    with StringTable():
        environment = {value: of_feed(feeds[value.name]) for value in graph.inputs if value.name in feeds}
        results = interpret(graph, environment)
        return [present(fill(form(item), map(to_array, leaves(item)))) for item in results]


def of_feed(feed: Any) -> Any:
    """What is fed to an input as operators take it."""
    if isinstance(feed, list):
        return tuple(map(of_feed, feed))
    return None if feed is None else of_array(feed)


def of_array(array: np.ndarray) -> Array:
    """The known Array with these elements."""
    dtype = dtypes.by_number(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
    assert dtype is not None
    if dtype is dtypes.string:
        return Array(dtype, array.shape, (active_strings() or StringTable()).encode(array))
    native = dtype.is_native or dtype.is_int
    return Array(dtype, array.shape, array.astype(dtype.storage) if native else array.view(dtype.storage))


def to_array(array: Array) -> np.ndarray:
    """The elements of a known Array, in ONNX's NumPy type."""
    assert array.value is not None
    if array.dtype is dtypes.string:
        strings = active_strings()
        assert strings is not None
        return strings.decode(array.value)
    want = onnx.helper.tensor_dtype_to_np_dtype(array.dtype.number)
    native = array.dtype.is_native or array.dtype.is_int
    return array.value.astype(want) if native else np.ascontiguousarray(array.value).view(want)


def trace(model: onnx.ModelProto, feeds: Feeds) -> Trace:
    """The model's equations when the size of every input axis longer than 1 is a symbol of its own."""
    graph = load(model)
    result = Trace(Guards())
    environment: Environment = {}
    for value in graph.inputs:
        if value.name in feeds:
            known = of_array(feeds[value.name])
            shape = [
                result.guards.symbol(f"{value.name}_{axis}", size) if size > 1 else size
                for axis, size in enumerate(feeds[value.name].shape)
            ]
            array = environment[value] = result.input(known.dtype, tuple(shape), value.name)
            if known.dtype is not dtypes.string:
                result.feeds[array] = feeds[value.name]
    with result:
        result.outputs = [result.materialise(array) for array in interpret(graph, environment)]
    return result


def replay(traced: Trace, feeds: Feeds) -> list[np.ndarray]:
    """The outputs of a trace for inputs whose sizes satisfy its guards; `GuardError` for others."""
    sizes = {
        str(size): feeds[array.name].shape[axis]
        for array in traced.inputs
        for axis, size in enumerate(array.shape)
        if isinstance(size, Dim)
    }
    for polynomial, relation, truth in traced.guards:
        value = evaluate_size(polynomial.json(), sizes)
        if (value == 0 if relation == "==" else value >= 0) != truth:
            raise GuardError(f"{polynomial} {relation} 0 is not {truth} for {sizes}")
    with traced.strings:
        values = {array: of_array(feeds[array.name]).value for array in traced.inputs}
        for equation in traced.equations:
            operands = [array.value if array.value is not None else values[array] for array in equation.inputs]
            results = equation.primitive.numpy(*operands, **_settle(equation.params, sizes))
            values.update((array, result) for array, result in zip(equation.outputs, results, strict=True))
        found = [array.value if array.value is not None else values[array] for array in traced.outputs]
        return [to_array(Array(array.dtype, (), value)) for array, value in zip(traced.outputs, found, strict=True)]


class GuardError(Exception):
    """These sizes break a guard of the trace."""


def _settle(value: Any, sizes: Mapping[str, int]) -> Any:
    """A parameter with numbers for its symbolic sizes."""
    if isinstance(value, Dim):
        return evaluate_size(value.poly.json(), sizes)
    if isinstance(value, dict):
        return {name: _settle(item, sizes) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_settle(item, sizes) for item in value)
    return value
