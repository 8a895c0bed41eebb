"""Reductions: rows, whose lanes are parts of one result, and columns, where each lane is a result of its own."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from sardonyx.common.record import record

from .. import vectors
from ..assembler import Expr, Operand, Variable, i32, i32x4
from ..scalars.values import kind
from ..vectors import Vector
from .accumulator import Accumulator, identity_of, rotate, together
from .graph import OUTSIDE
from .lazy import alone
from .loops import Loops
from .memory import Copies
from .scope import expr, plus, times
from .strategy import LANES

_PARTS = 4
"""Vectors that a row is summed up in."""
_RUN = 64
"""Elements of a column that are summed up before they are added to the rest."""

Sums: TypeAlias = list[list[Accumulator]]
"""For each fold an accumulator for each copy."""


def write_fold(body: Loops) -> None:
    """Write the loops of a kernel with folds."""
    _Fold(body).write()


@record(frozen=True)
class _Optional:
    """The `where` node of elements and identities, whose condition lanes share, and what only its element needs."""

    where: int
    condition: int
    element: int
    needed: tuple[int, ...]


class _Fold:
    def __init__(self, body: Loops) -> None:
        self.body, self.f, self.graph = body, body.f, body.graph
        self.folds = body.graph.kernel.folds
        self.rank, self.order = body.graph.rank, body.strategy.order
        self.optional = self._optional()

    def write(self) -> None:
        body, lanes = self.body, self.body.strategy.lanes
        body.emit(body.at_level(0))
        if lanes is None:
            body.nested(self.order[: self.rank], 0, self._column)
        elif lanes >= self.rank:
            body.nested(self.order[: self.rank], 0, self._row)
        else:
            body.nested(self.order[: self.rank - 1], 0, partial(self._columns, lanes))

    def _finish(self, copies: Copies = (0,)) -> None:
        """What follows the reduction."""
        self.body.emit(self.body.at_level(self.body.innermost + 1), copies)
        self.body.store(copies)

    # ---- columns

    def _columns(self, lanes: int) -> None:
        body = self.body

        def column(count: int = 1) -> None:
            body.emit(body.at_level(self.rank), range(count))
            self._column(range(count))

        body.by_vectors(lanes, body.bounds(lanes), column, column, body.strategy.most)

    def _column(self, copies: Copies = (0,)) -> None:
        """Results, each by one pass over the axes of the reduction; scalars where nothing is a vector."""
        body = self.body
        vector = body.lanes is not None
        sums = [[Accumulator(body, function, dtype, vector) for _ in copies] for function, dtype, _ in self.folds]
        (self._run if self.graph.kernel.reduce else self._inside)(self.rank, sums, copies)
        body.folded = [dict(zip(copies, [one.result() for one in fold], strict=True)) for fold in sums]
        self._finish(copies)

    def _run(self, level: int, sums: Sums, copies: Copies) -> None:
        """The loops over the axes from `order[level]` on."""
        body = self.body
        axis = self.order[level]
        run = self._run_length(level)
        if not run:
            with body.each(axis):
                self._inside(level + 1, sums, copies)
            return
        with body.tiles(axis, 0, body.size(self.graph.extents[axis]), run) as (start, stop):
            parts = [[one.another() for one in fold] for fold in sums]
            with body.walk(axis, start, 0) as at, self.f.while_(at < stop), body.nest():
                self._inside(level + 1, parts, copies)
                body.step(axis, 1)
            for fold, some in zip(sums, parts, strict=True):
                for total, part in zip(fold, some, strict=True):
                    total.add(part.value)

    def _run_length(self, level: int) -> int:
        """How many steps of this axis make a partial sum; 0 for all of them."""
        if not all(function == "sum" and kind(dtype).name == "float32" for function, dtype, _ in self.folds):
            return 0
        axis, *inner = (self.graph.extents[axis] for axis in self.order[level:])
        steps = _RUN
        for extent in inner:
            steps = steps // max(1, extent) if isinstance(extent, int) else _RUN
        return 0 if isinstance(axis, int) else max(1, steps)

    def _inside(self, level: int, sums: Sums, copies: Copies) -> None:
        """What one step of a loop does, with `level` loops around it."""
        body = self.body
        nodes = body.at_level(level)
        if level < body.innermost:
            body.emit(nodes, copies)
            self._run(level, sums, copies)
        elif self.optional is None or body.lanes is None:
            body.emit(nodes, copies)
            for fold, (_, _, node) in zip(sums, self.folds, strict=True):
                place = self._place() if fold[0].finds else ()
                for copy, one in zip(copies, fold, strict=True):
                    one.add(body.operand(node, copy, one.vector), place)
        else:
            self._if_any(self.optional, nodes, sums[0], copies)

    def _if_any(self, optional: _Optional, nodes: list[int], fold: list[Accumulator], copies: Copies) -> None:
        """Add elements where the condition holds."""
        body = self.body
        body.emit([node for node in nodes if node not in (optional.where, *optional.needed)], copies)
        with self.f.if_(body.scalar_of(optional.condition)), body.nest():
            body.emit(optional.needed, copies)
            for copy, one in zip(copies, fold, strict=True):
                one.add(body.operand(optional.element, copy, True))

    def _optional(self) -> _Optional | None:
        (function, dtype, node), *others = self.folds
        name, _, operands, _ = self.graph.nodes[node]
        if others or name != "where" or self.graph.users[node] != [OUTSIDE] or function in ("argmax", "argmin"):
            return None
        condition, element, rest = operands
        constant, _, _, number = self.graph.nodes[rest]
        if self.body.is_spread(condition) or constant != "const" or number != identity_of(function, dtype):
            return None
        return _Optional(node, condition, element, alone(self.graph, self.body.levels, node, element))

    def _place(self) -> Vector:
        """Where the reduction is, counted along its axes in row-major order."""
        at = self._position()
        return (at,) if self.body.lanes is None else (i32x4.splat(at),)

    def _position(self) -> Variable:
        total: Operand = 0
        for axis in range(self.rank, len(self.graph.extents)):
            total = plus(times(total, self.body.size(self.graph.extents[axis])), self.body.counters[axis])
        return self.f.let(expr(total))

    # ---- rows

    def _row(self) -> None:
        """One result, its lanes along an axis of the reduction."""
        body = self.body
        finds = any(function in ("argmax", "argmin") for function, _, _ in self.folds)
        count = 1 if finds else _PARTS
        sums = [[Accumulator(body, function, dtype, True) for _ in range(count)] for function, dtype, _ in self.folds]
        body.nested(self.order[self.rank : -1], self.rank, partial(self._along, sums))
        body.folded = [{0: (together(fold),)} for fold in sums]
        self._finish()

    def _along(self, sums: Sums) -> None:
        """The innermost loop, by vectors; where there are fewer elements than lanes, each goes to the first lane."""
        body, f = self.body, self.f
        axis = self.order[-1]
        stop = body.size(self.graph.extents[axis])
        if isinstance(stop, int):
            self._vectors(axis, stop, sums)
            return
        body.settle()
        with f.if_(stop >= LANES):
            self._vectors(axis, stop, sums)
        with f.else_(), body.scalars(), body.each(axis):
            body.emit(body.at_level(body.innermost))
            place = i32x4.splat(self._position())
            for fold, (_, dtype, node) in zip(sums, self.folds, strict=True):
                element = vectors.splat(kind(dtype), *body.operand(node, 0, False))
                self._add_some(fold[0], element, place, i32x4.const(-1, 0, 0, 0))

    def _vectors(self, axis: int, stop: Operand, sums: Sums) -> None:
        """Whole vectors; what an overlapping one has seen before counts as the identity."""
        body, f, most = self.body, self.f, self.body.strategy.most
        nodes = body.at_level(body.innermost)
        with body.walk(axis, 0) as at:
            wide = body.let(expr(plus(stop, -most * LANES)))
            with f.while_(at <= wide), body.nest():
                if body.strategy.together:
                    body.emit(nodes, range(most))
                for copy in range(most):
                    body.emit(nodes, (copy,))
                    for fold, (_, _, node) in zip(sums, self.folds, strict=True):
                        fold[copy].add(body.operand(node, copy, True), (self._places(),) if fold[0].finds else ())
                for fold in sums:
                    if most < len(fold):
                        rotate(fold)
                body.step(axis, most * LANES)
            fresh = f.local(i32, init=at)
            with body.overlapping(axis, stop):
                body.emit(nodes)
                place = self._places()
                mask = f.let((i32x4.splat(at) + vectors.iota()) >= i32x4.splat(fresh))
                f.set(fresh, at + LANES)
                for fold, (_, _, node) in zip(sums, self.folds, strict=True):
                    self._add_some(fold[0], body.operand(node, 0, True), place, mask)

    def _places(self) -> Variable:
        """Where the lanes are, an i32x4."""
        return self.f.let(i32x4.splat(self._position()) + vectors.iota())

    def _add_some(self, one: Accumulator, element: Vector, place: Expr, mask: Expr) -> None:
        """Add the lanes of a mask."""
        nothing = one.literal(one.kind, identity_of(one.function, one.dtype))
        one.add(self.body.call("where", one.kind, [(mask,), element, nothing]), (place,) if one.finds else ())
