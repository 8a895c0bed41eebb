"""How far results are from the truth, in units in the last place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from sardonyx.code.scalar import FUNCTIONS
from sardonyx.code.scalar_function import EXACT
from tests.support.exact import FLOATS

Array = np.ndarray
GUARD = 0 if np.finfo(np.longdouble).nmant > 52 else 1  # ulps of the reference itself
LIBRARY = 4
"""How far NumPy's own functions may be, by the machine."""

ROUNDED = [name for name, row in FUNCTIONS.items() if row.accuracy is not EXACT]
"""Functions of which not every bit is known."""
ACCURACY = {name: FUNCTIONS[name].accuracy for name in ROUNDED if FUNCTIONS[name].arity == 1}
CLOSER = {("sin", "float32"): 1.0, ("cos", "float32"): 1.0, ("erf", "float32"): 1.5}
"""Bounds that the portable forms keep, where the strict ones need more."""


def truth(name: str, *operands: Array) -> Array:
    """The result in a wider float, of which the last bit may be wrong, by NumPy or the library of C."""
    wide = np.longdouble if operands[-1].dtype == np.float64 or name == "pow" else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(FLOATS[name](*(x if x.dtype == np.bool_ else x.astype(wide) for x in operands)))


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


def bound(name: str, dtype: str) -> float:
    """How large errors may be, by the function's row."""
    accuracy = FUNCTIONS[name].accuracy
    return accuracy.float32 if dtype == "float32" else accuracy.float64 + GUARD


def held(name: str, x: Array) -> Any:
    """For which operands the bound holds, by the function's row: not for large angles."""
    most = FUNCTIONS[name].accuracy.limits[x.dtype == np.float64]
    return ~(np.abs(x) > most) | np.isinf(x)


def samples(name: str, dtype: str, rng: np.random.Generator) -> Array:
    """Operands of each size, those around 0 and 1, and the edges; none for which the bound does not hold."""
    limits = np.finfo(dtype)
    exponents = rng.uniform(math.log2(limits.smallest_subnormal), math.log2(limits.max), 40_000)
    sizes = np.exp2(exponents) * rng.choice([-1, 1], exponents.size)
    edges = np.array([0, 1, 2, 0.5, math.inf, limits.max, limits.tiny, limits.smallest_subnormal, math.nan])
    even = [np.linspace(-most, most, 40_000) for most in (1, 20, 1.04 * math.log(limits.max))]
    around = [rng.normal(0, 1, 40_000), rng.normal(1, 0.01, 20_000), 1 - limits.epsneg * np.arange(9)]
    with np.errstate(over="ignore"):
        x = np.concatenate([*even, sizes, *around, edges, -edges]).astype(dtype)
    return x[held(name, x)]
