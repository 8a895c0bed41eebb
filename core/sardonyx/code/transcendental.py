"""Scalar functions that instruction sets lack, written in the language of `code.program`.

`function(name, dtype)` gives an `Approximation`, a pure function of scalars. Its parameters are variables of its body;
the body holds `let`, `set` and `while` statements and ends with `["return", expression]`. A generator prints each
Approximation that its programs need once per module or shader, as a real function (`fn exp_float32(x: f32) -> f32`),
and calls it wherever `["exp", "float32", x]` stands. A body calls no other Approximation. float16 and bfloat16 go
through float32.

All but `rem` and the integers' `pow` are free of branches. NaN, infinities, overflow, underflow and signed zeros are
exact as in annex F of C99, by way of constants: GPUs may assume that no arithmetic makes an infinity or a NaN (`strict`
has shorter forms for machines that may not). `sin`, `cos` and `tan` lose accuracy above 12,000 in float32 and 1,600,000
in float64, but stay in their ranges.

Argument reductions after W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), and fdlibm
(http://www.netlib.org/fdlibm).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, reduce
from typing import TypeAlias

import numpy as np

from sardonyx.code import scalar
from sardonyx.code.fits import FITS, HALF_PI, LN2, ONE, parts
from sardonyx.code.program import Builder, Statement, Value, call, cast, const
from sardonyx.common import dtypes
from sardonyx.common.record import record

Rule: TypeAlias = Callable[..., Value]
"""Takes a ScalarBody and the operands, gives the result."""


@record(frozen=True)
class Approximation:
    """A pure function: (name, dtype) of each parameter, the dtype of the result, the statements."""

    name: str
    params: tuple[tuple[str, str], ...]
    dtype: str
    body: tuple[Statement, ...]


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
    return Approximation(f"{name}_{dtype}", params, dtype, (*body.program(name).body, ["return", result.code]))


class ScalarBody(Builder):
    """A function being written: the shape of its floats, and the steps that several functions share."""

    def __init__(self, dtype: str) -> None:
        super().__init__((), ())
        self.dtype = dtype
        self.wide = dtypes.by_name(dtype).bits == 64
        self.bits = "int64" if self.wide else "int32"
        self.width, self.mantissa, self.bias = (64, 52, 1023) if self.wide else (32, 23, 127)
        self.sign = -(1 << (self.width - 1))

    @property
    def nan(self) -> Value:
        return self.number(math.nan)

    @property
    def inf(self) -> Value:
        return self.number(math.inf)

    def number(self, value: float) -> Value:
        return const(self.dtype, value)

    def fit(self, name: str, x: Value) -> Value:
        """The polynomial of this name at x, by Horner's rule."""
        coefficients = FITS[self.dtype][name]
        return reduce(lambda total, c: total * x + c, coefficients[-2::-1], self.number(coefficients[-1]))

    def to_bits(self, x: Value) -> Value:
        return Value(["bitcast", self.bits, x.code])

    def from_bits(self, x: Value) -> Value:
        return Value(["bitcast", self.dtype, x.code])

    def upper(self, x: Value) -> Value:
        """x without the lower half of its significand: products of two such are exact."""
        return self.let(self.from_bits(self.to_bits(x) & (-1 << (32 if self.wide else 12))))

    def signed(self, x: Value, like: Value) -> Value:
        """x, which is not negative, with the sign of another."""
        return self.from_bits(self.to_bits(x) | (self.to_bits(like) & self.sign))

    def keep_nan(self, x: Value, result: Value) -> Value:
        return where(call("isnan", x), x, result)

    def power_of_two(self, n: Value) -> Value:
        return self.from_bits(call("shl", n + self.bias, const(self.bits, self.mantissa)))

    def scale(self, x: Value, n: Value) -> Value:
        """x * 2**n in two steps: subnormal and overflowing results are rounded once."""
        n = self.let(n)
        half = self.let(call("shr", n, const(self.bits, 1)))
        return x * self.power_of_two(half) * self.power_of_two(n - half)

    def rounded(self, x: Value) -> tuple[Value, Value]:
        """x rounded to an integer, as a float and as an integer."""
        n = self.let(call("round", x))
        return n, cast(self.bits, n)

    def to_float(self, n: Value) -> Value:
        """An integer of the size of exponents as a float."""
        return cast(self.dtype, n)

    def reduced_exp(self, x: Value) -> tuple[Value, Value, Value]:
        """(n, r, q) where exp(x) = 2**n * (1 + r + q), x = n * log(2) + r, and q is of the order of r**2."""
        n, integer = self.rounded(x * (ONE / LN2))
        r = self.reduced(x, n)
        return self.let(integer), r, self.let(r * r * self.fit("exp", r))

    def reduced(self, x: Value, n: Value) -> Value:
        """x - n * log(2)."""
        high, low = parts(LN2, 32 if self.wide else 15)
        return self.let(x - n * high - n * low)

    def expm1(self, n: Value, r: Value, q: Value) -> Value:
        """exp(x) - 1 from what `reduced_exp` gives, where that does not overflow."""
        power = self.let(self.power_of_two(n))
        return self.let(power * (r + q) + (power - 1))

    def frexp(self, x: Value) -> tuple[Value, Value]:
        """(n, m) where x = 2**n * m, sqrt(1/2) <= m < sqrt(2); n is a float."""
        small = self.let(x < float(np.finfo(self.dtype).tiny))
        bits = self.let(self.to_bits(where(small, x * 2.0 ** (self.mantissa + 1), x)))
        root = int(np.asarray(math.sqrt(0.5), self.dtype).view(self.bits))
        n = self.let(call("shr", bits - root, const(self.bits, self.mantissa)))
        m = self.let(self.from_bits(bits - call("shl", n, const(self.bits, self.mantissa))))
        shift = where(small, const(self.bits, self.mantissa + 1), const(self.bits, 0))
        return self.let(self.to_float(n - shift)), m

    def reduced_log(self, n: Value, f: Value, correction: Value) -> Value:
        """log(2**n * (1 + f)) + correction, where f is near 0 and the correction tiny."""
        high, low = parts(LN2, 32 if self.wide else 15)
        s = self.let(f / (f + 2))
        z, h = self.let(s * s), self.let(f * f * 0.5)
        return n * high - ((h - (s * (h + z * self.fit("log", z)) + (n * low + correction))) - f)

    def log1p(self, x: Value) -> Value:
        """log(1 + x) for finite x > -1."""
        u = self.let(x + 1)
        n, m = self.frexp(u)
        near = self.let(call("eq", n, self.number(0)))
        lost = where(x > 1, 1 - (u - x), x - (u - 1)) / u
        return self.reduced_log(n, where(near, x, m - 1), where(near, self.number(0), lost))

    def reduced_angle(self, x: Value) -> tuple[Value, Value, Value]:
        """(q, sin(r), cos(r)) where x = q * pi/2 + r, |r| <= pi/4; q is an integer."""
        n, integer = self.rounded(x * (ONE / HALF_PI))
        *exact, middle, last = parts(HALF_PI, *((33, 33) if self.wide else (11, 11, 11)))
        for part in exact:
            x = x - n * part
        x = self.let(x)
        high = self.let(x - n * middle)
        low = self.let(n * last - (x - high - n * middle))
        r = self.let(high - low)
        # Outside the domain r is wrong, but sine and cosine must stay in theirs.
        valid = self.let(call("abs", r) < 0.8)
        tail = self.let(where(valid, high - r - low, self.number(0)))
        r = self.let(where(valid, r, self.number(0)))
        z = self.let(r * r)
        h = self.let(z * 0.5)
        w = self.let(1 - h)
        sin = self.let(r + (r * z * self.fit("sin", z) + tail))
        cos = self.let(w + (1 - w - h + (z * z * self.fit("cos", z) - r * tail)))
        return self.let(integer), sin, cos

    def negated_if(self, condition: Value, x: Value) -> Value:
        return where(condition, call("neg", x), x)


