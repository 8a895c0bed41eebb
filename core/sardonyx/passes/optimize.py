"""Optimization: rules in levels, as users know them."""

from __future__ import annotations

from sardonyx.model.ir import Model
from sardonyx.passes import (
    activation,
    affine,
    attention,
    control,
    movement,
    normalization,
    projections,
    quantization,
    rotary,
    simplify,
)
from sardonyx.passes.journal import Journal
from sardonyx.passes.levels import GraphOptimizationLevel as Level
from sardonyx.passes.projections import merge_projections
from sardonyx.passes.rewrite import FOLD, MERGE, rewrite
from sardonyx.passes.rule import Rule

RULES: dict[Level, list[Rule]] = {
    Level.ORT_ENABLE_BASIC: [*control.RULES, *simplify.RULES, *movement.RULES, *quantization.RULES],
    Level.ORT_ENABLE_EXTENDED: [
        *affine.RULES,
        *normalization.RULES,
        *activation.RULES,
        *rotary.RULES,
        *attention.RULES,
        *quantization.INTEGER_RULES,
    ],
}
"""The rules that each level adds to those below it. Constant folding and common subexpressions come with the first."""

NAMES = frozenset({FOLD, MERGE, projections.NAME, *(rule.name for rules in RULES.values() for rule in rules)})
"""The names of all rules and passes that can be switched off."""


def optimize(
    model: Model,
    level: Level,
    journal: Journal | None = None,
    merged: bool = False,
) -> Model:
    """Rewrite the model's graph in place by the rules of a level and those below it.

    From the extended level on also by merging projections, if asked to.
    """
    rules = [rule for own, added in RULES.items() if own <= level for rule in added]
    journal = journal or Journal()
    if rules:
        rewrite(model.graph, rules, journal)
        if merged and level >= Level.ORT_ENABLE_EXTENDED:
            merge_projections(model.graph, journal)
        for node in model.graph.all_nodes():
            model.opset_imports.setdefault(node.domain, 1)
    return model
