"""Special functions that NumPy lacks, vectorized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BLOCK = 1 << 15
"""Elements worked on at a time, so that temporaries stay in a core's cache."""


def erf(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    float64 is within 4 units in the last place, float32 within 2.1, float16 is rounded from float32.

    >>> erf(np.array([0.0, 0.5, -np.inf]))
    array([ 0.        ,  0.52049988, -1.        ])
    """
    direct = out is not None and out.flags.c_contiguous and out.shape == x.shape
    result = out if direct and out is not None else np.empty_like(x, order="C")
    source, target = np.ascontiguousarray(x).reshape(-1), result.reshape(-1)
    double = x.dtype == np.float64
    for start in range(0, source.size, BLOCK):
        block = source[start : start + BLOCK]
        target[start : start + BLOCK] = _erf64(block) if double else _erf32(block.astype(np.float32, copy=False))
    if out is not None and result is not out:
        np.copyto(out, result)
        return out
    return result


def _erf32(x: np.ndarray) -> Any:
    """tanh of atanh(erf(x)) = x + x P(x^2), P of least relative error up to 4; at `_SATURATION` the result is 1.

    The slope of tanh makes up for the size of P: what is lost in the polynomial hardly shows in the result.
    """
    x = np.clip(x, -_SATURATION, _SATURATION)
    argument = _horner(_ATANH_ERF, x * x)
    argument *= x
    argument += x
    return np.tanh(argument, out=argument)


def _erf64(x: np.ndarray) -> Any:
    """W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969), 631-637."""
    y = np.minimum(np.abs(x), 6.0)
    result = np.copysign(1.0 - np.exp(-y * y) * (_horner(_C, y) / _horner(_D, y)), x)
    inner = y <= 0.46875
    small = x[inner]
    square = small * small
    result[inner] = small * (_horner(_A, square) / _horner(_B, square))
    return result


def _horner(coefficients: Sequence[float], x: np.ndarray) -> Any:
    """The polynomial with these coefficients, that of the highest power first."""
    result = x * x.dtype.type(coefficients[0])
    result += x.dtype.type(coefficients[1])
    for coefficient in coefficients[2:]:
        result *= x
        result += x.dtype.type(coefficient)
    return result


_SATURATION = np.float32(4.25)
_ATANH_ERF = (
    1.786436156278641e-10,
    -8.466001653038457e-09,
    1.5612220281433217e-07,
    -1.2887571337681673e-06,
    1.3257514734355896e-06,
    6.932264490065429e-05,
    -0.0005953099156709909,
    -0.00020665235912988017,
    0.10277216467838088,
    0.1283791784354804,
)

_A = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_B = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_C = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
_D = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)
