"""Code that multiplies lines of vectors by small constant matrices, with few operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

from sardonyx.compiler.legalization.filtering import Matrix

from ..assembler import Expr, Function, Variable, f32, f32x4
from ..code import Unit
from .channels import multiply_add

Terms: TypeAlias = list[tuple[int, float]]
"""Elements of a line and their factors."""


class Rows(NamedTuple):
    """A row of a matrix, or two: the sum of `same`, to which the first adds `factor` times the sum of `other`, and from
    which the second subtracts it."""

    numbers: tuple[int, ...]
    same: Terms
    factor: float = 0.0
    other: Terms | None = None


class Multiplier:
    """Writes products of a matrix with lines of vectors in a function.

    Columns that differ in signs alone take the sum and the difference of their elements; rows that do so share sums.
    Constants are splat from memory at `place`, where `store` has put them: V8 builds a literal at each use.
    """

    def __init__(self, matrix: Matrix, place: int) -> None:
        self._place = place
        self._columns, self._rows = _simplified(matrix)
        factors = {c for row in self._rows for _, c in (*row.same, *(row.other or ()))}
        factors |= {sign * row.factor for row in self._rows for sign in (1, -1)}
        self._factors = sorted(factors - {-1.0, 0.0, 1.0})

    def store(self, f: Function, scratch: Expr) -> None:
        """Put the constants into memory, less than 128 bytes."""
        for k, number in enumerate(self._factors):
            f.store(scratch, f32.const(number), offset=self._place + 4 * k)

    def load(self, unit: Unit, f: Function, scratch: Expr) -> None:
        """Have the constants in a function, where lines are multiplied then."""
        self._unit, self._f = unit, f
        self._constants = {}
        for k, number in enumerate(self._factors):
            self._constants[number] = f.let(f32x4.load32_splat(scratch, offset=self._place + 4 * k))

    def __call__(self, line: Sequence[Expr]) -> list[Expr]:
        """The product with a line."""
        x, f = list(line), self._f
        for i, k in self._columns:
            x[i], x[k] = f.let(x[i] + x[k]), f.let(x[i] - x[k])
        made = {}
        for numbers, same, factor, other in self._rows:
            total = self._sum(same, x)
            if other is None:
                made[numbers[0]] = total
            else:
                difference = self._sum(other, x)
                made |= {k: self._add(total, c, difference) for k, c in zip(numbers, (factor, -factor), strict=True)}
        return [made[k] for k in sorted(made)]

    def _sum(self, terms: Terms, x: Sequence[Expr]) -> Expr:
        (column, factor), *others = terms
        total = x[column] if factor == 1 else self._f.let(self._constants[factor] * x[column])
        for column, factor in others:
            total = self._add(total, factor, x[column])
        return total

    def _add(self, total: Expr, factor: float, x: Expr) -> Variable:
        if abs(factor) == 1:
            return self._f.let(total + x if factor > 0 else total - x)
        return self._f.let(multiply_add(self._unit, self._constants[factor], x, total))


def _simplified(matrix: Matrix) -> tuple[list[tuple[int, int]], list[Rows]]:
    """Pairs of columns that become a sum and a difference of elements, and what is left to do then."""
    columns = [[*column] for column in zip(*matrix, strict=True)]
    pairs = _pairs(columns)
    for i, k in pairs:
        columns[i], columns[k] = _parts(columns[i], columns[k])
    rows = [[*row] for row in zip(*columns, strict=True)]
    doubles = _pairs(rows)
    alone = set(range(len(rows))).difference(*doubles)
    found = [Rows((k,), _terms(rows[k])) for k in sorted(alone)]
    for i, k in doubles:
        same, other = _parts(rows[i], rows[k])
        factor = next(c for c in reversed(other) if c)
        found.append(Rows((i, k), _terms(same), factor, _terms(c / factor for c in other)))
    return pairs, found


def _pairs(lines: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Pairs of lines of which some elements are equal, and the others differ in their signs."""
    found: list[tuple[int, int]] = []
    free = set(range(len(lines)))
    for k, i in combinations(range(len(lines)), 2):
        x, y = lines[k], lines[i]
        if {k, i} <= free and [*map(abs, x)] == [*map(abs, y)] and all(map(any, _parts(x, y))):
            found.append((k, i))
            free -= {k, i}
    return found


def _parts(x: Sequence[float], y: Sequence[float]) -> tuple[list[float], list[float]]:
    """The elements of x that equal those of y, and the others, each with zeros elsewhere."""
    same = [a if a == b else 0.0 for a, b in zip(x, y, strict=True)]
    return same, [a - b for a, b in zip(x, same, strict=True)]


def _terms(row: Iterable[float]) -> Terms:
    """The elements that are not zero, one that needs no multiplication first."""
    found = [(number, factor) for number, factor in enumerate(row) if factor]
    return sorted(found, key=lambda term: term[1] != 1)
