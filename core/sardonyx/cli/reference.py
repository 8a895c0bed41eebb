"""The nodes of a model in float64, one by one, each from what a provider gave to it.

No error is handed on, so that each one found is that node's own. Operators are those of the engine, which evaluate
their primitives with NumPy where everything is known; their floats are wider here, in what is fed, in constants, in
attributes and in the graphs inside a node. Integers keep their types. A node that insists on its types is evaluated in
those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np

from sardonyx.api.options import SessionOptions
from sardonyx.cli import comparison
from sardonyx.common import dtypes
from sardonyx.common.convert import inward
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record, replace
from sardonyx.common.strings import StringTable, active_strings
from sardonyx.errors import SardonyxError
from sardonyx.model.ir import Attribute, Graph, Model, Node, Tensor, TensorType
from sardonyx.model.structure import Map, fill, form, leaves, present
from sardonyx.ops.interpret import Environment, expand
from sardonyx.passes.copy import copy_graph
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.passes.pipeline import prepare
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import of_tensor

NARROW = (dtypes.float32, dtypes.float16)
KINDS = frozenset({"to", "dtype", "stash_type", "softmax_precision", "output_dtype", "precision"})
"""Attributes that are numbers of element types."""
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
JUMPY = frozenset({"Resize", "Upsample", "GridSample", "RoiAlign", "Mod", "Floor", "Ceil", "Round"})
"""Operators whose result jumps where float32 and float64 round to different sides."""

CLEAR = 1e-5
"""An error that roundings do not give, unless terms cancel each other."""
ROUNDINGS = 32
"""How many times more than one rounding of its inputs the roundings inside of a node may change what it gives."""
TRIALS = 3


@record(frozen=True)
class Check:
    """What came of a node: `error` as `comparison.error`, that of the output with the largest; or why there is none.

    `exact` says that float64 was not taken: the node was compared with itself in its own types.
    """

    node: Node
    error: float = 0.0
    output: str = ""
    exact: bool = False
    reason: str = ""

    def diverges(self, tolerance: float, type_name: str) -> bool:
        return self.error > max(tolerance, comparison.UNITS.get(type_name, 0.0))


def exposed(model: Model) -> Model:
    """The model without optimizations, with every value of its graph as an output."""
    options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
    result = prepare(model, options)
    graph = result.graph
    taken = {value.name for value in (*graph.inputs, *graph.initializers)}
    taken |= {value.name for node in graph.all_nodes() for value in node.outputs}
    outputs = set(graph.outputs)
    used = {
        value for node in graph.nodes for value in (*node.inputs, *(v for g in node.subgraphs() for v in g.captures()))
    }
    for number, value in enumerate(value for node in graph.nodes for value in node.outputs):
        if not value.name and value in used:
            value.name = next(name for k in range(len(taken) + 1) if (name := f"value_{number + k}") not in taken)
            taken.add(value.name)
        if value.name and value not in outputs:
            graph.outputs.append(value)
    return result


def check(model: Model, values: Mapping[str, Any], types: Mapping[str, DType]) -> Iterator[Check]:
    """Evaluate the nodes of an `exposed` model from these values by name, and compare with what they gave.

    `types` are the element types of values that are tensors.
    """
    for node in model.graph.nodes:
        if node.op_type == "Constant":
            continue
        if node.op_type in RANDOM:
            yield Check(node, reason="its results are random")
            continue
        with StringTable(), np.errstate(all="ignore"):
            yield _check(node, values, types)


def _check(node: Node, values: Mapping[str, Any], types: Mapping[str, DType]) -> Check:
    problem = ""
    checks = []
    for exact in (False, True):
        try:
            results = _evaluate(node, values, types, exact)
        except (SardonyxError, ArithmeticError, MemoryError, TypeError, ValueError) as error:
            problem = " ".join(str(error).split()) or type(error).__name__
            continue
        errors = {
            value.name: _error(node, values[value.name], types.get(value.name), results[k])
            for k, value in enumerate(node.outputs)
            if value.name in values
        }
        if not exact and max(errors.values(), default=0.0) > CLEAR:
            errors = _unexplained(errors, node, values, types, results)
        worst = max(errors, key=errors.__getitem__, default="")
        checks.append(Check(node, errors.get(worst, 0.0), worst, exact))
        jumps = node.op_type in JUMPY or (worst in values and _is_exact(values[worst]))
        if not errors.get(worst) or not jumps:
            break
    return min(checks, key=lambda check: check.error, default=Check(node, reason=problem))


def _unexplained(
    errors: Mapping[str, float], node: Node, values: Mapping[str, Any], types: Mapping[str, DType], results: list[Any]
) -> dict[str, float]:
    """The errors without those that rounding explains: what is left of large terms that cancel each other.

    The node is evaluated again from inputs that are another half unit in their last place apart, up and down by chance.
    """
    moved = dict.fromkeys(errors, 0.0)
    rng = np.random.default_rng(0)
    for _ in range(TRIALS):
        others = _evaluate(node, values, types, False, rng)
        for k, value in enumerate(node.outputs):
            if value.name in moved:
                moved[value.name] = max(moved[value.name], comparison.error(others[k], results[k]))
    return {name: 0.0 if error <= ROUNDINGS * moved[name] else error for name, error in errors.items()}


def _is_exact(value: Any) -> bool:
    return isinstance(value, np.ndarray) and comparison.is_exact(value)


def _error(node: Node, found: Any, dtype: DType | None, expected: Any) -> float:
    """`comparison.error`; where integers are rounded floats, a difference of one counts as the share of elements."""
    if dtype is not None and isinstance(found, np.ndarray):
        found = _widened(inward(found, dtype), dtype)
    error = comparison.error(found, expected)
    floats = any(value is not None and value.dtype not in (None, dtypes.int64) for value in node.inputs)
    if error and floats and _is_exact(found) and found.dtype.kind in "iu" and found.shape == np.shape(expected):
        differences = np.abs(found.astype(np.int64) - np.asarray(expected, np.int64))
        return float((differences > 0).mean()) if differences.max(initial=0) <= 1 else error
    return error


def _widened(array: np.ndarray, dtype: DType) -> np.ndarray:
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype is dtypes.bfloat16 else array


# ---- one node


def _evaluate(
    node: Node,
    values: Mapping[str, Any],
    types: Mapping[str, DType],
    exact: bool,
    rng: np.random.Generator | None = None,
) -> list[Any]:
    """The outputs of a node as a caller would get them, floats as float64 unless its own types are wanted.

    Where there is an `rng`, what is fed is rounded once more by it.
    """
    captured = (value for graph in node.subgraphs() for value in graph.captures())
    environment: Environment = {}
    for value in (*node.inputs, *captured):
        if value is None or value in environment:
            continue
        if value.constant is not None and value.name not in values:
            item: Any = of_tensor(value.constant)
        else:
            item = _arrays(values[value.name], types.get(value.name))
        environment[value] = item if exact else fill(form(item), (_wide(leaf, rng) for leaf in leaves(item)))
    twin = copy(node)
    if not exact:
        twin.attributes = {name: _wide_attribute(each) for name, each in node.attributes.items()}
    expand(twin, environment)
    return [_given(environment.get(value)) for value in node.outputs]


def _arrays(item: Any, dtype: DType | None) -> Any:
    """A value of a run as operators take it."""
    if isinstance(item, list):
        if item and isinstance(item[0], dict):
            keys = tuple(item[0])
            return Map(keys, _array(np.array([[row[key] for key in keys] for row in item]), None))
        return tuple(_arrays(each, dtype) for each in item)
    if isinstance(item, dict):
        return Map(tuple(item), _array(np.array(list(item.values())), None))
    return None if item is None else _array(np.asarray(item), dtype)


def _array(array: np.ndarray, dtype: DType | None) -> Array:
    dtype = dtype or dtypes.of(array.dtype)
    if dtype is dtypes.string:
        strings = active_strings()
        assert strings is not None
        return Array(dtype, array.shape, strings.encode(array))
    return Array(dtype, array.shape, inward(array, dtype))


def _wide(array: Array, rng: np.random.Generator | None = None) -> Array:
    if array.dtype not in NARROW or array.value is None:
        return array
    wide = array.value.astype(np.float64)
    if rng is not None:
        wide *= 1 + rng.choice([-0.5, 0.5], wide.shape) * np.finfo(array.value.dtype).eps
    return Array(dtypes.float64, array.shape, wide)


def _given(item: Any) -> Any:
    """What an operator gave as a caller gets it."""
    return present(fill(form(item), map(_plain, leaves(item))))


def _plain(array: Array) -> np.ndarray:
    value = array.value if array.value is not None else np.asarray(array.sizes, np.int64)
    if array.dtype is dtypes.string:
        strings = active_strings()
        assert strings is not None
        return strings.decode(value)
    return _widened(value, array.dtype)


# ---- wider floats in attributes and subgraphs


def _wide_tensor(tensor: Tensor) -> Tensor:
    if tensor.dtype not in NARROW:
        return tensor
    return Tensor.of(tensor.array().astype(np.float64), dtypes.float64, tensor.name)


def _wide_attribute(attribute: Attribute) -> Attribute:
    if attribute.kind == "graph":
        return replace(attribute, value=_wide_graph(copy_graph(attribute.value, {})))
    if attribute.kind == "tensor":
        return replace(attribute, value=_wide_tensor(attribute.value))
    if attribute.name in KINDS and attribute.value in [dtype.number for dtype in NARROW]:
        return replace(attribute, value=dtypes.float64.number)
    return attribute


def _wide_graph(graph: Graph) -> Graph:
    """Widen a copy of a graph, in place."""
    results = [value for node in graph.nodes for value in node.outputs]
    for value in (*graph.inputs, *graph.initializers, *results):
        if isinstance(value.type, TensorType) and value.dtype in NARROW:
            value.type = replace(value.type, dtype=dtypes.float64)
        if value.constant is not None:
            value.constant = _wide_tensor(value.constant)
    for node in graph.nodes:
        node.attributes = dict(map(_wide_constant, node.attributes.items()))
        for inner in node.subgraphs():
            _wide_graph(inner)
    return graph


def _wide_constant(item: tuple[str, Attribute]) -> tuple[str, Attribute]:
    name, attribute = item
    if name in ("value_float", "value_floats"):
        tensor = Tensor.of(np.asarray(attribute.value, np.float64), dtypes.float64)
        return "value", Attribute("value", "tensor", tensor)
    return name, attribute if attribute.kind == "graph" else _wide_attribute(attribute)
