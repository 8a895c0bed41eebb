"""Scalar functions: the vocabulary in which kernels compute, a row for each.

Arithmetic where ONNX is silent: integers wrap; integer division truncates and gives 0 by zero; shifts by the width or
more give 0; minimum and maximum hand on NaN.

To add a function:

1. Write its row here, in the group that it belongs to.
2. Spell it once for all backends in `sardonyx.code.transcendental`, or, if an instruction computes it, in each one's
   table (`sardonyx_wasm.scalars.functions`, `sardonyx_wasm.vectors.lanewise`, `sardonyx_webgpu.wgsl.functions`).
3. Give tests an independent reference, in `tests/support/exact.py`.
4. Make it a primitive: `cbrt = unary("cbrt")` in `sardonyx/primitives/elementwise.py`, exported from
   `sardonyx/primitives/__init__.py`, and name it in `core/README.md`.

`tests/compiler/test_scalar_functions.py` names what was forgotten.
"""

from __future__ import annotations

import math
from math import pi, sqrt
from typing import Any

import numpy as np

from sardonyx.code import arithmetic
from sardonyx.code.scalar_function import (
    ALL,
    ANY,
    BITS,
    EXACT,
    FLOAT,
    INTEGER,
    NO_FLOATS,
    NUMBER,
    STEPS,
    Accuracy,
    ScalarFunction,
)
from sardonyx.code.special import erf


