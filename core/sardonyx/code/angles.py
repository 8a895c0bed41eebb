"""Sine, cosine and tangent: the nearest multiple of pi/2, and two polynomials of what is left.

Angles up to `NEAR` are reduced by subtracting the multiple part by part, after W. J. Cody and W. Waite, "Software
Manual for the Elementary Functions" (1980). Larger ones of float32 are reduced after M. Payne and R. Hanek, "Radian
reduction for trigonometric functions" (1983): of 1 / (2 * pi), in turns, only those bits matter that the significand
moves to the first places after the point. Larger ones of float64 lose accuracy, but results stay in their ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from sardonyx.code.approximation import Approximation, Beyond, ScalarBody, odd, where
from sardonyx.code.fits import HALF_PI, ONE, TURN, parts
from sardonyx.code.program import Value, call, cast, const

NEAR = 12_000.0, 1_600_000.0
"""Up to which size angles of float32 and of float64 are reduced part by part."""

Reduced: TypeAlias = tuple[Value, Value, Value]
"""(q, r, tail) of x = q * pi/2 + r + tail, where |r| <= pi/4 and the tail is what r lacks; q is an integer."""
Choice: TypeAlias = Callable[[ScalarBody, Value, Value, Value], Value]
"""Takes a ScalarBody, q, and the sine and the cosine of what is left."""


def sin(f: ScalarBody, x: Value) -> Value:
    return _near(f, x, where(_is_tiny(f, x), x, _sine(f, *_waves(f, _by_parts(f, x)))))


def cos(f: ScalarBody, x: Value) -> Value:
    return _near(f, x, _cosine(f, *_waves(f, _by_parts(f, x))))


def tan(f: ScalarBody, x: Value) -> Value:
    return _near(f, x, where(_is_tiny(f, x), x, _tangent(f, *_waves(f, _by_parts(f, x)))))


@cache
def beyond(name: str, dtype: str) -> Beyond | None:
    """What computes this function of large angles; None where its statements do, or it is none of angles."""
    if name not in _CHOICES or dtype != "float32":
        return None
    f = ScalarBody(dtype)
    x = Value(["var", dtype, "x"])
    y = _CHOICES[name](f, *_waves(f, _by_turns(f, x)))
    if name != "cos":
        y = f.from_bits(call("xor", f.to_bits(y), f.to_bits(x) & f.sign))
    result = f.keep_nan(x, where(call("isinf", x), f.nan, y))
    name = f"{name}_far"
    body = (*f.program(name).body, ["return", result.code])
    return Beyond(NEAR[0], Approximation(f"{name}_{dtype}", (("x", dtype),), dtype, body))


def _near(f: ScalarBody, x: Value, y: Value) -> Value:
    return f.keep_nan(x, where(call("isinf", x), f.nan, y) if f.wide else y)


def _is_tiny(f: ScalarBody, x: Value) -> Value:
    return call("abs", x) < 2.0 ** -(f.mantissa // 2 + 2)


def _sine(f: ScalarBody, q: Value, sin: Value, cos: Value) -> Value:
    return f.negated_if(odd(call("shr", q, const(f.bits, 1))), where(odd(q), cos, sin))


def _cosine(f: ScalarBody, q: Value, sin: Value, cos: Value) -> Value:
    return f.negated_if(odd(call("shr", q + 1, const(f.bits, 1))), where(odd(q), sin, cos))


def _tangent(f: ScalarBody, q: Value, sin: Value, cos: Value) -> Value:
    swap = f.let(odd(q))
    return where(swap, call("neg", cos), sin) / where(swap, sin, cos)


_CHOICES: dict[str, Choice] = {"sin": _sine, "cos": _cosine, "tan": _tangent}


def _waves(f: ScalarBody, reduced: Reduced) -> tuple[Value, Value, Value]:
    """q, and the sine and the cosine of r + tail."""
    q, r, tail = reduced
    z = f.let(r * r)
    h = f.let(z * 0.5)
    w = f.let(1 - h)
    sin = f.let(r + (r * z * f.fit("sin", z) + tail))
    cos = f.let(w + (1 - w - h + (z * z * f.fit("cos", z) - r * tail)))
    return q, sin, cos


def _by_parts(f: ScalarBody, x: Value) -> Reduced:
    n, integer = f.rounded(x * (ONE / HALF_PI))
    *exact, middle, last = parts(HALF_PI, *((33, 33) if f.wide else (11, 11, 11)))
    for part in exact:
        x = x - n * part
    x = f.let(x)
    high = f.let(x - n * middle)
    low = f.let(n * last - (x - high - n * middle))
    r = f.let(high - low)
    tail = high - r - low
    if f.wide:
        # Beyond the limit r is wrong, but sine and cosine must stay in their ranges.
        valid = f.let(call("abs", r) < 0.8)
        tail, r = where(valid, tail, f.number(0)), f.let(where(valid, r, f.number(0)))
    return f.let(integer), r, f.let(tail)


def _by_turns(f: ScalarBody, x: Value) -> Reduced:
    """Of abs(x), float32: its significand times 96 bits of 1 / (2 * pi) is a part of a turn, in units of 2**-64."""

    def wide(word: Value) -> Value:
        return cast("uint64", word)

    bits = f.let(f.to_bits(x) & ~f.sign)
    significand = f.let(wide((bits & ((1 << 23) - 1)) | (1 << 23)))
    # The word in which the bits begin, and how many bits of it are left out: the significand's last bit is worth
    # 2**(exponent - 150), and a word of zeros comes first, as that may be a fraction.
    place = f.let(call("shr", bits, const("int32", 23)) - 118)
    first, skipped = f.let(call("shr", place, const("int32", 5))), f.let(place & 31)
    words = [0, *(TURN * 2 ** (32 * k) // ONE % 2**32 for k in range(1, 8))]
    found = [f.let(wide(_at(first, words[k : k + 5]))) for k in range(4)]
    left = f.let(wide(32 - skipped))
    mask = const("uint64", 2**32 - 1)
    high, middle, low = (
        f.let(significand * (call("shr", call("shl", a, const("uint64", 32)) | b, left) & mask))
        for a, b in pairwise(found)
    )
    middle = f.let(middle + call("shr", low, const("uint64", 32)))
    turned = f.let(call("shl", high + call("shr", middle, const("uint64", 32)), const("uint64", 32)) | (middle & mask))
    quarter = f.let(call("shr", turned + 2**61, const("uint64", 62)))
    rest = f.let(cast("int64", turned - call("shl", quarter, const("uint64", 62))))
    # The float nearest to it, what that lacks, and both times 2 * pi / 2**64, whose first part has 12 bits.
    near = f.let(cast("float32", rest))
    lack = f.let(cast("float32", rest - cast("int64", near)))
    unit, little = (2.0**-62 * part for part in parts(HALF_PI, 12))
    upper = f.upper(near)
    exact = f.let(upper * unit)
    small = f.let((near - upper) * unit + (near * little + lack * unit))
    r = f.let(exact + small)
    return f.let(cast("int32", quarter)), r, f.let(small - (r - exact))


def _at(index: Value, words: list[int]) -> Value:
    """The word at an index from 0 on."""
    result = const("uint32", words[-1])
    for k, word in enumerate(words[:-1]):
        result = where(call("eq", index, const("int32", k)), const("uint32", word), result)
    return result