def where(condition: Value, yes: Value, no: Value) -> Value:
    return call("where", condition, yes, no)


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


def _sin(f: ScalarBody, x: Value) -> Value:
    q, sin, cos = f.reduced_angle(x)
    y = f.negated_if(odd(call("shr", q, const(f.bits, 1))), where(odd(q), cos, sin))
    return _angle(f, x, where(call("abs", x) < 2.0 ** -(f.mantissa // 2 + 2), x, y))


def _cos(f: ScalarBody, x: Value) -> Value:
    q, sin, cos = f.reduced_angle(x)
    y = f.negated_if(odd(call("shr", q + 1, const(f.bits, 1))), where(odd(q), sin, cos))
    return _angle(f, x, y)


def _tan(f: ScalarBody, x: Value) -> Value:
    q, sin, cos = f.reduced_angle(x)
    swap = f.let(odd(q))
    y = where(swap, call("neg", cos), sin) / where(swap, sin, cos)
    return _angle(f, x, where(call("abs", x) < 2.0 ** -(f.mantissa // 2 + 2), x, y))


def _angle(f: ScalarBody, x: Value, y: Value) -> Value:
    return f.keep_nan(x, where(call("isinf", x), f.nan, y))


def odd(n: Value) -> Value:
    return call("ne", n & 1, const(n.dtype, 0))


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
    "rem": _rem, "pow": _pow, "exp": _exp, "log": _log, "sin": _sin, "cos": _cos, "tan": _tan, "asin": _asin,
    "acos": _acos, "atan": _atan, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "sigmoid": _sigmoid, "asinh": _asinh,
    "acosh": _acosh, "atanh": _atanh, "erf": _erf,
}  # fmt: skip
INTEGERS: dict[str, Rule] = {"pow": _integer_pow}