def _power(f: Any, g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """By the exponent nothing where the base is 0 or less, as 0 ** b stays 0; by the base nothing where it is 0."""
    positive = a > 0
    return f("where", f("eq", b, 0), 0, g * b * a ** (b - 1)), f(
        "where", positive, g * y * f("log", f("where", positive, a, 1)), 0
    )


def _remainder(f: Any, g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """a - b * n, where the integer n stays as it is."""
    return g, -g * f("round", (a - y) / b)


def _minimum(f: Any, g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return _shared(f, g, f("eq", a, b), a < b)


def _maximum(f: Any, g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return _shared(f, g, f("eq", a, b), a > b)


def _shared(f: Any, g: Any, equal: Any, first: Any) -> tuple[Any, Any]:
    """The gradient for the first operand or the second; equal ones share it."""
    half = g * 0.5
    return f("where", equal, half, f("where", first, g, 0)), f("where", equal, half, f("where", first, 0, g))


ARITHMETIC = (
    ScalarFunction("add", 2, NUMBER, cost=1, accuracy=EXACT, numpy=np.add,
                   gradient=lambda f, g, y, a, b: (g, g)),
    ScalarFunction("sub", 2, NUMBER, cost=1, accuracy=EXACT, numpy=np.subtract,
                   gradient=lambda f, g, y, a, b: (g, -g)),
    ScalarFunction("mul", 2, NUMBER, cost=1, accuracy=EXACT, numpy=np.multiply,
                   gradient=lambda f, g, y, a, b: (g * b, g * a)),
    ScalarFunction("div", 2, NUMBER, cost=6, accuracy=EXACT, numpy=arithmetic.divide,
                   gradient=lambda f, g, y, a, b: (g / b, -g * y / b)),
    ScalarFunction("rem", 2, NUMBER, cost=10, accuracy=EXACT, numpy=arithmetic.remainder,
                   gradient=_remainder),
    ScalarFunction("pow", 2, NUMBER, cost=20, accuracy=Accuracy(1.0, 1.0), numpy=arithmetic.power,
                   gradient=_power),
    ScalarFunction("min", 2, NUMBER, cost=1, accuracy=EXACT, numpy=arithmetic.smaller,
                   gradient=_minimum),
    ScalarFunction("max", 2, NUMBER, cost=1, accuracy=EXACT, numpy=arithmetic.larger,
                   gradient=_maximum),
    ScalarFunction("neg", 1, NUMBER, cost=1, accuracy=EXACT, numpy=arithmetic.negative,
                   gradient=lambda f, g, y, x: (-g,)),
    ScalarFunction("abs", 1, NUMBER, cost=1, accuracy=EXACT, numpy=np.abs,
                   gradient=lambda f, g, y, x: (g * f("sign", x),)),
    ScalarFunction("sign", 1, NUMBER, cost=1, accuracy=EXACT, numpy=np.sign, no_gradient=STEPS),
    ScalarFunction("sqrt", 1, FLOAT, cost=6, accuracy=EXACT, numpy=np.sqrt,
                   gradient=lambda f, g, y, x: (g * 0.5 / y,)),
)  # fmt: skip

BITWISE = (
    ScalarFunction("and", 2, BITS, cost=1, accuracy=EXACT, numpy=np.bitwise_and, no_gradient=NO_FLOATS),
    ScalarFunction("or", 2, BITS, cost=1, accuracy=EXACT, numpy=np.bitwise_or, no_gradient=NO_FLOATS),
    ScalarFunction("xor", 2, BITS, cost=1, accuracy=EXACT, numpy=np.bitwise_xor, no_gradient=NO_FLOATS),
    ScalarFunction("not", 1, BITS, cost=1, accuracy=EXACT, numpy=np.invert, no_gradient=NO_FLOATS),
    ScalarFunction("shl", 2, INTEGER, cost=1, accuracy=EXACT, numpy=arithmetic.shift_left, no_gradient=NO_FLOATS),
    ScalarFunction("shr", 2, INTEGER, cost=1, accuracy=EXACT, numpy=arithmetic.shift_right, no_gradient=NO_FLOATS),
)  # fmt: skip

CHOICE = (
    ScalarFunction("eq", 2, ALL, result="bool", cost=1, accuracy=EXACT, numpy=np.equal, no_gradient=STEPS),
    ScalarFunction("ne", 2, ALL, result="bool", cost=1, accuracy=EXACT, numpy=np.not_equal, no_gradient=STEPS),
    ScalarFunction("lt", 2, ANY, result="bool", cost=1, accuracy=EXACT, numpy=np.less, no_gradient=STEPS),
    ScalarFunction("le", 2, ANY, result="bool", cost=1, accuracy=EXACT, numpy=np.less_equal, no_gradient=STEPS),
    ScalarFunction("gt", 2, ANY, result="bool", cost=1, accuracy=EXACT, numpy=np.greater, no_gradient=STEPS),
    ScalarFunction("ge", 2, ANY, result="bool", cost=1, accuracy=EXACT, numpy=np.greater_equal, no_gradient=STEPS),
    ScalarFunction("isnan", 1, FLOAT, result="bool", cost=1, accuracy=EXACT, numpy=arithmetic.isnan, no_gradient=STEPS),
    ScalarFunction("isinf", 1, FLOAT, result="bool", cost=1, accuracy=EXACT, numpy=arithmetic.isinf, no_gradient=STEPS),
    ScalarFunction("where", 3, ALL, result="select", cost=1, accuracy=EXACT, numpy=arithmetic.where,
                   gradient=lambda f, g, y, c, a, b: (None, f("where", c, g, 0), f("where", c, 0, g))),
)  # fmt: skip

ROUNDING = (
    ScalarFunction("floor", 1, FLOAT, cost=1, accuracy=EXACT, numpy=np.floor, no_gradient=STEPS),
    ScalarFunction("ceil", 1, FLOAT, cost=1, accuracy=EXACT, numpy=np.ceil, no_gradient=STEPS),
    ScalarFunction("trunc", 1, FLOAT, cost=1, accuracy=EXACT, numpy=np.trunc, no_gradient=STEPS),
    ScalarFunction("round", 1, FLOAT, cost=1, accuracy=EXACT, numpy=arithmetic.round_even, no_gradient=STEPS),
)  # fmt: skip

EXPONENTIAL = (
    ScalarFunction("exp", 1, FLOAT, cost=10, accuracy=Accuracy(1.1, 1.0), numpy=np.exp,
                   gradient=lambda f, g, y, x: (g * y,)),
    ScalarFunction("log", 1, FLOAT, cost=10, accuracy=Accuracy(1.0, 1.0), numpy=np.log,
                   gradient=lambda f, g, y, x: (g / x,)),
    ScalarFunction("sigmoid", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 2.0), numpy=arithmetic.sigmoid,
                   gradient=lambda f, g, y, x: (g * y * (1 - y),)),
    ScalarFunction("erf", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 2.0), numpy=erf,
                   gradient=lambda f, g, y, x: (g * f("exp", -(x * x)) * (2 / sqrt(pi)),)),
)  # fmt: skip

_ANGLES = math.inf, 1_600_000.0

TRIGONOMETRIC = (
    ScalarFunction("sin", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 1.0, limits=_ANGLES), numpy=np.sin,
                   gradient=lambda f, g, y, x: (g * f("cos", x),)),
    ScalarFunction("cos", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 1.0, limits=_ANGLES), numpy=np.cos,
                   gradient=lambda f, g, y, x: (-g * f("sin", x),)),
    ScalarFunction("tan", 1, FLOAT, cost=10, accuracy=Accuracy(2.5, 2.5, limits=_ANGLES), numpy=np.tan,
                   gradient=lambda f, g, y, x: (g * (1 + y * y),)),
    ScalarFunction("asin", 1, FLOAT, cost=10, accuracy=Accuracy(2.5, 2.5), numpy=np.arcsin,
                   gradient=lambda f, g, y, x: (g / f("sqrt", 1 - x * x),)),
    ScalarFunction("acos", 1, FLOAT, cost=10, accuracy=Accuracy(1.5, 1.5), numpy=np.arccos,
                   gradient=lambda f, g, y, x: (-g / f("sqrt", 1 - x * x),)),
    ScalarFunction("atan", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 2.0), numpy=np.arctan,
                   gradient=lambda f, g, y, x: (g / (1 + x * x),)),
)  # fmt: skip

