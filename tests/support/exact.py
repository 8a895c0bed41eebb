"""What scalar functions should give, by Python's integers and by NumPy's own functions: none of it is ours."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip

FLOATS: dict[str, Callable[..., Any]] = {
    **COMPARISONS,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "rem": np.fmod,
    "pow": np.power,
    "min": np.minimum,
    "max": np.maximum,
    "where": np.where,
    "neg": lambda x: np.copysign(x, np.where(np.signbit(x), 1, -1)),
    "abs": np.fabs,
    "sign": lambda x: np.where(x > 0, 1, np.where(x < 0, -1, np.fabs(x))),
    "isnan": lambda x: x != x,
    "isinf": lambda x: np.fabs(x) == math.inf,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[float]),
}
"""Of floats of any width: those that are not exact are to be given wider ones."""


def _divided(a: int, b: int) -> int:
    return 0 if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _raised(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return a ** (b & 1) if abs(a) == 1 else 0


INTEGERS: dict[str, Callable[..., int]] = {
    **COMPARISONS,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divided,
    "rem": lambda a, b: a - b * _divided(a, b) if b else 0,
    "pow": _raised,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "where": lambda condition, a, b: a if condition else b,
    "not": operator.invert,
    "neg": operator.neg,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
}
"""Of integers without bounds: results wrap."""


def reference(name: str, *operands: Array) -> Array:
    """What a function gives for operands of one type, but for the condition of `where`."""
    dtype = operands[-1].dtype
    if dtype.kind == "f":
        wide = [x.astype(np.float64) if x.dtype.kind == "f" and dtype.itemsize < 8 else x for x in operands]
        with np.errstate(all="ignore"):
            result = np.asarray(FLOATS[name](*wide))
            return result if result.dtype == bool else result.astype(dtype)
    rows = zip(*(x.ravel().tolist() for x in operands), strict=True)
    found = [_of_integers(name, dtype, row) for row in rows]
    to = np.bool_ if name in COMPARISONS else dtype
    return np.array(found, to).reshape(operands[0].shape)


def _of_integers(name: str, dtype: np.dtype[Any], row: Sequence[Any]) -> Any:
    if dtype.kind == "b":
        return not row[0] if name == "not" else INTEGERS[name](*row)
    bits = 8 * dtype.itemsize
    if name in ("shl", "shr"):
        value, places = row
        result = 0 if not 0 <= places < bits else value << places if name == "shl" else value >> places
    else:
        result = INTEGERS[name](*row)
    if name in COMPARISONS:
        return result
    low = -(1 << bits - 1) if dtype.kind == "i" else 0
    return (result - low) % (1 << bits) + low
