"""Optimization: rules in levels, as users know them."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module

from sardonyx.common.record import record
from sardonyx.model.ir import Graph, Model
from sardonyx.passes.journal import Journal
from sardonyx.passes.levels import GraphOptimizationLevel as Level
from sardonyx.passes.rewrite import FOLD, MERGE, PROJECTIONS, rewrite
from sardonyx.passes.rule import Rule


@record(frozen=True)
class Family:
    """A list of rules in a module of this package.

    Where `needs` names operators, no rule applies to a graph that has none of these, and no other rule makes one: the
    module is not imported then.
    """

    module: str
    needs: frozenset[str] = frozenset()
    name: str = "RULES"

    def is_needed(self, present: Collection[str]) -> bool:
        """Whether a graph with these operators may have something for its rules."""
        return not self.needs or not self.needs.isdisjoint(present)

    def rules(self) -> list[Rule]:
        rules: list[Rule] = getattr(import_module(f"sardonyx.passes.{self.module}"), self.name)
        return rules


_QUANTIZED = frozenset({"QuantizeLinear"})
INTEGERS = Family("quantization", _QUANTIZED, "INTEGER_RULES")
"""The rules that make products of integers of dequantized ones."""

FAMILIES: dict[Level, list[Family]] = {
    Level.ORT_ENABLE_BASIC: [
        Family("control"),
        Family("simplify"),
        Family("movement"),
        Family("quantization", _QUANTIZED),
    ],
    Level.ORT_ENABLE_EXTENDED: [
        Family("affine"),
        Family("normalization"),
        Family("activation"),
        Family("rotary"),
        Family("attention", frozenset({"Softmax"})),
        INTEGERS,
    ],
}
"""The rules that each level adds to those below it. Constant folding and common subexpressions come with the first."""


def rules_of(level: Level, present: Collection[str] | None = None) -> list[Rule]:
    """The rules that a level adds; with the operators that are `present` in a graph, those of families that it needs.

    >>> [rule.name for rule in rules_of(Level.ORT_ENABLE_BASIC, {"Add"})][:1]
    ['if_of_constant']
    """
    families = [family for family in FAMILIES[level] if present is None or family.is_needed(present)]
    return [rule for family in families for rule in family.rules()]


def operators(graph: Graph) -> set[str]:
    """The operators of a graph and of those inside it."""
    return {node.op_type for node in graph.all_nodes()}


def names() -> frozenset[str]:
    """The names of all rules and passes that can be switched off."""
    return frozenset({FOLD, MERGE, PROJECTIONS, *(rule.name for level in FAMILIES for rule in rules_of(level))})


def optimize(
    model: Model,
    level: Level,
    journal: Journal | None = None,
    merged: bool = False,
) -> Model:
    """Rewrite the model's graph in place by the rules of a level and those below it.

    From the extended level on also by merging projections, if asked to.
    """
    present = operators(model.graph)
    rules = [rule for own in FAMILIES if own <= level for rule in rules_of(own, present)]
    journal = journal or Journal()
    if rules:
        rewrite(model.graph, rules, journal)
        if merged and level >= Level.ORT_ENABLE_EXTENDED:
            from sardonyx.passes.projections import merge_projections  # which few models are to have

            merge_projections(model.graph, journal)
        for node in model.graph.all_nodes():
            model.opset_imports.setdefault(node.domain, 1)
    return model
