"""What the tests of rules share: a rule applied to one line of text, compared with another line, and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.strings import StringTable
from sardonyx.host.random import set_seed
from sardonyx.model.ir import Graph, Tensor, TensorType, Value
from sardonyx.model.ir.checker import check as check_model
from sardonyx.model.ir.compare import difference
from sardonyx.model.ir.model import Model
from sardonyx.model.ir.text import format_graph, parse_graph
from sardonyx.model.serde.writer import write
from sardonyx.ops.interpret import interpret
from sardonyx.passes.infer import infer_types
from sardonyx.passes.journal import Journal
from sardonyx.passes.rewrite import FOLD, MERGE, rewrite
from sardonyx.passes.rule import Rule
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant as known

IMPORTS = {"": 28, "com.microsoft": 1}


def graph_of(inputs: str, body: str, outputs: str = "y") -> Graph:
    return parse_graph(f"({inputs}) => ({outputs}) {{ {body} }}")


def make_constant(graph: Graph, name: str, array: np.ndarray) -> None:
    """Turn an input into an initializer."""
    value = next(value for value in graph.inputs if value.name == name)
    graph.inputs.remove(value)
    graph.initializers.append(value)
    value.type = TensorType(value.dtype, array.shape)
    value.constant = Tensor.of(array, value.dtype or dtypes.of(array.dtype), name)


def check(
    rules: Rule | Sequence[Rule],
    inputs: str,
    before: str,
    after: str | None = None,
    outputs: str = "y",
    only: bool = True,
    tolerance: float = 1e-5,
) -> None:
    """Rewriting `before` gives `after` (itself, if there is none), and both compute the same from the same inputs.

    Constant folding and common subexpressions take part unless it is `only` for the rules.
    """
    chosen = [rules] if isinstance(rules, Rule) else rules
    original, graph, wanted = (graph_of(inputs, body, outputs) for body in (before, before, after or before))
    rewrite(graph, chosen, Journal({FOLD, MERGE} if only else ()))
    rewrite(wanted, [], Journal({FOLD, MERGE}))
    check_model(Model(graph, IMPORTS))
    assert difference(_named(graph), _named(wanted), names=False) == ""
    assert types(original) == types(graph)
    for one, other in zip(run(original), run(graph), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(
            other, one, rtol=tolerance, atol=tolerance * (1.0 + float(np.abs(one).max(initial=0)))
        )


def _named(graph: Graph) -> Graph:
    """The graph with a name for every Value, and its constants in the order in which they are used."""
    used = [value for node in graph.nodes for value in (*node.inputs, *graph.outputs) if value is not None]
    graph.initializers = [value for value in dict.fromkeys(used) if value.constant is not None]
    return parse_graph(format_graph(graph, limit=None))


def types(graph: Graph) -> list[str]:
    """The inferred types of the outputs."""
    infer_types(graph)
    return [str(value.type) for value in graph.outputs]


def feeds(graph: Graph, sizes: dict[str, int] | None = None) -> list[np.ndarray]:
    """Random arrays for the inputs; a symbolic size is 3 unless told otherwise."""
    rng = np.random.default_rng(1)
    return [_random(rng, value, sizes or {}) for value in graph.inputs]


def _random(rng: np.random.Generator, value: Value, sizes: dict[str, int]) -> np.ndarray:
    shape = [dim if isinstance(dim, int) else sizes.get(str(dim), 3) for dim in value.shape or ()]
    assert value.dtype is not None
    if value.dtype is dtypes.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    return (rng.normal(size=shape) * 4).astype(value.dtype.storage)


def run(graph: Graph, arrays: Sequence[np.ndarray] | None = None) -> list[Any]:
    """The outputs, computed node by node; what is random is so from one seed."""
    arrays = feeds(graph) if arrays is None else arrays
    set_seed(0)
    environment: dict[int, Array | None] = {}
    strings = StringTable()
    with strings, np.errstate(all="ignore"):
        for value, array in zip(graph.inputs, arrays, strict=True):
            environment[value] = known(array, value.dtype or dtypes.of(array.dtype))
        found = interpret(graph, environment)
    return [_elements(item, strings) for item in found]


def _elements(item: Any, strings: StringTable) -> Any:
    """A NumPy array, or a list of them for a sequence."""
    if not isinstance(item, Array):
        return None if item is None else [_elements(each, strings) for each in item]
    return strings.decode(item.value) if item.dtype is dtypes.string else item.value


def onnxruntime_run(graph: Graph, arrays: Sequence[np.ndarray]) -> list[Any]:
    """The outputs of a graph of operator set 21 by onnxruntime, which rearranges nothing."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    for value in graph.outputs:
        value.type = None
    session = onnxruntime.InferenceSession(write(Model(graph, {"": 21, "com.microsoft": 1})), options)
    return session.run(None, {value.name: array for value, array in zip(graph.inputs, arrays, strict=True)})
