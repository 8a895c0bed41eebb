"""Expressions of sizes and indices, and what NumPy makes of them at every point of a small grid."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from sardonyx.sizes.functions import apply
from sardonyx.sizes.polynomial import NO_RANGES, Poly, Ranges, constant, symbol

Expression: TypeAlias = Any
"""An integer, a symbol, or an operator with two operands."""
Grid: TypeAlias = Mapping[str, np.ndarray]

OPERATORS = ("+", "*", "floordiv", "mod", "min", "max")
RANGES = Ranges(
    {
        "i": (constant(0), symbol("s") - constant(1)),
        "j": (constant(0), constant(3)),
        "k": (constant(1), symbol("t")),
    }
)
"""What is known of index variables; `s` and `t` are sizes, `?c` is any integer."""
for size in ("s", "t"):
    RANGES.walk(symbol(size))


def _grid(points: list[dict[str, int]]) -> Grid:
    return {name: np.array([point[name] for point in points], np.int64) for name in points[0]}


SIZES = _grid([{"s": s, "t": t, "?c": c} for s, t, c in product(range(6), range(4), range(-4, 5))])
"""All values of sizes up to a few."""
INDICES = _grid(
    [
        {"s": s, "t": t, "?c": c, "i": i, "j": j, "k": k}
        for s, t, c in product(range(1, 6), range(1, 4), range(-2, 3))
        for i, j, k in product(range(s), range(4), range(1, t + 1))
    ]
)
"""All values of sizes up to a few, with all that index variables then have."""


def expressions(*names: str, most: int = 10) -> st.SearchStrategy[Expression]:
    """Expressions over these symbols, with so many leaves at most."""
    leaves = st.one_of(st.integers(-3, 12), st.sampled_from(names))
    return st.recursive(
        leaves, lambda inner: st.tuples(st.sampled_from(OPERATORS), inner, inner).map(list), max_leaves=most
    )


def sums(*names: str) -> st.SearchStrategy[Expression]:
    """Sums of multiples of these symbols and a number, none of them negative."""
    factors = st.fixed_dictionaries({name: st.integers(0, 6) for name in names})
    terms = factors.map(lambda found: [["*", factor, name] for name, factor in found.items() if factor])
    return st.tuples(st.integers(0, 9), terms).map(lambda parts: ["+", parts[0], *parts[1]])


def build(expression: Expression, ranges: Ranges = NO_RANGES) -> Poly:
    """The polynomial of an expression, by the algebra's own operations."""
    if isinstance(expression, int):
        return constant(expression)
    if isinstance(expression, str):
        return symbol(expression)
    name, first, *rest = expression
    found = build(first, ranges)
    for operand in (build(item, ranges) for item in rest):
        if name == "+":
            found = found + operand
        else:
            found = found * operand if name == "*" else apply(name, found, operand, ranges)
    return found


def values(expression: Expression, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """The value at every point by NumPy's integers, 0 for what is divided by 0, and where nothing is."""
    shape = next(iter(grid.values())).shape
    if not isinstance(expression, list):
        value = grid[expression] if isinstance(expression, str) else expression
        return np.broadcast_to(np.int64(value), shape), np.ones(shape, bool)
    name, first, *rest = expression
    found, whole = values(first, grid)
    for item in rest:
        operand, also = values(item, grid)
        whole = whole & also
        if name in ("floordiv", "mod"):
            zero = operand == 0
            divide = np.floor_divide if name == "floordiv" else np.mod
            found, whole = np.where(zero, 0, divide(found, operand + zero)), whole & ~zero
        else:
            found = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}[name](found, operand)
    return found, whole


def at(grid: Grid, point: int) -> dict[str, int]:
    """The symbols at one point."""
    return {name: int(column[point]) for name, column in grid.items()}
