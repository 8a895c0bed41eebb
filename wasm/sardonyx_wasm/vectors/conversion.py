"""Conversions of vectors: `functions.cast` and `bitcast` lane by lane, and the halves, as in `values` and `halves`."""

from __future__ import annotations

import math
from collections.abc import Callable

from sardonyx import errors

from ..assembler import Expr, ValueType, f32, f32x4, f64, f64x2, i32, i32x4, i64, i64x2
from ..scalars import functions
from ..scalars.values import Kind, kind
from .lanes import (
    Vector,
    VectorScope,
    Writer,
    chosen,
    collect,
    element,
    even_words,
    lanes,
    let,
    lower_words,
    number,
    once,
    types,
    words,
)

_INFINITY = 0x7F800000


def fitted(s: Writer, k: Kind, x: Expr) -> Expr:
    """Values, wrapped or rounded to what their dtype can hold."""
    if k.is_half:
        return _round_float16(s, x) if k.name == "float16" else _round_bfloat16(s, x)
    if k.bits >= 32 or k.family == "bool":
        return x
    if k.family == "int":
        return (x << (32 - k.bits)) >> (32 - k.bits)
    return x & number(s, i32x4, (1 << k.bits) - 1)


def _round_float16(s: Writer, x: Expr) -> Expr:
    x = once(s, x)
    sign = once(s, x & number(s, f32x4, -0.0))
    size = once(s, x ^ sign)
    exponent = size.as_(i32x4) & number(s, i32x4, _INFINITY)
    # Adding 2**13 times the leading bit pushes out all bits but float16's.
    push = i32x4.max_s(exponent, number(s, i32x4, 113 << 23)) + number(s, i32x4, 13 << 23)
    push = once(s, push.as_(f32x4))
    over = size >= number(s, f32x4, 65520)
    return chosen(s, over, number(s, f32x4, math.inf), size + push - push) | sign


def _round_bfloat16(s: Writer, x: Expr) -> Expr:
    x = once(s, x)
    bits = x.as_(i32x4)
    even = i32x4.shr_u(bits, 16) & number(s, i32x4, 1)
    quiet = bits | number(s, i32x4, 1 << 22)
    rounded = chosen(s, x != x, quiet, bits + number(s, i32x4, 0x7FFF) + even)
    return (rounded & number(s, i32x4, -1 << 16)).as_(f32x4)


def to_bits(s: Writer, k: Kind, x: Expr) -> Expr:
    """The bits of values of up to 32 bits as an i32x4: with zeros above those stored, with copies of an int's sign."""
    if k.name == "float16":
        return _float16_bits(s, x)
    if k.family == "float":
        return i32x4.shr_u(x.as_(i32x4), 16) if k.is_half else x.as_(i32x4)
    return x & number(s, i32x4, 1) if k.family == "bool" else x


def _float16_bits(s: Writer, x: Expr) -> Expr:
    x = once(s, x)
    size = once(s, abs(x))
    magnitude = size.as_(i32x4)
    normal = i32x4.shr_u(magnitude - number(s, i32x4, 112 << 23), 13)
    subnormal = (size + number(s, f32x4, 0.5)).as_(i32x4) - number(s, i32x4, 126 << 23)  # 0.5's last bit is 2**-24
    finite = chosen(s, magnitude < number(s, i32x4, 113 << 23), subnormal, normal)
    code = i32x4.min_s(finite, number(s, i32x4, 0x7C00)) | ((x != x) & number(s, i32x4, 0x200))
    return code | (i32x4.shr_u(x.as_(i32x4), 16) & number(s, i32x4, 0x8000))


def from_bits(s: Writer, k: Kind, bits: Expr) -> Expr:
    """The values of bits in an i32x4, of which those above the stored ones may be anything."""
    if k.name == "float16":
        return _float16_value(s, bits)
    if k.family != "float":
        return bits != 0 if k.family == "bool" else fitted(s, k, bits)
    return (bits << 16 if k.is_half else bits).as_(f32x4)


def _float16_value(s: Writer, bits: Expr) -> Expr:
    bits = once(s, bits)
    magnitude = once(s, (bits & number(s, i32x4, 0x7FFF)) << 13)
    leading = number(s, i32x4, 1 << 23)
    small = once(s, magnitude < leading)
    # Subnormals get a leading bit, which is subtracted again: processors are slow with those of float32.
    lifted = magnitude + number(s, i32x4, 112 << 23) + (small & leading)
    finite = lifted.as_(f32x4) - (small.as_(f32x4) & number(s, f32x4, 2.0**-14))
    special = (magnitude >= number(s, i32x4, 0x7C00 << 13)) & number(s, i32x4, _INFINITY)
    return (finite.as_(i32x4) | special | ((bits & number(s, i32x4, 0x8000)) << 16)).as_(f32x4)


def bitcast(s: VectorScope, to: Kind, k: Kind, x: Vector) -> Vector:
    """The same bits as values of another dtype of the same width."""
    if to.bits != k.bits:
        raise errors.NotImplemented(f"bitcast from {k.name} to {to.name}, which has another width")
    if to.bits == 64:
        return tuple(part.as_(lanes(to)) for part in x)
    return (from_bits(s, to, to_bits(s, k, x[0])),)


