"""The rewriter: rules, constant folding and common subexpressions, over a graph and its subgraphs to a fixed point."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

from sardonyx.errors import Fail
from sardonyx.model.ir import Graph, Node, Value
from sardonyx.model.ir.order import uses
from sardonyx.passes.fold import TOTAL, absorb_constants, constant_value, fold, is_rearranged
from sardonyx.passes.infer import Inference
from sardonyx.passes.initializers import fed_apart, place_constants
from sardonyx.passes.intern import Constants, is_pure, node_key
from sardonyx.passes.journal import Journal
from sardonyx.passes.pattern import makers, op
from sardonyx.passes.rule import Rule

FOLD = "constant_folding"
MERGE = "common_subexpressions"
PROJECTIONS = "merge_projections"
"""What is switched off by name, and is no rule."""

MOST_PER_NODE = 50
"""Rewrites for each node of a graph beyond which rules must be undoing each other."""

REACH = 16
"""The distance, in nodes above the one that it replaces, up to which a rule may ask for the users of a Value."""


def rewrite(graph: Graph, rules: Iterable[Rule], journal: Journal | None = None) -> None:
    """Rewrite a graph in place until no rule applies any more; inputs and outputs keep their names and types.

    Initializers that are inputs too can be fed, so they are no constants here. A rule that raises, or that would change
    the type of an output, raises Fail, which names rule and node.
    """
    types = [value.type for value in graph.outputs]
    with fed_apart(graph):
        _GraphRewriter(graph, rules, journal or Journal()).run()
    for value, kind in zip(graph.outputs, types, strict=True):
        value.type = kind or value.type


class _GraphRewriter:
    """Goes through the nodes in their order; new nodes come next.

    `replaced` leads from a Value to the one that took its place: whoever uses it comes later, and follows the lead.
    `uses` is kept exact, so that what is used no more falls away at once. A node is looked at again only if something
    up to REACH nodes above it was replaced, or lost a user: `freed` are those that did after users had been looked at,
    and `near` says how far down a change is still felt.
    """

    def __init__(self, graph: Graph, rules: Iterable[Rule], journal: Journal) -> None:
        self.graph = graph
        self.journal = journal
        self.rules: dict[tuple[str, str], list[Rule]] = defaultdict(list)
        for rule in rules:
            if journal.allows(rule.name):
                for root in dict.fromkeys((pattern.domain, pattern.op_type) for pattern in rule.patterns):
                    self.rules[root].append(rule)
        self.folds = journal.allows(FOLD)
        if self.folds:
            absorb_constants(graph)
        self.facts = Inference(graph)
        self.inferred: set[Node] = set()
        self.constants = Constants()
        self.replaced: dict[Value, Value] = {}
        self.home: dict[Node, Graph] = {}
        self.available: dict[Graph, dict[Hashable, Node]] = defaultdict(dict)
        self.dead: set[Node] = set()
        self.room = TOTAL
        self.near: dict[Value | None, int] = {}
        self.freed: set[Value] = set()
        self.uses: Counter[Value] = Counter(graph.outputs)
        for node in graph.nodes:
            self.uses.update(uses(node))
        self.most = journal.count + MOST_PER_NODE * (100 + sum(1 for _ in graph.all_nodes()))

    def run(self) -> None:
        self._prune(self.graph)
        once = False
        while self.freed or not once:
            self.near = dict.fromkeys(self.freed, REACH)
            self.freed = set()
            _Sweep(self, self.graph, None).run()
            once = True
        place_constants(self.graph)

    def _prune(self, graph: Graph) -> None:
        """Drop the nodes whose outputs nobody uses, from the last to the first."""
        nodes = []
        for node in reversed(graph.nodes):
            if any(self.uses[value] for value in node.outputs):
                nodes.append(node)
                for inner in node.subgraphs():
                    self._prune(inner)
            else:
                self.uses.subtract(self.used_by(node))
        graph.nodes = nodes[::-1]

    def release(self, node: Node) -> None:
        """Remove a replaced node's uses, and with them the nodes whose outputs nobody uses any more."""
        stack = [node]
        while stack:
            node = stack.pop()
            if node in self.dead:
                continue
            self._bury(node)
            for value in self.used_by(node):
                self.uses[value] -= 1
                if self.uses[value] > 0:
                    self.freed.add(value)
                elif value.producer in self.home and not any(self.uses[output] for output in value.producer.outputs):
                    stack.append(value.producer)

    def _bury(self, node: Node) -> None:
        """Mark a node as dead, and those of its subgraphs that were not moved into another graph."""
        self.dead.add(node)
        for inner in node.subgraphs():
            for each in inner.nodes:
                if self.home.get(each, inner) is inner:
                    self._bury(each)

    def used_by(self, node: Node) -> Iterator[Value]:
        """What a node, or a graph inside it, uses."""
        return map(self.resolve, uses(node))

    def infer(self, node: Node) -> None:
        """Infer what a node gives, unless that is known, perhaps from the node that it replaced."""
        if node not in self.inferred:
            if len(node.outputs) > 1 or self.facts.array(node.outputs[0]) is None:
                self.facts.infer(node)
            self.inferred.add(node)

    def resolve(self, value: Value) -> Value:
        """The Value that stands for this one now."""
        if value in self.replaced:
            path = []
            while value in self.replaced:
                path.append(value)
                value = self.replaced[value]
            for passed in path:
                self.replaced[passed] = value
        return value if value.constant is None else self.constants.unique(value)


