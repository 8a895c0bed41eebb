"""Scalar functions: the vocabulary in which kernels compute, with the NumPy function that defines each.

Arithmetic where ONNX is silent: integers wrap; integer division truncates and gives 0 by zero; shifts by the width or
more give 0; minimum and maximum hand on NaN. Every backend has a table with a row for each function here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.code.special import erf
from sardonyx.sizes.symbolic import Size, maximum, minimum


@dataclass(frozen=True)
class ScalarFunction:
    """`result` is `same` (as the operands), `bool` or `select` (as the second operand); `kinds` are the operands'.
    `cost` is what an element takes, in additions, by which compilers choose what to compute twice, or side by side."""

    name: str
    arity: int
    result: str
    kinds: frozenset[str]
    cost: int
    numpy: Callable[..., Any]


def _divide(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.kind == "f":
        return np.divide(a, b, out=out)
    if a.dtype == object:
        return _SIZE_QUOTIENT(a, b)
    zero = b == 0
    quotient = np.floor_divide(a, b + zero)
    if a.dtype.kind == "i":
        quotient = quotient + (((a < 0) != (b < 0)) & (quotient * b != a))
    return _store(quotient * ~zero, out)


def _remainder(a: Any, b: Any, out: Any = None) -> Any:
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


def _extreme(ufunc: np.ufunc, of_sizes: Callable[[Size, Size], Size]) -> Callable[..., Any]:
    sizes = np.frompyfunc(of_sizes, 2, 1)

    def extreme(a: Any, b: Any, out: Any = None) -> Any:
        return sizes(a, b) if a.dtype == object else ufunc(a, b, out=out)

    return extreme


def _power(a: Any, b: Any, out: Any = None) -> Any:
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


_negative = _without_gaps(np.negative)


def _round(x: Any, out: Any = None) -> Any:
    return np.rint(x, out=out)


def _sigmoid(x: Any, out: Any = None) -> Any:
    result = _negative(x, out=np.empty_like(x) if out is None else out)
    np.exp(result, out=result)
    np.add(result, 1, out=result)
    return np.reciprocal(result, out=result)


def _where(condition: Any, a: Any, b: Any, out: Any = None) -> Any:
    return _store(np.where(condition, a, b), out)


def _store(result: Any, out: Any) -> Any:
    if out is None:
        return result
    np.copyto(out, result)
    return out


FLOAT = frozenset({"float"})
NUMBER = frozenset({"float", "int", "uint"})
INTEGER = frozenset({"int", "uint"})
BITS = frozenset({"int", "uint", "bool"})
ANY = frozenset({"float", "int", "uint", "bool"})
ALL = ANY | {"string"}

_TABLE: list[tuple[str, int, str, frozenset[str], int, Callable[..., Any]]] = [
    ("add", 2, "same", NUMBER, 1, np.add),
    ("sub", 2, "same", NUMBER, 1, np.subtract),
    ("mul", 2, "same", NUMBER, 1, np.multiply),
    ("div", 2, "same", NUMBER, 6, _divide),
    ("rem", 2, "same", NUMBER, 10, _remainder),
    ("pow", 2, "same", NUMBER, 20, _power),
    ("min", 2, "same", NUMBER, 1, _extreme(np.minimum, minimum)),
    ("max", 2, "same", NUMBER, 1, _extreme(np.maximum, maximum)),
    ("and", 2, "same", BITS, 1, np.bitwise_and),
    ("or", 2, "same", BITS, 1, np.bitwise_or),
    ("xor", 2, "same", BITS, 1, np.bitwise_xor),
    ("shl", 2, "same", INTEGER, 1, _shift(np.left_shift)),
    ("shr", 2, "same", INTEGER, 1, _shift(np.right_shift)),
    ("eq", 2, "bool", ALL | {"complex"}, 1, np.equal),
    ("ne", 2, "bool", ALL | {"complex"}, 1, np.not_equal),
    ("lt", 2, "bool", ANY, 1, np.less),
    ("le", 2, "bool", ANY, 1, np.less_equal),
    ("gt", 2, "bool", ANY, 1, np.greater),
    ("ge", 2, "bool", ANY, 1, np.greater_equal),
    ("where", 3, "select", ALL | {"complex"}, 1, _where),
    ("not", 1, "same", BITS, 1, np.invert),
    ("neg", 1, "same", NUMBER, 1, _negative),
    ("abs", 1, "same", NUMBER, 1, np.abs),
    ("sign", 1, "same", NUMBER, 1, np.sign),
    ("isnan", 1, "bool", FLOAT, 1, _without_gaps(np.isnan)),
    ("isinf", 1, "bool", FLOAT, 1, _without_gaps(np.isinf)),
    ("floor", 1, "same", FLOAT, 1, np.floor),
    ("ceil", 1, "same", FLOAT, 1, np.ceil),
    ("trunc", 1, "same", FLOAT, 1, np.trunc),
    ("round", 1, "same", FLOAT, 1, _round),
    ("sqrt", 1, "same", FLOAT, 6, np.sqrt),
    ("exp", 1, "same", FLOAT, 10, np.exp),
    ("log", 1, "same", FLOAT, 10, np.log),
    ("sin", 1, "same", FLOAT, 10, np.sin),
    ("cos", 1, "same", FLOAT, 10, np.cos),
    ("tan", 1, "same", FLOAT, 10, np.tan),
    ("asin", 1, "same", FLOAT, 10, np.arcsin),
    ("acos", 1, "same", FLOAT, 10, np.arccos),
    ("atan", 1, "same", FLOAT, 10, np.arctan),
    ("sinh", 1, "same", FLOAT, 10, np.sinh),
    ("cosh", 1, "same", FLOAT, 10, np.cosh),
    ("tanh", 1, "same", FLOAT, 10, np.tanh),
    ("sigmoid", 1, "same", FLOAT, 10, _sigmoid),
    ("asinh", 1, "same", FLOAT, 10, np.arcsinh),
    ("acosh", 1, "same", FLOAT, 10, np.arccosh),
    ("atanh", 1, "same", FLOAT, 10, np.arctanh),
    ("erf", 1, "same", FLOAT, 10, erf),
]

FUNCTIONS = {row[0]: ScalarFunction(*row) for row in _TABLE}


def cast(array: Any, dtype: np.dtype[Any]) -> Any:
    """Convert: float to integer saturates and NaN gives 0, integers wrap, anything but zero is true.

    >>> cast(np.array([3e9, -7.9, np.nan], np.float32), np.dtype("int32"))
    array([2147483647,         -7,          0], dtype=int32)
    """
    if array.dtype.kind == "f" and dtype.kind in "iu":
        wide = np.asarray(array, np.float32 if array.dtype == np.float16 else None)
        info, beyond = np.iinfo(dtype), wide.dtype.type(2.0 ** (dtype.itemsize * 8 - (dtype.kind == "i")))
        largest = np.nextafter(beyond, wide.dtype.type(0))
        with np.errstate(all="ignore"):
            result = np.asarray(np.clip(wide, wide.dtype.type(info.min), largest).astype(dtype))
        if int(largest) != info.max:
            result[wide >= beyond] = info.max
        if (strange := np.isnan(wide)).any():
            result[strange] = 0
        return result
    if dtype.kind == "b":
        return array != 0
    with np.errstate(all="ignore"):
        return array.astype(dtype)
