"""Scalar functions that instruction sets lack, written in the language of `code.program`.

`function(name, dtype)` gives an `Approximation`, a pure function of scalars. Its parameters are variables of its body;
the body holds `let`, `set` and `while` statements and ends with `["return", expression]`. A generator prints each
Approximation that its programs need once per module or shader, as a real function (`fn exp_float32(x: f32) -> f32`),
and calls it wherever `["exp", "float32", x]` stands. A body calls no other Approximation; `beyond` names one for large
operands. float16 and bfloat16 go through float32.

All but `rem` and the integers' `pow` are free of branches. NaN, infinities, overflow, underflow and signed zeros are
exact as in annex F of C99, by way of constants: GPUs may assume that no arithmetic makes an infinity or a NaN (`strict`
has shorter forms for machines that may not).

Argument reductions after W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), and fdlibm
(http://www.netlib.org/fdlibm).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from sardonyx.code import angles, scalar
from sardonyx.code.approximation import Approximation, ScalarBody, odd, where
from sardonyx.code.fits import FITS, HALF_PI, LN2, ONE, parts
from sardonyx.code.program import Value, call, cast, const
from sardonyx.common import dtypes

Rule: TypeAlias = Callable[..., Value]
"""Takes a ScalarBody and the operands, gives the result."""


def function(name: str, dtype: str) -> Approximation | None:
    """What computes this scalar function on this dtype; None where no help is needed, or the dtype is a narrow float.

    >>> function("pow", "float32").params
    (('x', 'float32'), ('y', 'float32'))
    >>> function("pow", "int8").name, function("add", "float32"), function("exp", "float16")
    ('pow_int8', None, None)
    """
    found = rule(name, dtype)
    return found and write(name, dtype, found)


def rule(name: str, dtype: str) -> Rule | None:
    """What writes this function of this dtype."""
    table = FLOATS if dtype in FITS else INTEGERS if dtypes.by_name(dtype).is_int else {}
    return table.get(name)


@cache
def write(name: str, dtype: str, rule: Rule, kind: type[ScalarBody] | None = None) -> Approximation:
    """The Approximation that a rule writes."""
    params = tuple((letter, dtype) for letter in "xy"[: scalar.FUNCTIONS[name].arity])
    body = (kind or ScalarBody)(dtype)
    result = rule(body, *(Value(["var", dtype, letter]) for letter, _ in params))
    statements = *body.program(name).body, ["return", result.code]
    return Approximation(f"{name}_{dtype}", params, dtype, statements, angles.beyond(name, dtype))


def _exp(f: ScalarBody, x: Value) -> Value:
    n, r, q = f.reduced_exp(x)
    limits = np.finfo(f.dtype)
    over, under = math.log(limits.max), -math.log(2) * (f.bias + f.mantissa)
    finite = where(x > over, f.inf, where(x < under, f.number(0), f.scale(r + q + 1, n)))
    return f.keep_nan(x, finite)


def _log(f: ScalarBody, x: Value) -> Value:
    n, m = f.frexp(x)
    finite = f.reduced_log(n, f.let(m - 1), f.number(0))
    proper = where(x > 0, where(call("isinf", x), x, finite), where(x < 0, f.nan, f.number(-math.inf)))
    return f.keep_nan(x, proper)


def _tanh(f: ScalarBody, x: Value) -> Value:
    limit = f.number(19.5 if f.wide else 9.5)
    a = f.let(call("abs", x))
    doubled = f.let(where(a < limit, a, limit) * 2)
    n, r, q = f.reduced_exp(doubled)
    t = f.expm1(n, r, q)
    # t / (t + 2), as a and a small correction
    excess = where(call("eq", n, const(f.bits, 0)), q, t - doubled)
    y = where(a < 0.6, a + (excess - a * t) / (t + 2), 1 - f.number(2) / (t + 2))
    return f.keep_nan(x, f.signed(y, x))


def _sigmoid(f: ScalarBody, x: Value) -> Value:
    a, limit = f.let(call("abs", x)), math.log(2) * (f.bias + f.mantissa)
    n, r, q = f.reduced_exp(call("neg", where(a < limit, a, f.number(limit))))
    e = f.let(where(a < limit, f.scale(r + q + 1, n), f.number(0)))
    base = f.let(where(x < 0, e, f.number(1)))
    return f.keep_nan(x, base - base * e / (e + 1))


def _sinh(f: ScalarBody, x: Value) -> Value:
    a = f.let(call("abs", x))
    n, r, q = f.reduced_exp(a)
    t = f.expm1(n, r, q)
    h = f.let(f.scale(r + q + 1, n - 1))
    over = math.log(np.finfo(f.dtype).max) + math.log(2)
    y = where(a < 1, (t + t / (t + 1)) * 0.5, where(a > over, f.inf, h - f.number(0.25) / h))
    return f.keep_nan(x, f.signed(y, x))


def _cosh(f: ScalarBody, x: Value) -> Value:
    a = f.let(call("abs", x))
    n, r, q = f.reduced_exp(a)
    h = f.let(f.scale(r + q + 1, n - 1))
    over = math.log(np.finfo(f.dtype).max) + math.log(2)
    return f.keep_nan(x, where(a > over, f.inf, h + f.number(0.25) / h))


def _asinh(f: ScalarBody, x: Value) -> Value:
    a = f.let(call("abs", x))
    large = f.let(a > 2.0 ** (f.mantissa + 2))
    square = f.let(a * a)
    y = f.let(where(large, a, a + square / (call("sqrt", square + 1) + 1)))
    finite = f.log1p(y) + where(large, f.number(LN2 / ONE), f.number(0))
    return f.keep_nan(x, where(call("isinf", x), x, f.signed(finite, x)))


def _acosh(f: ScalarBody, x: Value) -> Value:
    large = f.let(x > 2.0 ** (f.mantissa + 2))
    t = f.let(x - 1)
    y = f.let(where(large, x, t + call("sqrt", t * 2 + t * t)))
    finite = f.log1p(y) + where(large, f.number(LN2 / ONE), f.number(0))
    return f.keep_nan(x, where(x < 1, f.nan, where(call("isinf", x), x, finite)))


def _atanh(f: ScalarBody, x: Value) -> Value:
    a = f.let(call("abs", x))
    y = f.let(a * 2 / (1 - a))
    finite = f.signed(f.log1p(y) * 0.5, x)
    return f.keep_nan(x, where(a < 1, finite, where(a > 1, f.nan, f.signed(f.inf, x))))


def _erf(f: ScalarBody, x: Value) -> Value:
    split, limit = f.number(1 if f.wide else 0.92), f.number(6 if f.wide else 3.95)
    a = f.let(call("abs", x))
    z = f.let(a * a)
    n, r, q = f.reduced_exp(f.let(f.fit("erfc", f.let(where(a < limit, a, limit)))))
    y = where(a < split, a + a * f.fit("erf", z), 1 - f.power_of_two(n) * (r + q + 1))
    return f.keep_nan(x, f.signed(y, x))


def _asin(f: ScalarBody, x: Value) -> Value:
    a, large, s, t = _reduced_asin(f, x)
    high, low = parts(HALF_PI, f.mantissa + 1)
    y = f.signed(where(large, high - ((s + t) * 2 - low), s + t), x)
    return f.keep_nan(x, where(a > 1, f.nan, y))


def _acos(f: ScalarBody, x: Value) -> Value:
    a, large, s, t = _reduced_asin(f, x)
    high, low = parts(HALF_PI, f.mantissa + 1)
    doubled = f.let((s + t) * 2)
    small = high - (x - (low - f.signed(t, x)))
    y = where(large, where(x < 0, 2 * high - (doubled - 2 * low), doubled), small)
    return f.keep_nan(x, where(a > 1, f.nan, y))


def _reduced_asin(f: ScalarBody, x: Value) -> tuple[Value, Value, Value, Value]:
    """(|x|, large, s, t) where |asin(x)| = s + t, or pi/2 - 2 (s + t) if large."""
    a = f.let(call("abs", x))
    large = f.let(a > 0.5)
    z = f.let(where(large, (1 - a) * 0.5, a * a))
    s = f.let(where(large, call("sqrt", z), a))
    return a, large, s, f.let(s * z * f.fit("asin", z))


def _atan(f: ScalarBody, x: Value) -> Value:
    limit = f.number(2.0**60)
    a = f.let(call("abs", x))
    a = f.let(where(a < limit, a, limit))
    large, middle = f.let(a > math.sqrt(2) + 1), f.let(a > math.sqrt(2) - 1)
    one = f.number(1)
    t = f.let(where(large, f.number(-1), where(middle, a - 1, a)) / where(large, a, where(middle, a + 1, one)))
    z = f.let(t * t)
    high, low = parts(HALF_PI, f.mantissa + 1)
    factor = f.let(where(large, one, where(middle, f.number(0.5), f.number(0))))
    y = factor * high + (t + (t * z * f.fit("atan", z) + factor * low))
    return f.keep_nan(x, f.signed(y, x))


def _pow(f: ScalarBody, x: Value, y: Value) -> Value:
    a, magnitude = f.let(call("abs", x)), f.let(call("abs", y))
    z, rest = _log2(f, a)
    y1 = f.upper(y)
    high = f.let(y1 * z)
    low = f.let((y - y1) * z + y * rest)
    n = f.let(call("round", high + low))
    t = f.upper((high - n) + low)
    error = low - (t - (high - n))
    ln_high, ln_low = parts(LN2, 24 if f.wide else 12)
    u, v = f.let(t * ln_high), f.let(error * (LN2 / ONE) + t * ln_low)
    r = f.let(u + v)
    p = r + (r * r * f.fit("exp", r) + (v - (r - u)) * (r + 1))
    limit = f.bias + f.mantissa + 4
    exponent = f.let(y * z)
    over, under = exponent > limit, exponent < -limit
    zero, one, infinite = f.number(0), f.number(1), call("isinf", y)
    finite = where(over, f.inf, where(under, zero, f.scale(p + 1, cast(f.bits, n))))
    power = where(infinite, where(call("eq", a > 1, y > 0), f.inf, zero), finite)
    power = where(call("eq", a, one), one, power)
    edge = call("eq", a, zero) | call("isinf", x)
    power = f.let(where(edge, where(call("eq", a > 1, y > 0), f.inf, zero), power))
    integer = f.let(call("eq", call("trunc", y), y))
    half = f.let(y * 0.5)
    negative = f.let(f.to_bits(x) < 0)
    power = f.negated_if(negative & integer & call("ne", call("trunc", half), half), power)
    fraction = (x < 0) & ~call("isinf", x) & ~integer
    power = where(fraction, f.nan, power)
    power = where(call("isnan", x), x, where(call("isnan", y), y, power))
    return where(call("eq", magnitude, zero) | (call("eq", x, one)), one, power)


def _log2(f: ScalarBody, x: Value) -> tuple[Value, Value]:
    """log2(x) as an upper part and the rest, as in fdlibm's e_pow.c."""
    n, m = f.frexp(x)
    d = f.let(m + 1)
    d1 = f.upper(d)
    numerator = f.let(m - 1)
    s = f.let(numerator / d)
    s1 = f.upper(s)
    s2 = f.let((numerator - s1 * d1 - s1 * (m - (d1 - 1))) / d)
    z = f.let(s * s)
    tail = f.let(z * z * f.fit("pow", z) + s2 * (s1 + s))
    z1 = f.let(s1 * s1)
    t1 = f.upper(z1 + 3 + tail)
    t2 = f.let(tail - (t1 - 3 - z1))
    u, v = f.let(s1 * t1), f.let(s2 * t1 + t2 * s)
    p1 = f.upper(u + v)
    p2 = f.let(v - (p1 - u))
    scale = 2 * ONE**2 // (3 * LN2)
    scale_high, scale_low = parts(scale, 24 if f.wide else 12)
    high, low = f.let(p1 * scale_high), f.let(p1 * scale_low + p2 * (scale / ONE))
    first = f.upper(high + low + n)
    return first, f.let(low - (first - n - high))


