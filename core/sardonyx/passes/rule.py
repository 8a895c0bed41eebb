"""Rules: named functions from the bindings of a pattern to the Values that replace its match.

@rule(op.MatMul(x, w).once + b)
def matmul_add(x: Value, w: Value, b: Value) -> Value | None:
    "MatMul(x, w) + b -> Gemm(x, w, b), of matrices"
    return op.Gemm(x, w, b) if is_matrix(x) and is_matrix(w) and is_vector(b) else None
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sardonyx.common.record import record
from sardonyx.model.ir import Node, Value
from sardonyx.passes.infer import Inference
from sardonyx.passes.pattern import NodePattern, Uses

Replacement: TypeAlias = "Value | Sequence[Value | None] | None"
"""What replaces the first output of the node, or each of its outputs; None leaves the node as it is."""

ASKED = frozenset({"facts", "uses"})
"""Parameters of rules that no pattern binds."""


@record(frozen=True)
class Rule:
    """A function over what its patterns bind; the first line of its docstring is `before -> after`."""

    name: str
    patterns: tuple[NodePattern, ...]
    function: Callable[..., Replacement]
    names: frozenset[str]
    asks: frozenset[str]

    def apply(self, node: Node, near: set[str], uses: Uses, facts: Inference) -> Sequence[Value | None] | None:
        """What replaces the outputs of a node, or None where the rule does not apply; `near` are the node's makers."""
        arguments = {"facts": facts, "uses": uses}
        more: dict[str, Any] = {name: arguments[name] for name in self.asks}
        for pattern in self.patterns:
            if pattern.makers <= near:
                for bindings in pattern.match_node(node, {}, uses):
                    if len(bindings) < len(self.names):
                        bindings = dict.fromkeys(self.names) | bindings
                    result = self.function(**bindings, **more)
                    if result is not None:
                        return [result] if isinstance(result, Value) else result
        return None


def rule(*patterns: NodePattern) -> Callable[[Callable[..., Replacement]], Rule]:
    """Make a rule of a function: its parameters are the names in each of the patterns.

    A parameter `facts` is given the Inference, which knows more of sizes than types can say, and `uses` how often each
    Value is used. What the function does not take, or the pattern does not bind, raises TypeError.
    """

    def decorate(function: Callable[..., Replacement]) -> Rule:
        name = function.__name__
        code = function.__code__  # inspect.signature takes longer than all the rest
        parameters = frozenset(code.co_varnames[: code.co_argcount])
        taken = parameters - ASKED
        for pattern in patterns:
            bound = pattern.names()
            if bound != taken:
                raise TypeError(f"rule {name}: the pattern binds {sorted(bound)}, the function takes {sorted(taken)}")
        if " -> " not in (function.__doc__ or "").partition("\n")[0]:
            raise TypeError(f"rule {name}: the first line of its docstring is no 'before -> after'")
        return Rule(name, patterns, function, taken, parameters & ASKED)

    return decorate
