"""How far the written functions are from the truth, in units in the last place, and that every edge is exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sardonyx.code import strict, transcendental
from sardonyx.code.approximation import Approximation
from sardonyx.code.fits import FITS, HALF_PI, LN2, ONE, parts
from tests.compiler.accuracy import CLOSER, ROUNDED, bound, held, samples, truth, ulps
from tests.support.exact import FLOATS, reference
from tests.support.interpreter import apply

Array = np.ndarray
UNARY = sorted(transcendental.FLOATS.keys() - {"pow", "rem"})

Form: TypeAlias = Callable[[str, str], Approximation]


@pytest.fixture(params=[transcendental, strict], ids=["portable", "strict"])
def form(request: pytest.FixtureRequest) -> Form:
    """What gives the function of a name and a dtype."""
    return request.param.function  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", FITS)
@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name: str, dtype: str, form: Form, rng: np.random.Generator) -> None:
    x = samples(name, dtype, rng)
    closer = {} if form is strict.function else CLOSER
    assert ulps(apply(form(name, dtype), x), truth(name, x)) <= closer.get((name, dtype), bound(name, dtype))


@pytest.mark.parametrize("dtype", FITS)
@pytest.mark.parametrize("name", transcendental.FLOATS)
def test_the_kinds_of_results_at_edges(name: str, dtype: str, form: Form) -> None:
    """NaN, infinities, zeros and their signs are NumPy's."""
    edges = np.array([0, 1, 2, 3, 0.5, 2.5, 1e-30, 1e30, 16777217, math.inf, math.nan], dtype)
    edges = np.concatenate([edges, -edges])
    operands = np.meshgrid(edges, edges) if name in ("pow", "rem") else [edges[held(name, edges)]]
    with np.errstate(all="ignore"):
        expected = FLOATS[name](*operands)
    result = apply(form(name, dtype), *operands)
    special = ~np.isfinite(expected) | (expected == 0)
    assert_array_equal(result[special], expected[special])
    assert_array_equal(~np.isfinite(result) | (result == 0), special)
    assert_array_equal(np.signbit(result[~np.isnan(result)]), np.signbit(expected[~np.isnan(result)]))


@pytest.mark.parametrize("dtype", FITS)
def test_accuracy_of_pow(dtype: str, form: Form, rng: np.random.Generator) -> None:
    x = np.concatenate(
        [np.exp(rng.normal(0, 20, 60_000)), np.exp(rng.normal(0, 1, 60_000)), rng.integers(-20, 20, 9999)]
    )
    y = np.concatenate([rng.normal(0, 3, 60_000), rng.normal(0, 60, 60_000), rng.integers(-9, 9, 9999)])
    with np.errstate(over="ignore"):
        x, y = x.astype(dtype), y.astype(dtype)
    assert ulps(apply(form("pow", dtype), x, y), truth("pow", x, y)) <= bound("pow", dtype)


@pytest.mark.parametrize("dtype", FITS)
def test_rem_is_exact(dtype: str, form: Form, rng: np.random.Generator) -> None:
    x, y = (np.exp(rng.normal(0, 25, 20_000)) * rng.choice([-1, 1], 20_000) for _ in range(2))
    with np.errstate(over="ignore"):
        x, y = x.astype(dtype), y.astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    x[:99], y[:99] = rng.integers(1, 1 << 20, 99) * tiny, rng.integers(1, 99, 99) * tiny
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    result = apply(form("rem", dtype), x, y)
    assert_array_equal(result, expected)
    known = ~np.isnan(expected)
    assert_array_equal(np.signbit(result[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_pow_of_integers(dtype: str, form: Form) -> None:
    limits = np.iinfo(dtype)
    edges = np.array([0, 1, 2, 3, 7, 100, limits.max, limits.max - 1, limits.min, limits.min + 1], dtype)
    edges = np.concatenate([edges, ~edges])
    x, y = np.meshgrid(edges, edges)
    with np.errstate(all="ignore"):
        assert_array_equal(apply(form("pow", dtype), x, y), reference("pow", x, y))


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("dtype", FITS)
def test_large_angles_stay_in_range(name: str, dtype: str, form: Form) -> None:
    x = np.geomspace(1e4, np.finfo(dtype).max / 2, 10_000).astype(dtype)
    assert np.abs(apply(form(name, dtype), x)).max() <= 1


def test_constants_are_exact() -> None:
    with localcontext(prec=80):
        assert abs(Decimal(LN2) / ONE - Decimal(2).ln()) < Decimal("1e-58")
    assert (math.log(2), math.pi / 2) == (LN2 / ONE, HALF_PI / ONE)
    assert abs(Fraction(HALF_PI, ONE) - Fraction(math.pi / 2) - Fraction(6.123233995736766e-17)) < Fraction(1, 1 << 105)


@given(st.fractions(1, 1000), st.lists(st.integers(1, 30), max_size=3))
def test_parts_sum_up(fraction: Any, bits: list[int]) -> None:
    units = int(fraction * ONE)
    value, found = Fraction(units, ONE), parts(units, *bits)
    assert abs(sum(map(Fraction, found)) - value) <= Fraction(found[-1]) / (1 << 52)
    for part, count in zip(found, bits, strict=False):
        numerator = part.as_integer_ratio()[0]
        assert numerator == 0 or (numerator // (numerator & -numerator)).bit_length() <= count


def test_bodies_call_no_other_function(form: Form) -> None:
    """Only what every backend prints as an operator or a built-in function."""
    written: set[Callable[..., Any] | str] = {*ROUNDED}

    def names(code: Any) -> Any:
        if isinstance(code, (list, tuple)):
            if code and isinstance(code[0], str):
                yield code[0]
            for item in code:
                yield from names(item)

    for name in transcendental.FLOATS:
        found = form(name, "float32")
        assert written.isdisjoint(names(found.body))
        assert not found.beyond or written.isdisjoint(names(found.beyond.function.body))
