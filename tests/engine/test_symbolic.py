"""The algebra of sizes as the compiler uses it; `test_algebra` tries everything it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sardonyx.sizes.functions import substitute
from sardonyx.sizes.polynomial import Ranges, constant, symbol, within
from sardonyx.sizes.symbolic import UNDECIDED, Guards, Size, UndecidedSizeError, hint, poly


@given(st.integers(2, 6), st.integers(0, 3), st.integers(0, 3))
def test_unflattening_by_sums_vanishes(m: int, a: int, b: int) -> None:
    """A size is a sum where a convolution made it."""
    frames = symbol("s").floordiv(constant(20)) - constant(a)
    height, width = frames.scaled(2) + constant(b), frames
    i, j, y, x = (symbol(f"i{k}") for k in range(4))
    ends = {"i0": symbol("n"), "i1": constant(m), "i2": height, "i3": width}
    ranges = Ranges({name: (constant(0), end - constant(1)) for name, end in ends.items()})
    flat = ((i * constant(m) + j) * height + y) * width + x
    assert flat.mod(width, ranges) == x
    assert flat.floordiv(width, ranges) == (i * constant(m) + j) * height + y
    assert flat.floordiv(width, ranges).floordiv(height, ranges).mod(constant(m), ranges) == j


@given(st.integers(2, 6), st.integers(2, 6))
def test_unflattening_vanishes(m: int, k: int) -> None:
    """Splitting and joining an axis gives back the index: what Reshape costs in a kernel."""
    s = symbol("s")
    i, j, r = symbol("i0"), symbol("i1"), symbol("i2")
    ranges = Ranges({"i0": (constant(0), s - constant(1)), "i1": (constant(0), constant(m - 1))})
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


def test_deep_quotients() -> None:
    """As of many convolutions over one another; asking for each operand twice would take 2^60 steps."""
    ranges = Ranges({"i0": (constant(0), symbol("s") - constant(1))})
    quotient = symbol("i0")
    for _ in range(60):
        quotient = (quotient + constant(7)).floordiv(symbol("s"), ranges)
    assert quotient.is_nonnegative(ranges)
    assert not (quotient - constant(1)).is_nonnegative(ranges)
    assert quotient.bound(True, ranges) is None  # it is divided by a size
    assert substitute(quotient, {"i0": symbol("i1")}, Ranges({"i1": ranges["i0"]})).symbols() == {"i1", "s"}


def test_what_is_known_later_counts() -> None:
    ranges = Ranges({"i0": (constant(0), constant(9))})
    inner = symbol("i0").floordiv(symbol("s"), ranges)
    assert not within(inner, constant(2), ranges)
    (((atom,), _),) = inner.terms
    ranges[atom] = constant(0), constant(1)
    assert within(inner + constant(1), constant(3), ranges)
