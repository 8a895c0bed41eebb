"""How far the written functions are from the truth, in units in the last place, and that every edge is exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sardonyx.compiler import strict, transcendental
from sardonyx.compiler.polynomials import FITS, parts
from sardonyx.compiler.transcendental import Function
from sardonyx.scalar import FUNCTIONS
from tests.support.interpreter import apply

Array = np.ndarray
ANGLES = {"float32": 1e4, "float64": 1e6}
GUARD = 0 if np.finfo(np.longdouble).nmant > 52 else 1  # ulps of the reference itself

# function -> error bounds in float32 and float64, and what is sampled evenly, for EXPONENTIAL in units of log(max)
ACCURACY: dict[str, tuple[float, float, float, float]] = {
    "exp": (1.0, 1.0, -1.04, 1.01),
    "log": (1.0, 1.0, 0, 4),
    "sin": (1.0, 1.0, -40, 40),
    "cos": (1.0, 1.0, -40, 40),
    "tan": (2.5, 2.5, -40, 40),
    "asin": (2.5, 2.5, -1, 1),
    "acos": (1.5, 1.5, -1, 1),
    "atan": (2.0, 2.0, -20, 20),
    "sinh": (2.5, 2.5, -1.01, 1.01),
    "cosh": (1.5, 1.5, -1.01, 1.01),
    "tanh": (2.0, 2.0, -10, 10),
    "asinh": (2.0, 2.0, -20, 20),
    "acosh": (2.5, 2.5, 1, 20),
    "atanh": (2.0, 2.0, -1, 1),
    "erf": (1.5, 2.0, -6, 6),
}
STRICT = {("tanh", "float32"): 2.5, ("erf", "float32"): 2.0}
"""Bounds of the strict forms where they differ."""
EXPONENTIAL = ("exp", "sinh", "cosh")


Form: TypeAlias = Callable[[str, str], Function]


@pytest.fixture(params=[transcendental, strict], ids=["portable", "strict"])
def form(request: pytest.FixtureRequest) -> Form:
    """What gives the function of a name and a dtype."""
    return request.param.function  # type: ignore[no-any-return]


def truth(name: str, *operands: Array) -> Array:
    """The result in a wider float, of which the last bit may be wrong."""
    if name == "erf":
        return np.asarray(np.vectorize(math.erf, otypes=[float])(operands[0]))
    wide = np.float64 if operands[0].dtype == np.float32 and name != "pow" else np.longdouble
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[name].numpy(*(operand.astype(wide) for operand in operands)))


def ulps(result: Array, exact: Array) -> Any:
    """The largest error of finite results; what is not finite, and all signs, must be exact."""
    limits = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        finite = np.isfinite(result) & np.isfinite(rounded)
        assert_array_equal(result[~finite], rounded[~finite])
        assert_array_equal(np.signbit(result[finite]), np.signbit(rounded[finite]))
        size = np.maximum(np.abs(exact[finite]), limits.tiny)
        unit = np.exp2(np.floor(np.log2(size)) - limits.nmant)
        return (np.abs(result[finite] - exact[finite]) / unit).max()


def samples(name: str, dtype: str, rng: np.random.Generator) -> Array:
    *_, low, high = ACCURACY[name]
    limits = np.finfo(dtype)
    unit = math.log(limits.max) if name in EXPONENTIAL else 1.0
    exponents = rng.uniform(math.log2(limits.smallest_subnormal), math.log2(limits.max), 40_000)
    sizes = np.exp2(exponents) * rng.choice([-1, 1], exponents.size)
    edges = np.array([0, 1, 2, 0.5, math.inf, limits.max, limits.tiny, limits.smallest_subnormal, math.nan])
    even = np.linspace(low * unit, high * unit, 80_000)
    around = [rng.normal(0, 1, 40_000), rng.normal(1, 0.01, 20_000), 1 - limits.epsneg * np.arange(9)]
    with np.errstate(over="ignore"):
        x = np.concatenate([even, sizes, *around, edges, -edges]).astype(dtype)
    if name in ("sin", "cos", "tan"):
        x = x[(np.abs(x) < ANGLES[dtype]) | ~np.isfinite(x)]
    return np.abs(x) if name == "log" else x


@pytest.mark.parametrize("dtype", FITS)
@pytest.mark.parametrize("name", ACCURACY)
def test_accuracy(name: str, dtype: str, form: Form, rng: np.random.Generator) -> None:
    x = samples(name, dtype, rng)
    bound = ACCURACY[name][0 if dtype == "float32" else 1]
    if form is strict.function:
        bound = STRICT.get((name, dtype), bound)
    assert ulps(apply(form(name, dtype), x), truth(name, x)) <= bound + (GUARD if dtype == "float64" else 0)


@pytest.mark.parametrize("dtype", FITS)
@pytest.mark.parametrize("name", [*ACCURACY, "pow", "rem"])
def test_the_kinds_of_results_at_edges(name: str, dtype: str, form: Form) -> None:
    """NaN, infinities, zeros and their signs are NumPy's."""
    edges = np.array([0, 1, 2, 3, 0.5, 2.5, 1e-30, 1e30, 16777217, math.inf, math.nan], dtype)
    edges = np.concatenate([edges, -edges])
    operands = np.meshgrid(edges, edges) if name in ("pow", "rem") else [edges]
    if name in ("sin", "cos", "tan"):
        operands = [edges[~(np.abs(edges) > 1e6) | np.isinf(edges)]]
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name].numpy(*operands)
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
    assert ulps(apply(form("pow", dtype), x, y), truth("pow", x, y)) <= 1.0 + GUARD


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
        assert_array_equal(apply(form("pow", dtype), x, y), FUNCTIONS["pow"].numpy(x, y))


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("dtype", FITS)
def test_large_angles_stay_in_range(name: str, dtype: str, form: Form) -> None:
    x = np.geomspace(1e4, np.finfo(dtype).max / 2, 10_000).astype(dtype)
    assert np.abs(apply(form(name, dtype), x)).max() <= 1


@given(st.fractions(1, 1000), st.lists(st.integers(1, 30), max_size=3))
def test_parts_sum_up(value: Any, bits: list[int]) -> None:
    found = parts(value, *bits)
    assert abs(sum(map(Fraction, found)) - value) <= Fraction(found[-1]) / (1 << 52)
    for part, count in zip(found, bits, strict=False):
        numerator = part.as_integer_ratio()[0]
        assert numerator == 0 or (numerator // (numerator & -numerator)).bit_length() <= count


def test_bodies_call_no_other_function(form: Form) -> None:
    """Only what every backend prints as an operator or a built-in function."""
    written: set[Callable[..., Any] | str] = {*ACCURACY, "pow"}

    def names(code: Any) -> Any:
        if isinstance(code, (list, tuple)):
            if code and isinstance(code[0], str):
                yield code[0]
            for item in code:
                yield from names(item)

    for name in (*ACCURACY, "pow", "rem"):
        assert written.isdisjoint(names(form(name, "float32").body))
