"""Functions of scalars, and where one is being written."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from sardonyx.code.fits import FITS, LN2, ONE, parts
from sardonyx.code.program import Builder, Statement, Value, call, cast, const
from sardonyx.common import dtypes
from sardonyx.common.record import record


@record(frozen=True)
class Beyond:
    """Where an operand's size is above the limit, this function has the result, by a longer way."""

    limit: float
    function: Approximation


@record(frozen=True)
class Approximation:
    """A pure function: (name, dtype) of each parameter, the dtype of the result, the statements.

    `beyond` is one of a function of one parameter: what to call for large ones, in place of these statements.
    """

    name: str
    params: tuple[tuple[str, str], ...]
    dtype: str
    body: tuple[Statement, ...]
    beyond: Beyond | None = None


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

    def negated_if(self, condition: Value, x: Value) -> Value:
        return where(condition, call("neg", x), x)


def where(condition: Value, yes: Value, no: Value) -> Value:
    return call("where", condition, yes, no)


def odd(n: Value) -> Value:
    return call("ne", n & 1, const(n.dtype, 0))
