"""Transcendental functions for machines whose floats are IEEE 754's to the letter, as WebAssembly's are.

`function` has the contract of `transcendental.function`, and takes fewer steps: infinities and NaN may come from
arithmetic, and a sum with 1.5 * 2**mantissa is rounded to an integer, which is in its low bits. Nothing relies on a
product being rounded before it is added to something: the two may be fused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from sardonyx.code import transcendental
from sardonyx.code.approximation import Approximation, ScalarBody, where
from sardonyx.code.fits import FITS, HALF_PI, LN2, ONE, PIECES, parts
from sardonyx.code.program import Value, call, const


def function(name: str, dtype: str) -> Approximation | None:
    """What computes this scalar function on this dtype; None as there."""
    rule = FLOATS.get((name, dtype)) or transcendental.rule(name, dtype)
    return rule and transcendental.write(name, dtype, rule, _StrictBody)


class _StrictBody(ScalarBody):
    def fit(self, name: str, x: Value) -> Value:
        return self.polynomial([self.number(c) for c in FITS[self.dtype][name]], x)

    def polynomial(self, terms: list[Value], x: Value) -> Value:
        """By Estrin's scheme: as many steps, in a third of the time where they overlap."""
        while len(terms) > 3:
            pairs = zip(terms[::2], terms[1::2])
            terms = [self.let(odd * x + even) for even, odd in pairs] + terms[len(terms) & ~1 :]
            x = self.let(x * x)
        return reduce(lambda total, c: total * x + c, terms[-2::-1], terms[-1])

    def size(self, x: Value) -> Value:
        """abs(x), by what `signed` needs as well: few processors have an instruction."""
        bits = self.to_bits(x)
        return self.from_bits(call("xor", bits, bits & self.sign))

    def pick(self, numbers: Sequence[float], first: int, index: Value) -> Value:
        """The number at index - first, of four."""
        return Value(["pick", self.dtype, list(numbers), first, index.code])

    def rounded(self, x: Value) -> tuple[Value, Value]:
        n, bits = self.shifted(x, 0)
        return n, bits - self.shift(0)[1]

    def shifted(self, x: Value, bias: int) -> tuple[Value, Value]:
        """x rounded to an integer, and bits of which the lower ones are that integer + bias."""
        number, _ = self.shift(bias)
        sum_ = self.let(x + number)
        return self.let(sum_ - number), self.to_bits(sum_)

    def shift(self, bias: int) -> tuple[float, int]:
        """The number that pushes out all bits of a fraction, and its own bits."""
        number = 1.5 * 2.0**self.mantissa + bias
        return number, int(np.asarray(number, self.dtype).view(self.bits))

    def to_float(self, n: Value) -> Value:
        if not self.wide:
            return super().to_float(n)
        number, bits = self.shift(0)  # vectors have no instruction
        return self.from_bits(n + bits) - number

    def power(self, bits: Value) -> Value:
        """The power of two whose biased exponent is in the lower bits."""
        return self.from_bits(call("shl", bits, const(self.bits, self.mantissa)))


def _exp(f: _StrictBody, x: Value) -> Value:
    limits = np.finfo(f.dtype)
    lost = f.let(x < -math.log(2) * (f.bias + f.mantissa))
    # What underflows is not computed: processors are slow where it does.
    y = f.let(call("min", where(lost, f.number(0), x), f.number(math.log(limits.max) + 0.5)))
    n, bits = f.shifted(y * (ONE / LN2), 2 * f.bias)
    r = f.reduced(y, n)
    q = r * r * f.fit("exp", r)
    bits = f.let(bits)
    half = f.let(call("shr", bits, const(f.bits, 1)))
    return where(lost, f.number(0), (q + r + 1) * f.power(half) * f.power(bits - half))


