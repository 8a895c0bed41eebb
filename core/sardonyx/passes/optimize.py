"""Optimization: rules in levels, as users know them."""

from __future__ import annotations

from sardonyx.ir import Model
from sardonyx.options import GraphOptimizationLevel as Level
from sardonyx.passes import activation, affine, control, movement, normalization, simplify
from sardonyx.passes.journal import Journal
from sardonyx.passes.rewrite import rewrite
from sardonyx.passes.rule import Rule

RULES: dict[Level, list[Rule]] = {
    Level.ORT_ENABLE_BASIC: [*control.RULES, *simplify.RULES, *movement.RULES],
    Level.ORT_ENABLE_EXTENDED: [*affine.RULES, *normalization.RULES, *activation.RULES],
}
"""The rules that each level adds to those below it. Constant folding and common subexpressions come with the first."""


def optimize(model: Model, level: Level, journal: Journal | None = None) -> Model:
    """Rewrite the model's graph in place by the rules of a level and those below it."""
    rules = [rule for own, added in RULES.items() if own <= level for rule in added]
    if rules:
        rewrite(model.graph, rules, journal)
        for node in model.graph.all_nodes():
            model.opset_imports.setdefault(node.domain, 1)
    return model
