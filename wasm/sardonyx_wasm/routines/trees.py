"""Tree ensembles: a unit is a row. Some rows at a time follow each tree, so that it stays in the cache, several of them
side by side: a step waits for memory, and other rows do not. Rows that are left over follow several trees side by side.

A node's record of 16 bytes: where the feature is in a row, and what follows for no, yes (and a feature that is NaN),
all in bytes. The number that the feature is compared with comes first, or, where there is no room, from a table.
"""

from __future__ import annotations

from collections.abc import Callable

from sardonyx.code.kernel import Routine
from sardonyx.numpy_backend.routines import decode

from ..assembler import Expr, Variable, i32
from ..code import Code, Unit
from ..scalars.values import kind
from . import frame

SIDE_BY_SIDE = 8
RECORD = 16
_BLOCK = 1 << 15
"""Bytes of rows that follow a tree together."""
_LEAST = {"sum": 0.0, "min": float("inf"), "max": float("-inf")}


def walk_trees(unit: Unit, routine: Routine) -> Code:
    """`walk_trees`: x [rows, features], roots [trees + SIDE_BY_SIDE] and records [nodes, 4] (see above),
    numbers [nodes], or [0] if they are in the records, votes [nodes] or [nodes, targets] -> [rows, targets]."""
    return _Walk(unit, routine).write()


class _Walk:
    def __init__(self, unit: Unit, routine: Routine) -> None:
        params = decode(routine.attributes, ())
        self.function: str = params["function"]
        self.targets: int = params["targets"]
        self.depth: int = params["depth"]
        self.absent: bool = params["absent"]
        self.element = kind(routine.reads[0])
        self.width = self.element.bits // 8
        self.features: int = routine.inputs[0][1]
        self.trees: int = routine.inputs[1][0] - SIDE_BY_SIDE
        self.inside = routine.inputs[3][0] == 0
        self.dense = len(routine.inputs[4]) > 1
        self.unit = unit
        self.f = frame.function(unit, routine)
        self.x, self.roots, self.records, self.numbers, self.votes, self.y = frame.buffers(self.f, routine)
        self.rows = routine.inputs[0][0]

    def write(self) -> Code:
        row_size, out_size = self.features * self.width, self.targets * self.width
        most = max(1, _BLOCK // max(1, row_size) // SIDE_BY_SIDE) * SIDE_BY_SIDE
        with self.f as f:
            self.at = [f.local(i32) for _ in range(SIDE_BY_SIDE)]
            start, stop, end = f.let(f.begin), f.local(i32), f.local(i32)
            whole = f.let(f.end - ((f.end - f.begin) & (SIDE_BY_SIDE - 1)))
            row, out, tree, at = (f.local(i32) for _ in range(4))
            with f.loop(out, f.let(self.y + f.begin * out_size), f.let(self.y + f.end * out_size), step=self.width,
                        unsigned=True):  # fmt: skip
                f.store(out, self.element.type.const(_LEAST[self.function]))
            with f.while_(start < whole):
                f.set(stop, start + most)
                f.set(stop, f.select(stop < whole, stop, whole))
                with f.loop(tree, 0, self.trees):
                    root = f.let(i32.load(self.roots + (tree << 2)))
                    f.set(row, self.x + start * row_size)
                    f.set(out, self.y + start * out_size + self._target(tree))
                    f.set(end, self.x + stop * row_size)
                    with f.while_(i32.lt_u(row, end)):
                        for node in self.at:
                            f.set(node, root)
                        self._follow(lambda k: (row, k * row_size))
                        for k, node in enumerate(self.at):
                            self._vote(node, out, k * out_size)
                        f.set(row, row + SIDE_BY_SIDE * row_size)
                        f.set(out, out + SIDE_BY_SIDE * out_size)
                f.set(start, stop)
            with f.loop(at, whole, f.end):
                f.set(row, self.x + at * row_size)
                with f.loop(tree, 0, self.trees, step=SIDE_BY_SIDE):
                    for k, node in enumerate(self.at):
                        f.set(node, i32.load(self.roots + (tree << 2), offset=4 * k))
                    self._follow(lambda k: (row, 0))
                    for k, node in enumerate(self.at):
                        with f.if_(tree + k < self.trees):
                            self._vote(node, f.let(self.y + at * out_size + self._target(tree + k)), 0)
        return Code(f, self.rows, SIDE_BY_SIDE)

    def _target(self, tree: Expr) -> Expr:
        """Where in a row of results the votes of a tree go."""
        if self.dense or self.targets == 1:
            return i32.const(0)
        return i32.div_u(tree, self.trees // self.targets) * self.width

    def _follow(self, row: Callable[[int], tuple[Variable, int]]) -> None:
        """Walk until all are at leaves."""
        f = self.f
        chunk = min((4, 3, 5), key=lambda count: -(-self.depth // count) * count)
        if self.depth <= chunk:
            self._steps(row, self.depth)
            return
        left, before = f.local(i32), [f.local(i32) for _ in self.at]
        f.set(left, self.depth)
        with f.block() as done, f.repeat() as again:
            self._steps(row, chunk - 1)
            for old, node in zip(before, self.at):
                f.set(old, node)
            self._steps(row, 1)
            f.set(left, left - chunk)
            f.br_if(done, left <= 0)
            moved = before[0] ^ self.at[0]
            for old, node in zip(before[1:], self.at[1:]):
                moved = moved | (old ^ node)
            f.br_if(again, moved)

    def _steps(self, row: Callable[[int], tuple[Variable, int]], count: int) -> None:
        f, kind_ = self.f, self.element.type
        first = 4 * self.inside
        for _ in range(count):
            for k, node in enumerate(self.at):
                line, offset = row(k)
                record = f.let(self.records + node)
                value = kind_.load(line + i32.load(record, offset=first), offset=offset)
                if self.absent:
                    value = f.let(value)
                if self.inside:
                    number = kind_.load(record)
                else:
                    number = kind_.load(self.numbers + i32.shr_u(node, 1 if self.width == 8 else 2))
                answer = (value <= number) << 2
                if self.absent:
                    answer = answer | ((value != value) << 3)
                f.set(node, i32.load(record + answer, offset=first + 4))

    def _vote(self, node: Variable, out: Expr, offset: int) -> None:
        """Add the votes of a leaf to a row of results, or take the least or the largest."""
        f, kind_ = self.f, self.element.type
        combine = {"sum": kind_.add, "min": kind_.min, "max": kind_.max}[self.function]
        if not self.dense:
            vote = kind_.load(self.votes + i32.shr_u(node, 1 if self.width == 8 else 2))
            f.store(out, combine(kind_.load(out, offset=offset), vote), offset=offset)
            return
        votes = f.let(self.votes + i32.shr_u(node, 4) * (self.targets * self.width))
        if self.targets <= 4:
            for k in range(self.targets):
                at = k * self.width
                f.store(
                    out, combine(kind_.load(out, offset=offset + at), kind_.load(votes, offset=at)), offset=offset + at
                )
            return
        place, target = f.local(i32), f.let(out + offset)
        with f.loop(place, 0, self.targets * self.width, step=self.width):
            f.store(target + place, combine(kind_.load(target + place), kind_.load(votes + place)))
