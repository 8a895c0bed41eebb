"""What NumPy computes otherwise than kernels do: of integers, of sizes, into memory with gaps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # kernels know of sizes as numbers alone
    from sardonyx.sizes.symbolic import Size


def divide(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.kind == "f":
        return np.divide(a, b, out=out)
    if a.dtype == object:
        return _SIZE_QUOTIENT(a, b)
    zero = b == 0
    quotient = np.floor_divide(a, b + zero)
    if a.dtype.kind == "i":
        quotient = quotient + (((a < 0) != (b < 0)) & (quotient * b != a))
    return _store(quotient * ~zero, out)


def remainder(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.kind == "f":
        return np.fmod(a, b, out=out)
    if a.dtype == object:
        return _SIZE_REMAINDER(a, b)
    zero = b == 0
    return _store(np.fmod(a, b + zero) * ~zero, out)


def _size_quotient(a: Size, b: Size) -> Size:
    """Division of sizes as of integers: truncated, by zero 0. What may be negative leaves a guard."""
    if isinstance(b, int) and b == 0:
        return 0
    return a // b if (a >= 0) == (b >= 0) else -(-a // b)


def _size_remainder(a: Size, b: Size) -> Size:
    if isinstance(b, int) and b == 0:
        return 0
    return a % b if (a >= 0) == (b >= 0) else -(-a % b)


_SIZE_QUOTIENT = np.frompyfunc(_size_quotient, 2, 1)
_SIZE_REMAINDER = np.frompyfunc(_size_remainder, 2, 1)


@cache
def _of_sizes(ufunc: np.ufunc) -> np.ufunc:
    from sardonyx.sizes.symbolic import maximum, minimum  # which no kernel needs

    return np.frompyfunc(minimum if ufunc is np.minimum else maximum, 2, 1)


def _extreme(ufunc: np.ufunc) -> Callable[..., Any]:
    def extreme(a: Any, b: Any, out: Any = None) -> Any:
        if a.dtype != object:
            return ufunc(a, b, out=out)
        return _of_sizes(ufunc)(a, b)

    return extreme


def power(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.kind in "fcuO":
        return np.power(a, b, out=out)
    magnitude = np.power(a, np.maximum(b, 0, dtype=b.dtype))
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return _store(np.where(b < 0, inverse, magnitude).astype(a.dtype), out)


def _shift(ufunc: np.ufunc) -> Callable[..., Any]:
    def shift(a: Any, b: Any, out: Any = None) -> Any:
        inside = (b >= 0) & (b < a.dtype.itemsize * 8)
        if np.all(inside):
            return ufunc(a, b, out=out)
        return _store(ufunc(a, b * inside) * inside, out)

    return shift


def _without_gaps(ufunc: np.ufunc) -> Callable[..., Any]:
    """NumPy 2.4 gets these results wrong where they have gaps between them in memory, as a column has."""

    def apply(x: Any, out: Any = None) -> Any:
        if out is None or (x.flags.c_contiguous and out.flags.c_contiguous):
            return ufunc(x, out=out)
        return _store(ufunc(x), out)

    return apply


negative = _without_gaps(np.negative)
isnan, isinf = _without_gaps(np.isnan), _without_gaps(np.isinf)
smaller, larger = _extreme(np.minimum), _extreme(np.maximum)
shift_left, shift_right = _shift(np.left_shift), _shift(np.right_shift)


def round_even(x: Any, out: Any = None) -> Any:
    return np.rint(x, out=out)


def sigmoid(x: Any, out: Any = None) -> Any:
    result = negative(x, out=np.empty_like(x) if out is None else out)
    np.exp(result, out=result)
    np.add(result, 1, out=result)
    return np.reciprocal(result, out=result)


def where(condition: Any, a: Any, b: Any, out: Any = None) -> Any:
    return _store(np.where(condition, a, b), out)


def _store(result: Any, out: Any) -> Any:
    if out is None:
        return result
    np.copyto(out, result)
    return out
