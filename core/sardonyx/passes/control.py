"""Rules for control flow."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.model.ir import Node, Value
from sardonyx.passes.checks import array_of
from sardonyx.passes.pattern import constants, op
from sardonyx.passes.rule import rule

(condition,) = constants("condition")


@rule(op.If(condition).named("node"))
def if_of_constant(condition: Value, node: Node) -> Sequence[Value] | None:
    """If(constant) -> the nodes of the branch that it chooses"""
    flag = array_of(condition)
    if flag is None or flag.size != 1:
        return None
    outputs: Sequence[Value] = node.attribute("then_branch" if flag.reshape(()) else "else_branch").outputs
    return outputs


RULES = [if_of_constant]