class _Sweep:
    """One pass over the nodes of a graph, inside the pass over the graph around it."""

    def __init__(self, state: _GraphRewriter, graph: Graph, outer: _Sweep | None) -> None:
        self.state = state
        self.graph = graph
        self.outer = outer
        self.available = state.available[graph]
        self.passed: set[Node] = set()
        self.outputs = {value for value in graph.outputs if value.producer is not None}

    def run(self) -> None:
        state, graph = self.state, self.graph
        pending = graph.nodes[::-1]
        state.home.update(dict.fromkeys(pending, graph))
        nodes: list[Node] = []
        while pending:
            node = pending.pop()
            if node in state.dead:
                continue
            node.inputs = [value and state.resolve(value) for value in node.inputs]
            new_nodes = self.step(node) if self._is_near(node) else None
            if new_nodes is None:
                nodes.append(node)
                self.passed.add(node)
            else:
                pending += reversed(new_nodes)
        graph.nodes = [node for node in nodes if node not in state.dead]
        graph.outputs = [value if value.constant is not None else state.resolve(value) for value in graph.outputs]

    def _is_near(self, node: Node) -> bool:
        """Whether a node is new, or something changed above it."""
        near = self.state.near
        reach = max([near.get(value, 0) for value in node.inputs], default=0) - 1 if near else -1
        if reach > 0:
            for value in node.outputs:
                near[value] = max(reach, near.get(value, 0))
        return reach >= 0 or node not in self.state.inferred

    def around(self) -> Iterator[_Sweep]:
        """This sweep and those around it."""
        sweep: _Sweep | None = self
        while sweep is not None:
            yield sweep
            sweep = sweep.outer

    def step(self, node: Node) -> list[Node] | None:
        """The nodes to go on with in place of this one, or None if it stays."""
        state = self.state
        branches = list(node.subgraphs())
        if not branches and not (state.folds and is_rearranged(node)):
            state.infer(node)
        key = node_key(node) if is_pure(node) else None
        for name, values in self.replacements(node, key):
            new_nodes = self.commit(name, node, values)
            if new_nodes is not None:
                return new_nodes
        for inner in branches:
            state.facts.enter(inner, node)
            _Sweep(state, inner, self).run()
        if branches:
            state.facts.infer(node)
        if key is not None:
            self.available[key] = node
        return None

    def replacements(self, node: Node, key: Hashable) -> Iterator[tuple[str, Sequence[Value | None]]]:
        """Values that can replace the outputs of a node, each time with the name of the rule that gives them."""
        state = self.state
        if state.journal.allows(FOLD) and (folded := fold(node, state.uses, state.facts, state.room)):
            state.room -= sum(
                value.constant.size * value.constant.dtype.itemsize for value in folded if value and value.constant
            )
            yield FOLD, folded
        if key is not None and state.journal.allows(MERGE):
            for sweep in self.around():
                same = sweep.available.get(key)
                if same is not None and same in sweep.passed and same not in state.dead:
                    yield MERGE, same.outputs
        if (node.domain, node.op_type) not in state.rules or state.journal.is_full:
            return
        near = makers(node)
        for rule in state.rules[node.domain, node.op_type]:
            try:
                values = rule.apply(node, near, state.uses, state.facts)
            except Exception as error:
                raise Fail(f"optimizing: rule {rule.name} failed at {node.label}: {error}") from error
            if values is not None:
                yield rule.name, values

    def commit(self, name: str, node: Node, values: Sequence[Value | None]) -> list[Node] | None:
        """Replace a node's outputs by Values: the new nodes, or None if a Value is missing or nothing would change."""
        state = self.state
        replacements = dict(zip(node.outputs, values))
        if any(replacements.get(old) is None for old in node.outputs if state.uses[old]):
            return None
        new_nodes = self._new_nodes([value for value in values if value is not None])
        pairs = []
        for old, value in replacements.items():
            if value is None or not state.uses[old]:
                continue
            value = state.resolve(value)
            if old in self.outputs:
                output = self._as_output(old, value, new_nodes)
                if output is not value and node.op_type == "Identity" and value.constant is None:
                    return None
                value = output
            pairs.append((old, value))
        state.journal.record(name, node, [value for _, value in pairs], new_nodes)
        if state.journal.count > state.most:
            raise Fail(f"optimizing does not come to an end; the last rule was {state.journal.last}")
        for each in new_nodes:
            state.home[each] = self.graph
            state.uses.update(state.used_by(each))
            each.name = each.name or node.name
        for old, value in pairs:
            if value.producer in new_nodes:
                value.name = old.name
            if not state.facts.agree(old, value):
                raise Fail(f"optimizing: rule {state.journal.last} turns '{old.name}', {old.type}, into {value.type}")
            self._replace(old, value)
        state.release(node)
        return new_nodes

    def _replace(self, old: Value, value: Value) -> None:
        state = self.state
        state.replaced[old] = value
        state.near[value] = REACH
        state.uses[value] += state.uses.pop(old)
        if old in self.outputs:
            self.outputs.add(value)
            self.graph.outputs = [value if output is old else output for output in self.graph.outputs]
        state.facts.adopt(value, old)

    def _new_nodes(self, values: list[Value]) -> list[Node]:
        """The nodes behind these Values that are not in this graph or those around it, in an order to run them in."""
        graphs = [sweep.graph for sweep in self.around()]
        entered: set[Node] = set()
        ordered: dict[Node, None] = {}
        stack = [value.producer for value in reversed(values)]
        while stack:
            node = stack[-1]
            if node is None or node in ordered or self.state.home.get(node) in graphs:
                stack.pop()
            elif node in entered:
                ordered[node] = None
            else:
                entered.add(node)
                captured = (value for inner in node.subgraphs() for value in inner.captures())
                stack += (value.producer for value in (*node.inputs, *captured) if value is not None)
        return list(ordered)

    def _as_output(self, old: Value, value: Value, new_nodes: list[Node]) -> Value:
        """A Value that can be an output of the graph under the name that it had there."""
        if value.constant is not None:
            return constant_value(value.constant, old.name)
        producer = value.producer
        here = producer is not None and (producer in new_nodes or self.state.home.get(producer) is self.graph)
        if here and value not in self.outputs:
            value.name = old.name
            return value
        copy = op.Identity(value)
        assert copy.producer is not None
        new_nodes.append(copy.producer)
        return copy
