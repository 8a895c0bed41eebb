"""The algebra of sizes against plain integers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sardonyx.polynomial import Poly, apply, constant, evaluate, symbol, within
from sardonyx.sizecode import compile_all
from sardonyx.symbolic import UNDECIDED, Guards, Size, UndecidedSizeError, hint, poly

NAMES = ("a", "b", "?c")


def expressions() -> Any:
    leaves = st.one_of(st.integers(-3, 12), st.sampled_from(NAMES))
    operators = st.sampled_from(["+", "*", "floordiv", "mod", "min", "max"])
    return st.recursive(leaves, lambda inner: st.tuples(operators, inner, inner).map(list), max_leaves=12)


def build(expression: Any) -> Poly:
    """The polynomial of an expression, by the algebra's own operations."""
    if isinstance(expression, int):
        return constant(expression)
    if isinstance(expression, str):
        return symbol(expression)
    name, a, b = expression[0], build(expression[1]), build(expression[2])
    if name == "+":
        return a + b
    return a * b if name == "*" else apply(name, a, b)


def divides_by_zero(expression: Any, symbols: dict[str, int]) -> bool:
    if not isinstance(expression, list):
        return False
    name, a, b = expression
    zero = name in ("floordiv", "mod") and evaluate(b, symbols) == 0
    return zero or divides_by_zero(a, symbols) or divides_by_zero(b, symbols)


VALUES = st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers(0, 9), "?c": st.integers(-9, 9)})


@given(expressions(), VALUES)
@settings(max_examples=400, deadline=None)
def test_simplification_keeps_the_value(expression: Any, symbols: dict[str, int]) -> None:
    if divides_by_zero(expression, symbols):
        return
    polynomial = build(expression)
    assert evaluate(polynomial.json(), symbols) == evaluate(expression, symbols)
    assert compile_all([polynomial.json()])(symbols) == (evaluate(expression, symbols),)


@given(expressions(), VALUES)
@settings(max_examples=400, deadline=None)
def test_what_is_proven_holds(expression: Any, symbols: dict[str, int]) -> None:
    if divides_by_zero(expression, symbols):
        return
    polynomial = build(expression)
    if polynomial.is_nonnegative():
        assert evaluate(polynomial.json(), symbols) >= 0


@given(st.integers(2, 6), st.integers(2, 6))
def test_unflattening_vanishes(m: int, k: int) -> None:
    """Splitting and joining an axis gives back the index: what Reshape costs in a kernel."""
    s = symbol("s")
    i, j, r = symbol("i0"), symbol("i1"), symbol("i2")
    ranges = {"i0": (constant(0), s - constant(1)), "i1": (constant(0), constant(m - 1))}
    ranges["i2"] = (constant(0), constant(k - 1))
    flat = (i * constant(m) + j) * constant(k) + r
    assert flat.mod(constant(k), ranges) == r
    assert flat.floordiv(constant(m * k), ranges) == i
    assert within(flat, s * constant(m * k), ranges)


def test_comparisons_leave_guards_only_where_they_must() -> None:
    guards = Guards()
    s, t = guards.symbol("s", 7), guards.symbol("t", 7)
    with guards:
        assert s * 2 + 1 > 0
        assert s * 12 * 32 == 384 * s
        assert not guards.facts
        assert s == t
        assert s + 1 != 1
        assert t < 8
        assert hint(s) == 7
    assert len(guards) == 3
    assert "s != 0" in str(guards)


def test_int_ties_the_size() -> None:
    guards = Guards()
    s = guards.symbol("s", 7)
    with guards:
        assert list(range(s)) == list(range(7))
    assert str(guards) == "s == 7"


def test_without_guards_the_undecided_is_an_error() -> None:
    s: Size = Guards().symbol("s", 7)
    with UNDECIDED, pytest.raises(UndecidedSizeError, match="s == 1"):
        assert s == 1
    assert poly(s) == symbol("s")
