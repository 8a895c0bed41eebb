"""What the optimizer does to a model, counted by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sardonyx.api.options import SessionOptions
from sardonyx.cli.screen import Screen
from sardonyx.common.record import field, record
from sardonyx.model.ir import Model, Node, Value
from sardonyx.passes.journal import Journal
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.passes.optimize import FAMILIES, optimize, rules_of
from sardonyx.passes.pipeline import prepare

LEVELS = {
    "none": GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": GraphOptimizationLevel.ORT_ENABLE_ALL,
}
OTHERS = {
    "constant_folding": "nodes of constants alone -> what they give",
    "common_subexpressions": "equal nodes with equal inputs -> one of them",
}
"""What the rewriter does without a rule."""


@record
class Tally(Journal):
    """A journal that counts rewrites by rule."""

    rules: Counter[str] = field(default_factory=Counter)

    def record(self, rule: str, node: Node, values: Sequence[Value | None], made: Iterable[Node]) -> None:
        super().record(rule, node, values, made)
        self.rules[rule] += 1


def rewritten(model: Model, level: str) -> tuple[Model, list[dict[str, Any]]]:
    """The model as a session with this level compiles it, and which rules led there: `rule`, `count`, `does`."""
    tally = Tally()
    options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
    result = optimize(prepare(model, options), LEVELS[level], tally)
    texts = {
        rule.name: (rule.function.__doc__ or "").partition("\n")[0] for level in FAMILIES for rule in rules_of(level)
    }
    texts |= OTHERS
    fired = [{"rule": name, "count": number, "does": texts.get(name, "")} for name, number in tally.rules.most_common()]
    return result, fired


def count_nodes(model: Model) -> int:
    """The nodes of a model's graph and of those inside it."""
    return sum(1 for _ in model.graph.all_nodes())


def render(screen: Screen, fired: Sequence[Mapping[str, Any]]) -> None:
    screen.table(["Rule", ">Times", "What it does"], [[item["rule"], item["count"], item["does"]] for item in fired])
