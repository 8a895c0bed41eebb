"""A record of rewrites: it counts them, so that a wrong one can be bisected, and prints them if asked to."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Sequence

from sardonyx.common.record import field, record
from sardonyx.model.ir import Node, Value

WIDTH = 240
"""Characters after which an expression is cut off."""


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else default


def is_limited() -> bool:
    """Whether the environment limits the number of rewrites."""
    return _number("SARDONYX_REWRITE_LIMIT", -1) >= 0


@record
class Journal:
    """Which rewrites are allowed, and how many were made: rules switched off by name, and a limit to their number.

    The environment says it: `SARDONYX_DEBUG=3` prints each rewrite to stderr as `rule: before -> after`;
    `SARDONYX_REWRITE_LIMIT=n` stops after the n-th rewrite of a session.
    """

    disabled: Collection[str] = ()
    limit: int = field(default_factory=lambda: _number("SARDONYX_REWRITE_LIMIT", sys.maxsize))
    shown: bool = field(default_factory=lambda: _number("SARDONYX_DEBUG", 0) >= 3)
    count: int = 0
    last: str = ""

    @property
    def is_full(self) -> bool:
        """Whether no more rewrites may be made."""
        return self.count >= self.limit

    def allows(self, rule: str) -> bool:
        return not self.is_full and rule not in self.disabled

    def record(self, rule: str, node: Node, values: Sequence[Value | None], new_nodes: Iterable[Node]) -> None:
        """A rule replaced the outputs of a node by these Values, for which it made these nodes."""
        self.count += 1
        self.last = f"{rule} at {node.label}"
        if self.shown:
            inner = set(new_nodes)
            after = ", ".join(expression(value, inner) for value in values if value is not None)
            print(f"{rule}: {expression(node.outputs[0], {node, *_matched(node)})} -> {after}", file=sys.stderr)


def _matched(node: Node) -> Iterable[Node]:
    """The node's producers, and theirs."""
    near = [value.producer for value in node.inputs if value is not None and value.producer]
    return [*near, *(value.producer for each in near for value in each.inputs if value is not None and value.producer)]


def expression(value: Value | None, inner: Collection[Node]) -> str:
    """A Value as an expression over `inner` nodes.

    >>> from sardonyx.model.ir.text import parse_graph
    >>> graph = parse_graph("(float32[2] x) => (y) { h = Relu(x)  y = LeakyRelu <alpha = 0.5> (h) }")
    >>> expression(graph.outputs[0], graph.nodes)
    'LeakyRelu(Relu(x), alpha=0.5)'
    """
    if value is None:
        return "_"
    node = value.producer
    if value.constant is not None and value.constant.size == 1 and value.constant.dtype.is_native:
        return str(value.constant.array().reshape(-1)[0])
    if node is None or node not in inner:
        return value.name or str(value.type)
    parts = [expression(each, inner) for each in node.inputs]
    plain = ("int", "float", "string", "ints", "floats", "strings")
    parts += [f"{name}={each.value}" for name, each in node.attributes.items() if each.kind in plain]
    text = f"{node.op_type}({', '.join(parts)})"
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}..."
