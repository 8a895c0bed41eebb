"""Transcendental functions for machines whose floats are IEEE 754's to the letter, as WebAssembly's are.

`function` has the contract of `transcendental.function`, and takes fewer steps: infinities and NaN may come from
arithmetic, and a sum with 1.5 * 2**mantissa is rounded to an integer, which is in its low bits.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from sardonyx.compiler import transcendental
from sardonyx.compiler.polynomials import FITS, LN2
from sardonyx.compiler.program import Value, call, const
from sardonyx.compiler.transcendental import Body, Function, where


def function(name: str, dtype: str) -> Function | None:
    """What computes this scalar function on this dtype; None as there."""
    rule = _FLOATS.get((name, dtype)) or transcendental.rule(name, dtype)
    return rule and transcendental.write(name, dtype, rule, _Body)


class _Body(Body):
    def fit(self, name: str, x: Value) -> Value:
        """By Estrin's scheme: as many steps, in a third of the time where they overlap."""
        terms = [self.number(c) for c in FITS[self.dtype][name]]
        while len(terms) > 3:
            pairs = zip(terms[::2], terms[1::2])
            terms = [self.let(odd * x + even) for even, odd in pairs] + terms[len(terms) & ~1 :]
            x = self.let(x * x)
        return reduce(lambda total, c: total * x + c, terms[-2::-1], terms[-1])

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


def _exp(f: _Body, x: Value) -> Value:
    limits = np.finfo(f.dtype)
    lost = f.let(x < -math.log(2) * (f.bias + f.mantissa))
    # What underflows is not computed: processors are slow where it does.
    y = f.let(call("min", where(lost, f.number(0), x), f.number(math.log(limits.max) + 0.5)))
    n, bits = f.shifted(y * float(1 / LN2), 2 * f.bias)
    r = f.reduced(y, n)
    q = r * r * f.fit("exp", r)
    bits = f.let(bits)
    half = f.let(call("shr", bits, const(f.bits, 1)))
    return where(lost, f.number(0), (q + r + 1) * f.power(half) * f.power(bits - half))


def _tanh(f: _Body, x: Value) -> Value:
    """tanh(a) = (s - 1 + t * (s + 1)) / (s + 1 + t * (s - 1)) where a = r + log(s)/2, s = 2**n, t = tanh(r)."""
    a = f.let(call("min", call("abs", x), f.number(9.5)))
    n, bits = f.shifted(a * float(2 / LN2), f.bias)
    r = f.let(a - n * float(LN2 / 2))
    z = f.let(r * r)
    t = f.let(r * (z * f.fit("tanh", z)) + r)
    s = f.let(f.power(bits))
    less, more = f.let(s - 1), f.let(s + 1)
    return f.signed((t * more + less) / (t * less + more), x)


def _erf(f: _Body, x: Value) -> Value:
    """erf(a) = 1 - exp(-p) where p = a + a * fit(a)."""
    a = f.let(call("min", call("abs", x), f.number(3.95)))
    p = f.let(a * f.fit("erfc/x", a) - a)
    n, bits = f.shifted(p * float(1 / LN2), f.bias)
    r = f.let(p - n * float(LN2))
    power = f.let(f.power(bits))
    return f.signed(1 - power - power * (r * r * f.fit("exp", r) + r), x)


def _log(f: _Body, x: Value) -> Value:
    n, m = f.frexp(x)
    finite = f.reduced_log(n, f.let(m - 1), f.number(0))
    proper = where(x < math.inf, finite, x)
    return where(x > 0, proper, where(call("eq", x, f.number(0)), f.number(-math.inf), f.number(math.nan)))


_FLOATS = {
    ("exp", "float32"): _exp,
    ("exp", "float64"): _exp,
    ("log", "float32"): _log,
    ("log", "float64"): _log,
    ("tanh", "float32"): _tanh,
    ("erf", "float32"): _erf,
}