HYPERBOLIC = (
    ScalarFunction("sinh", 1, FLOAT, cost=10, accuracy=Accuracy(2.5, 2.5), numpy=np.sinh,
                   gradient=lambda f, g, y, x: (g * f("cosh", x),)),
    ScalarFunction("cosh", 1, FLOAT, cost=10, accuracy=Accuracy(1.5, 1.5), numpy=np.cosh,
                   gradient=lambda f, g, y, x: (g * f("sinh", x),)),
    ScalarFunction("tanh", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 2.0), numpy=np.tanh,
                   gradient=lambda f, g, y, x: (g * (1 - y * y),)),
    ScalarFunction("asinh", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 2.0), numpy=np.arcsinh,
                   gradient=lambda f, g, y, x: (g / f("sqrt", x * x + 1),)),
    ScalarFunction("acosh", 1, FLOAT, cost=10, accuracy=Accuracy(2.5, 2.5), numpy=np.arccosh,
                   gradient=lambda f, g, y, x: (g / f("sqrt", x * x - 1),)),
    ScalarFunction("atanh", 1, FLOAT, cost=10, accuracy=Accuracy(2.0, 2.0), numpy=np.arctanh,
                   gradient=lambda f, g, y, x: (g / (1 - x * x),)),
)  # fmt: skip

FUNCTIONS = {
    row.name: row for row in (*ARITHMETIC, *BITWISE, *CHOICE, *ROUNDING, *EXPONENTIAL, *TRIGONOMETRIC, *HYPERBOLIC)
}


def narrowed(array: Any, dtype: np.dtype[Any]) -> Any:
    """Convert floats that an integer type of 16 bits at most holds, but for NaN, which gives 0.

    >>> narrowed(np.array([-7.9, 125.5, np.nan], np.float32), np.dtype("int8"))
    array([ -7, 125,   0], dtype=int8)
    """
    with np.errstate(all="ignore"):  # NaN becomes the smallest int32, or 0: bits that are left out, or 0
        return np.asarray(array).astype(np.int32).astype(dtype)


def cast(array: Any, dtype: np.dtype[Any]) -> Any:
    """Convert: float to integer saturates and NaN gives 0, integers wrap, anything but zero is true.

    >>> cast(np.array([3e9, -7.9, np.nan], np.float32), np.dtype("int32"))
    array([2147483647,         -7,          0], dtype=int32)
    """
    if array.dtype.kind == "f" and dtype.kind in "iu":
        wide = np.asarray(array, np.float32 if array.dtype == np.float16 else None)
        info, beyond = np.iinfo(dtype), wide.dtype.type(2.0 ** (dtype.itemsize * 8 - (dtype.kind == "i")))
        largest = np.nextafter(beyond, wide.dtype.type(0))
        if dtype.itemsize <= 2:
            return narrowed(np.clip(wide, wide.dtype.type(info.min), largest), dtype)
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