def cast(s: VectorScope, to: Kind, k: Kind, x: Vector, fits: bool = False) -> Vector:
    """Values of kind `k` converted: floats saturate to integers and NaN gives 0, integers wrap. Where an integer `fits`
    them all, which is known, there is less to do."""
    if "bits" in (to.family, k.family):
        raise errors.NotImplemented(f"cast from {k.name} to {to.name}; spell it with bitcast")
    if k.family == "bool":
        return x if to.family == "bool" else cast(s, to, kind("int32"), (x[0] & number(s, i32x4, 1),))
    if to.family == "bool":
        return (even_words(*(part != 0 for part in x)) if k.bits == 64 else x[0] != 0,)
    if to.is_half and k.type is f64:
        return _each(s, to, k, x)
    if k.type is f32 and k.family == "float" and to.family != "float" and to.bits < 32:
        return (_saturated(s, to, x[0], fits),)
    if to.type is not k.type:
        x = _CONVERSIONS[to.type, k.type](s, to, k, x)
    if to.bits >= 32 or to.name == k.name:
        return x
    if k.family == "float" and to.family != "float":
        return (_saturate(s, to, x[0]),)
    return (x[0] if fits else fitted(s, to, x[0]),)


def _saturated(s: Writer, to: Kind, x: Expr, fits: bool) -> Expr:
    """Floats truncated to an integer of fewer than 32 bits: within its range, hosts convert alike and at once."""
    low, high = (-1 << (to.bits - 1), (1 << (to.bits - 1)) - 1) if to.family == "int" else (0, (1 << to.bits) - 1)
    bottom, top = number(s, f32x4, low), number(s, f32x4, high)
    truncate = i32x4.relaxed_trunc_f32x4_s if s.fused else i32x4.trunc_sat_f32x4_s
    if low == 0:  # the first operand of pmax is what becomes of NaN
        return truncate(f32x4.pmin(top, f32x4.pmax(bottom, x)))
    x = once(s, x if fits else f32x4.pmin(f32x4.pmax(x, bottom), top))
    return truncate(x) & (x == x) if s.fused else truncate(x)


def _saturate(s: Writer, to: Kind, x: Expr) -> Expr:
    """Values that have saturated to 32 bits, to fewer."""
    if to.family == "uint":
        return i32x4.min_u(x, number(s, i32x4, (1 << to.bits) - 1))
    limit = 1 << (to.bits - 1)
    return i32x4.min_s(i32x4.max_s(x, number(s, i32x4, -limit)), number(s, i32x4, limit - 1))


def to_doubles(signed: str, x: Expr) -> Vector:
    """The f64 of an i32x4, which is a variable."""
    convert = getattr(f64x2, f"convert_low_i32x4_{signed}")
    return convert(x), convert(words(x, x, 2, 3, 2, 3))


def from_doubles(signed: str, x: Vector) -> Expr:
    """f64 saturated to an i32x4."""
    truncate = getattr(i32x4, f"trunc_sat_f64x2_{signed}_zero")
    return lower_words(*map(truncate, x))


def _each(s: VectorScope, to: Kind, k: Kind, x: Vector) -> Vector:
    """The scalars' conversion, where there is no instruction."""
    x = let(s, x)
    results = [functions.cast(s, to, k, element(k, part, at)) for part in x for at in range(4 // len(x))]
    count = 4 // len(types(to))
    return tuple(collect(to, results[at : at + count]) for at in range(0, 4, count))


def _promote(s: VectorScope, to: Kind, k: Kind, x: Vector) -> Vector:
    part = once(s, x[0])
    return f64x2.promote_low_f32x4(part), f64x2.promote_low_f32x4(words(part, part, 2, 3, 2, 3))


def _extend(s: VectorScope, to: Kind, k: Kind, x: Vector) -> Vector:
    part = once(s, x[0])
    low, high = (getattr(i64x2, f"extend_{half}_i32x4_{k.signed}")(part) for half in ("low", "high"))
    return low, high


_CONVERSIONS: dict[tuple[ValueType, ValueType], Callable[..., Vector]] = {
    (f32, i32): lambda s, to, k, x: (getattr(f32x4, f"convert_i32x4_{k.signed}")(*x),),
    (i32, f32): lambda s, to, k, x: (getattr(i32x4, f"trunc_sat_f32x4_{to.signed}")(*x),),
    (f64, i32): lambda s, to, k, x: to_doubles(k.signed, once(s, x[0])),
    (i32, f64): lambda s, to, k, x: (from_doubles(to.signed, x),),
    (f64, f32): _promote,
    (f32, f64): lambda s, to, k, x: (lower_words(*map(f32x4.demote_f64x2_zero, x)),),
    (i64, i32): _extend,
    (i32, i64): lambda s, to, k, x: (even_words(*x),),
    (f32, i64): _each, (f64, i64): _each, (i64, f32): _each, (i64, f64): _each,
}  # fmt: skip