def _sigmoid(f: _StrictBody, x: Value) -> Value:
    """w / (w + d + 1), where x = r + n * log(2), d = exp(-r) - 1, and w = 2**n is exact: two sums and a quotient are
    rounded; w + 1 instead would lose a tiny w. All is 2**32 as much, so that w is no subnormal where the quotient is.
    """
    scale = 2.0**32
    least, most = f.number(-LN2 * (f.bias + f.mantissa + 1) / ONE), f.number(LN2 * (f.mantissa + 6) / ONE)
    y = f.let(call("min", call("max", x, least), most))
    n, bits = f.shifted(y * (ONE / LN2), f.bias + 32)
    r = f.reduced(y, n)
    signed = [f.number((-1) ** k * scale * c) for k, c in enumerate(FITS[f.dtype]["exp"])]
    d = f.let(r * r * f.polynomial(signed, r) - r * scale)
    w = f.let(f.power(bits))
    return w / (w + d + scale)


def _tanh(f: _StrictBody, x: Value) -> Value:
    """tanh(a) = w * (t * (2 - c) + c) / (w + 1 - t * c) - c, where a = r + n * log(2)/2, t = tanh(r).

    w = 2**-n and c = w - 1 are exact, and the first term, which is rounded more than once, a fraction of it.
    """
    a = f.let(call("min", f.size(x), f.number(9.5)))
    n = f.let(call("ceil", a * (-2 * ONE / LN2)))
    w = f.let(f.power(f.to_bits(n + f.shift(f.bias)[0])))
    r = f.let(n * (LN2 / (2 * ONE)) + a)
    z = f.let(r * r)
    t = f.let(r * (z * f.fit("tanh", z)) + r)
    c = f.let(w - 1)
    return f.signed((t * (2 - c) + c) * w / (w + 1 - t * c) - c, x)


def _quarter(turned: int) -> Callable[[_StrictBody, Value], Value]:
    """The sine of an angle, `turned` by so many quarters of a circle."""

    def rule(f: _StrictBody, x: Value) -> Value:
        n, bits = f.shifted(x * (ONE / HALF_PI), turned)
        *exact, last = parts(HALF_PI, 11, 11, 11)
        for part in exact:
            x = x - n * part
        x, low = f.let(x), f.let(n * last)
        r = f.let(x - low)
        lost = f.let(low - (x - r))
        z = f.let(r * r)
        sin = r * (z * f.fit("sin", z) + 0) - lost + r  # -0 for -0
        cos = z * z * f.fit("cos", z) + (1 - z * 0.5)
        bits = f.let(bits)
        y = where(call("eq", bits & 1, const(f.bits, 0)), sin, cos)
        sign = call("shl", bits & 2, const(f.bits, f.width - 2))
        return f.from_bits(call("xor", f.to_bits(y), sign))

    return rule


def _erf(f: _StrictBody, x: Value) -> Value:
    """By the nearest of four points and a polynomial of the distance to it."""
    step = 287 / 256
    a = f.let(call("min", f.size(x), f.number(3.9238)))
    n, bits = f.shifted(a * (1 / step), 0)
    bits, t = f.let(bits), f.let(a - n * step)
    value, slope, *terms = (f.pick(numbers, f.shift(0)[1], bits) for numbers in zip(*PIECES["erf"]))
    rest = f.polynomial([f.number(-5.8635383e-08), *terms], t)
    return f.signed(t * (rest + slope) + value, x)


def _log(f: _StrictBody, x: Value) -> Value:
    n, m = f.frexp(x)
    finite = f.reduced_log(n, f.let(m - 1), f.number(0))
    proper = where(x < math.inf, finite, x)
    return where(x > 0, proper, where(call("eq", x, f.number(0)), f.number(-math.inf), f.number(math.nan)))


FLOATS = {
    ("exp", "float32"): _exp,
    ("exp", "float64"): _exp,
    ("log", "float32"): _log,
    ("log", "float64"): _log,
    ("sin", "float32"): _quarter(0),
    ("cos", "float32"): _quarter(1),
    ("sigmoid", "float32"): _sigmoid,
    ("tanh", "float32"): _tanh,
    ("erf", "float32"): _erf,
}
