"""From a model as it was read to the graph that is compiled: one page of named steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from sardonyx import ops
from sardonyx.model.ir import Graph, Model, Node, Value
from sardonyx.model.ir.nesting import refuse_deep
from sardonyx.model.serde.inline import inline_functions
from sardonyx.passes.copy import copy_model, densify
from sardonyx.passes.journal import Journal
from sardonyx.passes.levels import GraphOptimizationLevel as Level
from sardonyx.passes.optimize import INTEGERS, names, operators, optimize
from sardonyx.passes.upgrade import NEWEST, lift, upgrade

TRAINING = "ai.onnx.preview.training"
CONSTANT_INITIALIZERS = 3
"""The IR version up to which an initializer is an input only because it has to be: it cannot be fed."""


class RewriteOptions(Protocol):
    """The session options that control rewriting."""

    graph_optimization_level: Level

    def entry(self, key: str, default: str = "") -> str:
        """What was set for a key, or the default."""
        ...


def prepare(model: Model, options: RewriteOptions, disabled: Collection[str] = (), integers: bool = True) -> Model:
    """The model with functions inlined, in the newest operator set, rewritten as the options' level says.

    The given model stays as it is. Rules, or optimizers of onnxruntime, named in `disabled`, or in the options' entry
    `optimization.disable_specified_optimizers` with `;` between them, are left out. Whether dequantized products that
    are quantized again become QLinearConv and QLinearMatMul is for the entry `optimization.integer_arithmetic` to say,
    `1` or `0`, else for `integers`; `optimization.merge_projections` = `1` makes one product of those that multiply the
    same input by weights, of 64 MiB at most; `optimization.enable_gelu_approximation` = `1` has Gelu by tanh.
    """
    inlined = inline_functions(model, lift=lift, newest=NEWEST)
    refuse_deep(inlined.graph)
    result = copy_model(inlined)  # the session keeps the given one for its metadata
    densify(result.graph)  # expansions know no sparse constants
    if result.ir_version <= CONSTANT_INITIALIZERS:
        _drop_fed(result)
    if any(map(_is_gradient, result.graph.all_nodes())):
        _name_differentiated(result.graph)
    upgrade(result)  # rules and expansions know the newest operator set alone
    for node in result.graph.all_nodes():
        if operator := ops.find(node.domain, node.op_type):
            operator.check(node)
    listed = [*disabled, *filter(None, options.entry("optimization.disable_specified_optimizers").split(";"))]
    off: set[str] = set()
    if listed:
        from sardonyx.passes.names import disabled_rules  # which few models need

        off = disabled_rules(listed, names())
    has_integers = INTEGERS.is_needed(operators(result.graph))
    if has_integers and options.entry("optimization.integer_arithmetic", str(int(integers))) != "1":
        off |= {rule.name for rule in INTEGERS.rules()}
    merged = options.entry("optimization.merge_projections") == "1"
    level = options.graph_optimization_level
    optimized = optimize(result, level, Journal(off), merged)
    if options.entry("optimization.enable_gelu_approximation") == "1" and level >= Level.ORT_ENABLE_EXTENDED:
        from sardonyx.passes.activation import approximate_gelu  # which few models need

        approximate_gelu(optimized.graph)
    return optimized


def _name_differentiated(graph: Graph, around: Mapping[str, Value] | None = None) -> None:
    """Make an input of what the attribute `y` of a Gradient names, since it computes with it."""
    named = {**(around or {}), **{value.name: value for value in graph.inputs}}
    named |= {value.name: value for node in graph.nodes for value in node.outputs}
    for node in graph.nodes:
        for inner in node.subgraphs():
            _name_differentiated(inner, named)
        if _is_gradient(node) and (value := named.get(str(node.attribute("y")))) is not None:
            node.inputs.append(value)


def _is_gradient(node: Node) -> bool:
    return node.op_type == "Gradient" and node.domain == TRAINING


def _drop_fed(model: Model) -> None:
    """Leave initializers out of the inputs."""
    initializers = set(model.graph.initializers)
    model.graph.inputs = [value for value in model.graph.inputs if value not in initializers]
