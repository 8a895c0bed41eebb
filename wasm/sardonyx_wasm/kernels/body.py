"""The nodes of a kernel as scalars and vectors, each computed in the outermost loop that knows what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import vectors
from ..assembler import Expr, Function, Operand, i32x4
from ..code import Unit
from ..scalars import functions, values
from ..scalars.values import kind
from ..vectors import Vector
from .graph import OUTSIDE, Graph, Size, index_of
from .lazy import Branch, branches
from .memory import Copies, Memory, scaled
from .ranges import has, ranges
from .scope import expr, plus, times
from .strategy import Strategy


class Body(Memory):
    """The innermost part of a kernel's function, and what has moved out of it.

    `levels` says for each node how many loops are around it: one for each axis of the strategy's order. What follows a
    reduction counts as one more.
    """

    def __init__(self, unit: Unit, f: Function, graph: Graph, strategy: Strategy) -> None:
        super().__init__(unit, f, graph, strategy)
        self.innermost = len(strategy.order)
        self.levels = self._count_loops()
        self.folded: list[dict[int, Vector]] = []
        self._lazy = branches(graph, self.levels, self.is_vector, self.is_spread)
        self._ranges = ranges(graph.nodes, graph.kinds)

    def _count_loops(self) -> list[int]:
        graph, order = self.graph, self.strategy.order
        depth = [(1 << axis, place + 1) for place, axis in enumerate(order)]
        levels = [max((at for bit, at in depth if bits & bit), default=0) for bits in graph.axes]
        folds = graph.kernel.folds
        inside = graph.ancestors([node for _, _, node in folds])
        for node, phase in enumerate(graph.phase):
            if folds and (phase == 2 or (levels[node] == graph.rank and node not in inside)):
                levels[node] = self.innermost + 1
        return levels

    def at_level(self, level: int) -> list[int]:
        """The nodes with that many loops around them."""
        return [node for node, at in enumerate(self.levels) if at == level]

    def emit(self, nodes: Iterable[int], copies: Copies = (0,)) -> None:
        """Compute nodes, given in order; those used once and right here stay expressions."""
        nodes = list(nodes)
        elsewhere = {inner for node in nodes if node in self._lazy for inner in self._lazy[node].nodes}
        for node in nodes:
            if node in elsewhere:
                continue
            if node in self._lazy:
                self._branch(node, self._lazy[node], copies)
                continue
            computed = self.nodes.setdefault(node, {})
            new = [copy for copy in (copies if self.is_spread(node) else (0,)) if copy not in computed]
            for copy, value in zip(new, self._values(node, new), strict=True):
                computed[copy] = value if self._stays(node) else self._keep(node, copy, value)

    def _stays(self, node: int) -> bool:
        """Whether a value may be evaluated where it is used."""
        if self.graph.nodes[node][0] in ("const", "acc"):
            return True
        if len(self.graph.users[node]) != 1:
            return False
        (user,) = self.graph.users[node]
        if user == OUTSIDE:
            return self.levels[node] >= self.innermost
        return self.levels[user] == self.levels[node] and self._computes(user)

    def _computes(self, node: int) -> bool:
        """Whether a node uses others as operands, not in an Index."""
        function, _, _, detail = self.graph.nodes[node]
        return index_of(function, detail) is None

    def _keep(self, node: int, copy: int, value: Vector) -> Vector:
        """A value in locals; if vectors in loops further in will need it as a vector, that too."""
        value = vectors.let(self, value) if self.is_vector(node) else (self.let(value[0]),)
        users = self.graph.users[node]
        if self.lanes is None or self.is_vector(node) or self.levels[node] >= self.innermost:
            return value
        if any(user == OUTSIDE or (self.is_vector(user) and self._computes(user)) for user in users):
            part, *more = vectors.splat(self.graph.kinds[node], *value)
            self.splats[node, copy] = (self.let(part),) * (1 + len(more))
        return value

    def _branch(self, node: int, branch: Branch, copies: Copies) -> None:
        """A `where` that computes only the side that its condition, the same for all lanes, tells."""
        k, f = self.graph.kinds[node], self.f
        copies = copies if self.is_spread(node) else (0,)
        types = vectors.types(k) if self.is_vector(node) else (k.type,)
        results = {copy: tuple(f.local(part) for part in types) for copy in copies}
        condition, yes, no = self.graph.nodes[node][2]
        for block, value, needed in ((f.if_(self.scalar_of(condition)), yes, branch.yes), (f.else_(), no, branch.no)):
            with block, self.nest():
                self.emit(needed, copies)
                for copy in copies:
                    self.assign(results[copy], self.operand(value, copy, self.is_vector(node)))
        self.nodes.setdefault(node, {}).update(results)

    def scalar_of(self, node: int) -> Expr:
        """The value of a node that has no copies."""
        (value,) = self.nodes[node][0]
        return value

    def _values(self, node: int, copies: Sequence[int]) -> Iterable[Vector]:
        """The values of copies of a node, which may be computed together."""
        function, _, operands, _ = self.graph.nodes[node]
        if len(copies) < 2 or not operands or function in _CONVERSIONS:
            return (self._value(node, copy) for copy in copies)
        vector, of = self.is_vector(node), self.graph.kinds[operands[-1]]
        arguments = [[self.operand(operand, copy, vector) for operand in operands] for copy in copies]
        return self.call_each(function, of, arguments)

    def _value(self, node: int, copy: int) -> Vector:
        function, dtype, operands, detail = self.graph.nodes[node]
        k = kind(dtype)
        if function == "const":
            return (values.literal(k, detail),)
        if function == "index":
            return (self._index(node, detail, copy),)
        if function == "load":
            return self.load(node, copy)
        if function == "acc":
            results = self.folded[int(detail)]
            return results[copy if self.is_spread(node) else 0]
        vector = self.is_vector(node)
        arguments = [self.operand(operand, copy, vector) for operand in operands]
        of = self.graph.kinds[operands[-1]]
        if function not in _CONVERSIONS:
            return self.call(function, of, arguments)
        if vector and function == "cast":
            return vectors.cast(self, k, of, arguments[0], has(k, self._ranges[operands[0]]))
        of_scalars, of_vectors = _CONVERSIONS[function]
        return of_vectors(self, k, of, arguments[0]) if vector else (of_scalars(self, k, of, *arguments[0]),)

    def _index(self, node: int, index: Any, copy: int) -> Expr:
        """The value of an index node, an i32 or i32x4."""
        offset, axes, terms = index
        total: Operand = self.size(offset)
        between: Size = 0
        for axis, stride in axes:
            at: Operand = self.counters[axis]
            if axis == self.spread:
                at = plus(at, copy * self.stride)
            total = plus(total, times(at, self.size(stride)))
            if axis == self.lanes:
                between = stride
        vector: Expr | None = None if between == 0 else self.ramp(between)
        for term, stride in terms:
            (value,) = self.operand(term, copy, self.is_vector(term))
            if self.is_vector(term):
                product = scaled(value, self.size(stride))
                vector = product if vector is None else vector + product
            else:
                total = plus(total, times(value, self.size(stride)))
        return expr(total) if vector is None else i32x4.splat(expr(total)) + vector


_CONVERSIONS = {"cast": (functions.cast, vectors.cast), "bitcast": (functions.bitcast, vectors.bitcast)}