def _rem(f: ScalarBody, x: Value, y: Value) -> Value:
    """C's fmod, exact: the integers behind the floats, some bits of the quotient at a time."""
    largest = const(f.bits, ~f.sign)
    a, b = f.let(f.to_bits(x) & largest), f.let(f.to_bits(y) & largest)

    def split(bits: Value) -> tuple[Value, Value]:
        exponent = f.let(call("max", call("shr", bits, const(f.bits, f.mantissa)), const(f.bits, 1)))
        return exponent, f.let(bits - call("shl", exponent - 1, const(f.bits, f.mantissa)))

    (above, m), (exponent, divisor) = split(a), split(b)
    left, m = f.let(above - exponent), f.let(m % divisor)
    with f.while_(left > 0):
        step = f.let(call("min", left, const(f.bits, f.width - f.mantissa - 2)))
        f.set(m, call("shl", m, step) % divisor)
        f.set(left, left - step)
    smaller = where(a < b, x, f.signed(f.scale(cast(f.dtype, m), exponent - f.bias - f.mantissa), x))
    undefined = call("isinf", x) | call("isnan", x) | call("isnan", y) | call("eq", y, f.number(0))
    return where(undefined, f.nan, smaller)


def _integer_pow(f: ScalarBody, x: Value, y: Value) -> Value:
    """Repeated squaring; a negative exponent truncates the fraction that it makes."""
    one, zero = const(f.dtype, 1), const(f.dtype, 0)
    base, result = f.let(x), f.let(one)
    exponent = f.let(call("max", y, zero))
    with f.while_(exponent > 0):
        f.set(result, where(odd(exponent), result * base, result))
        f.set(base, base * base)
        f.set(exponent, call("shr", exponent, one))
    if dtypes.by_name(f.dtype).kind == "uint":
        return result
    minus_one = const(f.dtype, -1)
    inverse = where(call("eq", x, one), one, where(call("eq", x, minus_one), where(odd(y), x, one), zero))
    return where(y < 0, inverse, result)


FLOATS: dict[str, Rule] = {
    "rem": _rem, "pow": _pow, "exp": _exp, "log": _log, "sin": angles.sin, "cos": angles.cos, "tan": angles.tan,
    "asin": _asin, "acos": _acos, "atan": _atan, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "sigmoid": _sigmoid,
    "asinh": _asinh, "acosh": _acosh, "atanh": _atanh, "erf": _erf,
}  # fmt: skip
INTEGERS: dict[str, Rule] = {"pow": _integer_pow}
