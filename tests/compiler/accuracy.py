"""How far results are from the truth, in units in the last place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from tests.support.exact import FLOATS

Array = np.ndarray
ANGLES = {"float32": 1e4, "float64": 1e6}
GUARD = 0 if np.finfo(np.longdouble).nmant > 52 else 1  # ulps of the reference itself

# function -> error bounds in float32 and float64, and what is sampled evenly, for EXPONENTIAL in units of log(max)
ACCURACY: dict[str, tuple[float, float, float, float]] = {
    "exp": (1.1, 1.0, -1.04, 1.01),
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
    "sigmoid": (2.0, 2.0, -20, 20),
    "asinh": (2.0, 2.0, -20, 20),
    "acosh": (2.5, 2.5, 1, 20),
    "atanh": (2.0, 2.0, -1, 1),
    "erf": (1.5, 2.0, -6, 6),
}
STRICT = {("sin", "float32"): 2.0, ("cos", "float32"): 2.0, ("erf", "float32"): 2.0}
"""Bounds of the strict forms where they differ."""
EXACT = frozenset({
    "add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "eq", "ne", "lt", "le", "gt",
    "ge", "where", "not", "neg", "abs", "sign", "isnan", "isinf", "floor", "ceil", "trunc", "round", "sqrt",
})  # fmt: skip
"""Functions of which every bit is known. Those of neither table but `pow` have no test: there must be none."""
EXPONENTIAL = ("exp", "sinh", "cosh")


def truth(name: str, *operands: Array) -> Array:
    """The result in a wider float, of which the last bit may be wrong, by NumPy or the library of C."""
    wide = np.float64 if operands[0].dtype == np.float32 and name != "pow" else np.longdouble
    with np.errstate(all="ignore"):
        return np.asarray(FLOATS[name](*(operand.astype(wide) for operand in operands)))


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
        return (np.abs(result[finite] - exact[finite]) / unit).max(initial=0)


def bound(name: str, dtype: str, strict: bool) -> float:
    """How large errors may be, in either form."""
    found = ACCURACY[name][0 if dtype == "float32" else 1]
    return (STRICT.get((name, dtype), found) if strict else found) + (GUARD if dtype == "float64" else 0)


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
